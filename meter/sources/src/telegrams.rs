//! `p1`, `sml`, `dlms` and `tic`: meters that send telegrams by themselves, over a serial port or a bridge.

use std::time::Duration;

use dream_edge::config::Section;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};

use crate::ciphered::{self, CipherError, Keys};
use crate::config::cadence;
use crate::dlms;
use crate::link::Link;
use crate::outlet::{Outlet, Stop};
use crate::p1::frames::Frames as P1Frames;
use crate::p1::telegram::{self, Checksum};
use crate::sample::Values;
use crate::serial::{Framing, Line};
use crate::slot_mean::Cadence;
use crate::sml::{self, Crc, Frames as SmlFrames};
use crate::tic;

/// DSMR 4 and later, Belgium, Luxembourg, Sweden.
const P1_FAST: Line = Line { baud: 115_200, framing: Framing::EightNone };

/// DSMR 2 and 3, EasyMeter.
const P1_SLOW: Line = Line { baud: 9_600, framing: Framing::SevenEven };

/// The HAN ports of Norway, Sweden and Switzerland.
const HAN_EVEN: Line = Line { baud: 2_400, framing: Framing::EightEven };
const HAN_NONE: Line = Line { baud: 2_400, framing: Framing::EightNone };

/// Linky in its historic form.
const TIC_HISTORIC: Line = Line { baud: 1_200, framing: Framing::SevenEven };

#[derive(Debug, Clone)]
pub(crate) struct Telegrams {
    link: Link,
    /// What the line may be; the first is tried next.
    lines: Vec<Line>,
    format: Format,
    invert: bool,
    import_only: bool,
    cadence: Cadence,
    patience: Duration,
}

#[derive(Debug, Clone)]
enum Format {
    P1(Checksum),
    /// P1 telegrams in messages that are encrypted.
    CipheredP1(Checksum, Keys),
    Sml(Crc),
    Dlms(Option<Keys>),
    Tic,
}

impl Telegrams {
    /// Reads the customer port of a meter, which sends OBIS lines in text.
    pub(crate) fn p1(section: &Section<'_>) -> Option<Self> {
        let known = [("auto", &[P1_FAST, P1_SLOW][..]), ("115200-8n1", &[P1_FAST]), ("9600-7e1", &[P1_SLOW])];
        let lines = section.key("line").one_of(&known).unwrap_or(known[0].1);
        let checksum = section.key("checksum").one_of(&[("check", Checksum::Check), ("ignore", Checksum::Ignore)]);
        let checksum = checksum.unwrap_or_default();
        let keys = Keys::read(section);
        if section.has("key_file") && keys.is_none() {
            return None;
        }
        let format = keys.map_or(Format::P1(checksum), |keys| Format::CipheredP1(checksum, keys));
        Self::configured(section, lines, format)
    }

    /// Reads what a meter pushes over HDLC.
    pub(crate) fn dlms(section: &Section<'_>) -> Option<Self> {
        let known = [
            ("auto", &[HAN_EVEN, HAN_NONE, P1_FAST][..]),
            ("2400-8e1", &[HAN_EVEN]),
            ("2400-8n1", &[HAN_NONE]),
            ("115200-8n1", &[P1_FAST]),
        ];
        let lines = section.key("line").one_of(&known).unwrap_or(known[0].1);
        let keys = Keys::read(section);
        if section.has("key_file") && keys.is_none() {
            return None;
        }
        Self::configured(section, lines, Format::Dlms(keys))
    }

    /// Reads the customer output of a French meter.
    pub(crate) fn tic(section: &Section<'_>) -> Option<Self> {
        let known = [("auto", &[TIC_HISTORIC, P1_SLOW][..]), ("1200-7e1", &[TIC_HISTORIC]), ("9600-7e1", &[P1_SLOW])];
        let lines = section.key("line").one_of(&known).unwrap_or(known[0].1);
        let import_only = section.key("import_only").flag().unwrap_or(false);
        Some(Self { import_only, ..Self::configured(section, lines, Format::Tic)? })
    }

    /// Reads the optical interface of a German meter.
    pub(crate) fn sml(section: &Section<'_>) -> Option<Self> {
        let baud = section.key("baud").number(300..=921_600).unwrap_or(9600);
        let crc = section.key("crc").one_of(&[("x25", Crc::X25), ("kermit", Crc::Kermit)]).unwrap_or_default();
        Self::configured(section, &[Line { baud, framing: Framing::EightNone }], Format::Sml(crc))
    }

    fn configured(section: &Section<'_>, lines: &[Line], format: Format) -> Option<Self> {
        let (cadence, interval_millis) = cadence(section);
        // Whether the meter counts what the home feeds in as import.
        let invert = section.key("invert").flag().unwrap_or(false);
        // Some telegrams may be broken before the line is taken for a wrong one.
        let patience = Duration::from_millis(interval_millis * 3 + 5_000);
        let link = Link::read(section)?;
        Some(Self { link, lines: lines.to_vec(), format, invert, import_only: false, cadence, patience })
    }

