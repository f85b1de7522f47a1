//! `dream-gateway decode`: any captured message as text, and why it is invalid if it is.
//!
//! Nothing here needs a secret: tags stay unchecked, because only the gateway and the meter can check them, while
//! signatures are checked against authorities that the user names.

mod check;
mod fields;
pub(super) mod input;
mod lists;
mod message;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use dream_protocol::wire::{EvidenceStatement, FullList, ShortList};

use self::input::Context;
use self::message::{Body, Envelope, Message, Plain};

const EXAMPLES: &str = "\
Examples:
  echo 8443a10104a0581a85014800010203040506071a002d78a00048abad55ca42b55a9d48c0fd9511ffecc7d2 |
    dream-gateway decode --topic dream/v1/north/reading/m-0001 --slot-seconds 600
  mosquitto_sub -t dream/v1/north/membership/full -C 1 -N > list.cbor
  dream-gateway decode list.cbor --members \\
    --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem
  mosquitto_sub -t dream/v1/north/recovery -C 1 -F %x |
    dream-gateway decode --list list.cbor \\
      --meter-authority meter-authority.pem --gateway-authority gateway-authority.pem

Exit codes: 0 if nothing is wrong with the message, 1 if it is invalid, 2 if the command is.";

/// A captured message, and what is known about it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DecodeArgs {
    /// The file that holds the message; `-` is the standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The topic that it was sent on: it must match the message
    #[arg(long)]
    topic: Option<String>,
    /// Certificates of authorities that are trusted to certify meters, in PEM; may be given more than once
    #[arg(long, value_name = "PEM")]
    meter_authority: Vec<PathBuf>,
    /// Certificates of authorities that are trusted to certify gateways, in PEM; may be given more than once
    #[arg(long, value_name = "PEM")]
    gateway_authority: Vec<PathBuf>,
    /// The membership list that was in force: gives the times of slots, the names of members and the gateway's key
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// How long slots are, to show their times without a list
    #[arg(long, value_name = "SECONDS", conflicts_with = "list", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    slot_seconds: Option<u64>,
    /// Also name the members of a list, or those that a request calls missing
    #[arg(long)]
    members: bool,
    /// The input is hexadecimal; without `--hex` and `--raw`, this is so if it looks like it
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
    /// The input is the message itself, byte for byte
    #[arg(long)]
    raw: bool,
}

impl DecodeArgs {
    pub(crate) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let bytes = input::message(self)?;
        let report = Report::of(&bytes, &Context::new(self)?);
        report.write(out)?;
        if report.problems.is_empty() {
            return Ok(());
        }
        out.flush()?;
        anyhow::bail!("the message is invalid")
    }
}

/// What is said about a message.
#[derive(Debug)]
struct Report {
    title: String,
    rows: Vec<(&'static str, String)>,
    problems: Vec<String>,
}

impl Report {
    /// Reads as much of the message as can be read.
    fn of(bytes: &[u8], context: &Context) -> Self {
        let mut report = Self { title: String::new(), rows: Vec::new(), problems: Vec::new() };
        let name = match Plain::recognise(bytes) {
            Some(plain) => {
                report.plain(plain, context);
                plain.name()
            }
            None => report.message(bytes, context),
        };
        report.title = format!("{name}, {} bytes", bytes.len());
        report
    }

    fn plain(&mut self, plain: Plain, context: &Context) {
        self.row("meaning", plain.meaning());
        if plain == Plain::Empty {
            self.problem("it has no bytes");
        }
        self.topic(context, |topic| check::plain_topic(topic, plain));
    }

    /// Lists are arrays of two parts, short ones of three, and evidence of five; everything else is an envelope of four.
    fn message(&mut self, bytes: &[u8], context: &Context) -> &'static str {
        match bytes.first() {
            Some(0x82) => match FullList::decode(bytes) {
                Ok(list) => self.enveloped(bytes, list.header, Body::Full(list), context),
                Err(error) => self.unreadable(bytes, format!("its list does not decode: {error}")),
            },
            Some(0x83) => match ShortList::decode(bytes) {
                Ok(list) => self.enveloped(bytes, list.header, Body::Short(list), context),
                Err(error) => self.unreadable(bytes, format!("its short list does not decode: {error}")),
            },
            Some(0x85) => match EvidenceStatement::decode(bytes) {
                Ok(evidence) => {
                    fields::evidence(&evidence, context, self);
                    "evidence (message 11)"
                }
                Err(error) => self.unreadable(bytes, format!("its evidence does not decode: {error}")),
            },
            _ => self.enveloped(bytes, bytes, Body::Nothing, context),
        }
    }

