//! `p1` and `sml`: meters that send telegrams by themselves, over a serial port or a bridge.

use std::time::Duration;

use dream_edge::config::Section;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};

use crate::config::cadence;
use crate::link::Link;
use crate::outlet::{Outlet, Stop};
use crate::p1::frames::Frames as P1Frames;
use crate::p1::telegram::{self, Checksum};
use crate::sample::Values;
use crate::serial::{Framing, Line};
use crate::slot_mean::Cadence;
use crate::sml::{self, Crc, Frames as SmlFrames};

/// DSMR 4 and later, Belgium, Luxembourg, Sweden.
const P1_FAST: Line = Line { baud: 115_200, framing: Framing::EightNone };

/// DSMR 2 and 3, EasyMeter.
const P1_SLOW: Line = Line { baud: 9_600, framing: Framing::SevenEven };

#[derive(Debug, Clone)]
pub(crate) struct Telegrams {
    link: Link,
    /// What the line may be; the first is tried next.
    lines: Vec<Line>,
    format: Format,
    invert: bool,
    cadence: Cadence,
    patience: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    P1(Checksum),
    Sml(Crc),
}

impl Telegrams {
    /// Reads the customer port of a meter, which sends OBIS lines in text.
    pub(crate) fn p1(section: &Section<'_>) -> Option<Self> {
        let known = [("auto", &[P1_FAST, P1_SLOW][..]), ("115200-8n1", &[P1_FAST]), ("9600-7e1", &[P1_SLOW])];
        let lines = section.key("line").one_of(&known).unwrap_or(known[0].1);
        let checksum = section.key("checksum").one_of(&[("check", Checksum::Check), ("ignore", Checksum::Ignore)]);
        Self::configured(section, lines, Format::P1(checksum.unwrap_or_default()))
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
        Some(Self { link: Link::read(section)?, lines: lines.to_vec(), format, invert, cadence, patience })
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
        let mut decoder = Decoder::new(self.format);
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
                        outlet.sample(if self.invert { values.inverted() } else { values }).await?;
                        deadline = Instant::now() + self.patience;
                    }
                    Err(problem) => outlet.lost(problem).await?,
                }
            }
        }
    }

    fn silence(&self) -> String {
        let seconds = self.patience.as_secs();
        match self.format {
            Format::P1(_) => format!(
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
    Sml(SmlFrames, Crc),
}

impl Decoder {
    fn new(format: Format) -> Self {
        match format {
            Format::P1(checksum) => Self::P1(P1Frames::default(), checksum),
            Format::Sml(crc) => Self::Sml(SmlFrames::default(), crc),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::P1(frames, _) => frames.push(bytes),
            Self::Sml(frames, _) => frames.push(bytes),
        }
    }

    fn next(&mut self) -> Option<Result<Values, String>> {
        match self {
            Self::P1(frames, checksum) => {
                let telegram = telegram::parse(&frames.next_frame()?, *checksum);
                Some(telegram.map(|telegram| telegram.values).map_err(|error| error.to_string()))
            }
            Self::Sml(frames, crc) => Some(sml::parse(&frames.next_frame()?, *crc).map_err(|error| error.to_string())),
        }
    }
}