    pub(crate) const fn cadence(&self) -> Cadence {
        self.cadence
    }

    pub(crate) async fn session(&mut self, outlet: &mut Outlet) -> Stop {
        outlet.has_sampled = false;
        let stop = self.read(outlet).await;
        if !outlet.has_sampled {
            // Perhaps the line has the other speed.
            self.lines.rotate_left(1);
        }
        stop.err().unwrap_or(Stop::Closed)
    }

    /// Reads until something is wrong, which it always returns.
    async fn read(&self, outlet: &mut Outlet) -> Result<(), Stop> {
        let mut stream = self.link.open(self.lines[0]).await?;
        outlet.connected().await?;
        let mut decoder = Decoder::new(self.format.clone());
        let mut deadline = Instant::now() + self.patience;
        let mut bytes = [0; 1024];
        loop {
            let Ok(read) = timeout_at(deadline, stream.read(&mut bytes)).await else {
                return Err(Stop::Lost(self.silence()));
            };
            match read? {
                0 => return Err(Stop::Lost("the connection was closed".to_owned())),
                read => decoder.push(&bytes[..read]),
            }
            while let Some(telegram) = decoder.next() {
                match telegram {
                    Ok(values) => {
                        let values = self.whole(values);
                        outlet.sample(if self.invert { values.inverted() } else { values }).await?;
                        deadline = Instant::now() + self.patience;
                    }
                    Err(problem) => outlet.garbled(problem).await?,
                }
            }
        }
    }

    /// What a telegram says together with what it leaves out: the meter itself says everything that it counts, and one whose
    /// telegram has neither power nor a counter of export counts none. A French meter is silent about export in any case.
    fn whole(&self, values: Values) -> Values {
        let counts_none = match self.format {
            Format::P1(_) | Format::CipheredP1(..) | Format::Sml(_) => values.power.is_none(),
            Format::Tic => self.import_only,
            Format::Dlms(_) => false,
        };
        // There is no power that could contradict it.
        values.import_only(counts_none).unwrap_or_default()
    }

    fn silence(&self) -> String {
        let seconds = self.patience.as_secs();
        match self.format {
            Format::P1(_) | Format::CipheredP1(..) | Format::Dlms(_) | Format::Tic => format!(
                "no telegram came for {seconds} s: check that the port is enabled, the cable requests data, and the baud rate is right"
            ),
            Format::Sml(_) => {
                format!("no message came for {seconds} s: check the position of the optical head, and its baud rate")
            }
        }
    }
}

/// Makes samples of bytes.
#[derive(Debug)]
enum Decoder {
    P1(P1Frames, Checksum),
    CipheredP1(ciphered::Frames, Checksum, Keys),
    Sml(SmlFrames, Crc),
    Dlms(dlms::Frames, Option<Keys>),
    Tic(tic::Frames),
}

impl Decoder {
    fn new(format: Format) -> Self {
        match format {
            Format::P1(checksum) => Self::P1(P1Frames::default(), checksum),
            Format::CipheredP1(checksum, keys) => Self::CipheredP1(ciphered::Frames::default(), checksum, keys),
            Format::Sml(crc) => Self::Sml(SmlFrames::default(), crc),
            Format::Dlms(keys) => Self::Dlms(dlms::Frames::default(), keys),
            Format::Tic => Self::Tic(tic::Frames::default()),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::P1(frames, _) => frames.push(bytes),
            Self::CipheredP1(frames, ..) => frames.push(bytes),
            Self::Sml(frames, _) => frames.push(bytes),
            Self::Dlms(frames, _) => frames.push(bytes),
            Self::Tic(frames) => frames.push(bytes),
        }
    }

    fn next(&mut self) -> Option<Result<Values, String>> {
        match self {
            Self::P1(frames, checksum) => Some(p1(&frames.next_frame()?, *checksum)),
            Self::CipheredP1(frames, checksum, keys) => {
                let opened = keys.open(&frames.next_frame()?).map_err(|error: CipherError| error.to_string());
                Some(opened.and_then(|telegram| p1(&telegram, *checksum)))
            }
            Self::Sml(frames, crc) => Some(sml::parse(&frames.next_frame()?, *crc).map_err(|error| error.to_string())),
            Self::Dlms(frames, keys) => {
                let message = frames.next_frame()?;
                Some(
                    message.and_then(|message| dlms::parse(&message, keys.as_ref())).map_err(|error| error.to_string()),
                )
            }
            Self::Tic(frames) => Some(tic::parse(&frames.next_frame()?).map_err(|error| error.to_string())),
        }
    }
}

fn p1(telegram: &[u8], checksum: Checksum) -> Result<Values, String> {
    telegram::parse(telegram, checksum).map(|telegram| telegram.values).map_err(|error| error.to_string())
}