    fn unreadable(&mut self, bytes: &[u8], problem: String) -> &'static str {
        self.row("starts with", fields::hex_prefix(bytes));
        self.problem(problem);
        "unreadable message"
    }

    /// Reads an envelope, and what follows it if it is a list's.
    fn enveloped<'a>(
        &mut self,
        bytes: &'a [u8],
        envelope: &'a [u8],
        body: Body<'a>,
        context: &Context,
    ) -> &'static str {
        let envelope = match Envelope::decode(envelope) {
            Ok(envelope) => envelope,
            Err(problem) => return self.unreadable(bytes, format!("its envelope does not decode: {problem}")),
        };
        let message = Message::decode(envelope.payload());
        fields::envelope(&envelope, self);
        let message = match message {
            Ok(Message::List(header, _)) => Message::List(header, body),
            Ok(_) if !matches!(body, Body::Nothing) => {
                return self.unreadable(bytes, "it does not start with the header of a list".to_owned());
            }
            Ok(message) => message,
            Err(problem) => {
                let start = envelope.payload().as_ptr().addr() - bytes.as_ptr().addr();
                self.row("payload", format!("from byte {start} on; places in it are counted from there"));
                fields::seal(&envelope, self);
                self.problem(format!("its payload does not decode: {problem}"));
                return "unreadable message";
            }
        };
        fields::message(&message, &envelope, context, self);
        fields::seal(&envelope, self);
        if let Err(problem) = check::seal(&message, &envelope) {
            self.problem(problem);
        }
        self.topic(context, |topic| check::topic(topic, &message, &envelope, context));
        match check::verify(bytes, &message, &envelope, context) {
            check::Verdict::Verified(how) => self.row("verified", format!("yes: {how}")),
            check::Verdict::Unchecked(why) => self.row("verified", format!("not checked: {why}")),
            check::Verdict::Refused(why) => {
                self.row("verified", "no");
                self.problem(why);
            }
        }
        message.name()
    }

    fn topic(&mut self, context: &Context, fits: impl FnOnce(&str) -> Result<(), String>) {
        let Some(topic) = &context.topic else { return };
        match fits(topic) {
            Ok(()) => self.row("topic", format!("{topic}, which fits")),
            Err(problem) => {
                self.row("topic", format!("{topic}, which does not fit"));
                self.problem(problem);
            }
        }
    }

    fn row(&mut self, name: &'static str, value: impl Into<String>) {
        self.rows.push((name, value.into()));
    }

    fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}", self.title)?;
        self.rows.iter().try_for_each(|(name, value)| writeln!(out, "  {name:<17}{value}"))?;
        self.problems.iter().try_for_each(|problem| writeln!(out, "  {:<17}{problem}", "INVALID"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOTHING_KNOWN: Context =
        Context { topic: None, authorities: None, list: None, slot_seconds: Some(u64::MAX), name_members: true };

    /// The reading of `protocol.md 7`.
    const READING: &[u8] = b"\x84\x43\xa1\x01\x04\xa0\x58\x1a\x85\x01\x48\x00\x01\x02\x03\x04\x05\x06\x07\x1a\x00\x2d\
        \x78\xa0\x00\x48\xab\xad\x55\xca\x42\xb5\x5a\x9d\x48\xc0\xfd\x95\x11\xff\xec\xc7\xd2";

    fn shown(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        Report::of(bytes, &NOTHING_KNOWN).write(&mut text).expect("writing to memory");
        String::from_utf8(text).expect("only text is written")
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_report_and_no_panic(bytes: Vec<u8>) {
            prop_assert!(shown(&bytes).contains(" bytes\n"));
        }

        #[test]
        fn any_payload_gives_a_report_and_no_panic(kind in 0u8..13, fields in 0u8..24, rest: [u8; 23]) {
            let payload = [&[0x80 | fields, kind], rest.as_slice()].concat();
            let sealed = [b"\x84\x43\xa1\x01\x04\xa0\x58\x19", payload.as_slice(), b"\x48", &[0; 8]].concat();
            prop_assert!(shown(&sealed).contains("COSE_Mac0"));
        }

        #[test]
        fn a_reading_with_any_byte_changed_gives_a_report_and_no_panic(at in 0..READING.len(), byte: u8) {
            let mut bytes = READING.to_vec();
            bytes[at] = byte;
            prop_assert!(shown(&bytes).contains(" bytes\n"));
        }
    }

    #[test]
    fn the_reading_of_the_specification_is_shown_without_complaint() {
        let report = Report::of(READING, &NOTHING_KNOWN);
        assert_eq!((report.title.as_str(), report.problems.len()), ("reading (message 1), 43 bytes", 0));
        assert!(report.rows.contains(&("ciphertext", "abad55ca42b55a9d".to_owned())));
    }
}
