//! The fields of each message, with names and units.

use dream_protocol::certificate::{Certificate, CertifiedCluster, Subject};
use dream_protocol::evidence;
use dream_protocol::member_set::MemberSet;
use dream_protocol::scheme::Kind;
use dream_protocol::time::Slot;
use dream_protocol::wire::{DealtReading, EnrolmentStatement, EvidenceStatement, RecoveryRequest, Status, StatusCode};

use super::Report;
use super::input::{self, Context};
use super::lists;
use super::message::{Envelope, Message};

/// The envelope's kind and its certificate.
pub(super) fn envelope(envelope: &Envelope<'_>, report: &mut Report) {
    report.row(
        "envelope",
        match envelope {
            Envelope::Mac0(_) => "COSE_Mac0, HMAC 256/64 (algorithm 4)",
            Envelope::Sign1(_) => "COSE_Sign1, EdDSA (algorithm -8)",
        },
    );
    match envelope.certificate().map(Certificate::unverified) {
        None => report.row("certificate", "none"),
        Some(Ok(certificate)) => report.row("certificate", subject(&certificate)),
        Some(Err(error)) => {
            report.row("certificate", "unreadable");
            report.problem(format!("its certificate: {error}"));
        }
    }
}

/// The tag or the signature.
pub(super) fn seal(envelope: &Envelope<'_>, report: &mut Report) {
    match envelope {
        Envelope::Mac0(envelope) => report.row("tag", hex(envelope.tag())),
        Envelope::Sign1(envelope) => report.row("signature", hex_prefix(envelope.signature())),
    }
}

/// What the payload says.
pub(super) fn message(message: &Message<'_>, envelope: &Envelope<'_>, context: &Context, report: &mut Report) {
    match message {
        Message::Reading(reading) => {
            attempt(&reading.list, reading.slot, reading.attempt, context, report);
            of_scheme(&reading.list, Kind::Pairwise, context, report);
            report.row("ciphertext", format!("{:016x}", reading.ciphertext));
        }
        Message::Request(request) => {
            attempt(&request.list.0, request.slot, request.attempt, context, report);
            missing(request, context, report);
            report.row("deadline", time(request.deadline));
            report.row("request hash", hex(&input::hash(envelope.payload()).prefix()));
        }
        Message::Reveal(reveal) => {
            attempt(&reveal.list, reveal.slot, reveal.attempt, context, report);
            of_scheme(&reveal.list, Kind::Pairwise, context, report);
            report.row("revealed", format!("{:016x}", reveal.revealed));
            report.row("request hash", hex(&reveal.request));
        }
        Message::Dealt(reading) => {
            attempt(&reading.list, reading.slot, reading.attempt, context, report);
            report.row("ciphertext", hex(&reading.ciphertext.to_be_bytes()));
            corrections(reading, context, report);
        }
        Message::Answer(answer) => {
            attempt(&answer.list, answer.slot, answer.attempt, context, report);
            of_scheme(&answer.list, Kind::Committee, context, report);
            report.row("sum", hex(&answer.sum.to_be_bytes()));
            report.row("request hash", hex(&answer.request));
        }
        Message::Enrolment(statement) => enrolment(statement, report),
        Message::List(header, body) => lists::list(header, body, envelope, context, report),
        Message::Status(message) => status(message, context, report),
        Message::Retry(retry) => {
            attempt(&retry.list.0, retry.slot, retry.attempt, context, report);
            report.row("deadline", time(retry.deadline));
        }
    }
}

/// What holders after the first q are off by; how many there must be follows from the list.
fn corrections(reading: &DealtReading<'_>, context: &Context, report: &mut Report) {
    let found = reading.corrections.len() / 8;
    report.row("corrections", format!("{found}, for the holders after the first q"));
    of_scheme(&reading.list, Kind::Committee, context, report);
    let committee = context.list_of(&reading.list).and_then(|list| list.params.terms().scheme.committee());
    if let Some(expected) = committee.map(|committee| committee.spare()).filter(|&expected| expected != found as u64) {
        report.problem(format!("it has {found} corrections; the list's committee needs {expected} (K - q)"));
    }
}

/// Finds a message that is of another scheme than its list.
fn of_scheme(list: &[u8], kind: Kind, context: &Context, report: &mut Report) {
    let Some(list) = context.list_of(list) else { return };
    let found = list.params.terms().scheme.kind();
    if found != kind {
        report.problem(format!("it is a message of the {kind} scheme, and its list is of the {found} one"));
    }
}

fn attempt(list: &[u8], slot: Slot, attempt: u8, context: &Context, report: &mut Report) {
    list_hash(list, context, report);
    report.row("slot", slot_times(slot, slot, context.slot_seconds_of(list)));
    report.row("attempt", attempt.to_string());
    let Some(list) = context.list_of(list) else { return };
    if !list.slots.contains(&slot) {
        report.problem(format!("slot {slot} is not one of the list's, {} to {}", list.slots.start(), list.slots.end()));
    }
    if attempt >= list.params.attempts() {
        let attempts = list.params.attempts();
        report.problem(format!("attempt {attempt} is too high: they count from 0, and the list allows {attempts}"));
    }
}

fn list_hash(list: &[u8], context: &Context, report: &mut Report) {
    let other = context.list.is_some() && context.list_of(list).is_none();
    report.row("list hash", format!("{}{}", hex(list), if other { ", another list than --list" } else { "" }));
}

fn missing(request: &RecoveryRequest, context: &Context, report: &mut Report) {
    let count: u32 = request.missing.iter().map(|byte| byte.count_ones()).sum();
    report.row("missing", format!("{count}, as the bitmap {}", hex_prefix(&request.missing)));
    let Some(list) = context.list_of(&request.list.0) else { return };
    let (members, most) = (list.params.members(), list.params.max_missing());
    match MemberSet::from_bytes(members, &request.missing) {
        Ok(set) if context.name_members => {
            set.iter().for_each(|member| report.row("  missing", list.members[usize::from(member)].clone()));
        }
        Ok(_) => {}
        Err(error) => report.problem(error.to_string()),
    }
    if count > most.into() {
        report.problem(format!("it names {count} missing members; the list allows {most}"));
    }
}

fn enrolment(statement: &EnrolmentStatement, report: &mut Report) {
    report.row("cluster", statement.cluster.to_string());
    report.row("certificate hash", hex(&statement.certificate));
    report.row("X25519 key", hex(&statement.agreement.0));
    report.row("not before", time(statement.not_before));
    report.row("not after", time(statement.not_after));
    report.row("seq", time(statement.seq));
    report.row(
        "holds shares",
        match statement.holds {
            0 => "of nobody".to_owned(),
            most => format!("of others, in clusters of up to {most}"),
        },
    );
}

fn status(status: &Status, context: &Context, report: &mut Report) {
    report.row("cluster", status.cluster.to_string());
    match &status.list {
        Some(list) => list_hash(list, context, report),
        None => report.row("list hash", "none"),
    }
    match status.slot {
        Slot(0) => report.row("slot", "none"),
        slot => {
            let seconds = status.list.map_or(context.slot_seconds, |list| context.slot_seconds_of(&list));
            report.row("slot", slot_times(slot, slot, seconds));
        }
    }
    report.row("code", format!("{}: {}", status.code as u64, meaning(status.code)));
    report.row("newest list", if status.newest_epoch == 0 { "none".to_owned() } else { time(status.newest_epoch) });
    let least = status.least_malicious;
    report.row("least T", if least == 0 { "any".to_owned() } else { least.to_string() });
    match EvidenceStatement::decode(&status.evidence) {
        _ if status.evidence.is_empty() => {}
        Ok(found) => evidence(&found, context, report),
        Err(error) => report.problem(format!("its evidence does not decode: {error}")),
    }
}

/// Two messages that contradict each other, and what they show.
pub(super) fn evidence(evidence: &EvidenceStatement, context: &Context, report: &mut Report) {
    report.row("evidence", format!("{} bytes, of cluster {}", evidence.encode().len(), evidence.cluster));
    report.row("  first", said(&evidence.first, context));
    report.row("  second", said(&evidence.second, context));
    match context.authorities.as_ref().map(|authorities| evidence::judge(evidence, authorities)) {
        None => report.row("  shows", "not checked: give --gateway-authority"),
        Some(Ok(verdict)) => {
            report.row("  shows", format!("of gateway {}: {}", verdict.gateway, verdict.contradiction))
        }
        Some(Err(error)) => {
            report.row("  shows", "nothing");
            report.problem(error.to_string());
        }
    }
}

/// Says in a line what a message of evidence is.
fn said(bytes: &[u8], context: &Context) -> String {
    let message = Envelope::decode(bytes).and_then(|envelope| {
        let message = Message::decode(envelope.payload())?;
        Ok((message.name(), about(&message, context)))
    });
    message.map_or_else(|problem| format!("unreadable: {problem}"), |(name, about)| format!("{name} {about}"))
}

fn about(message: &Message<'_>, context: &Context) -> String {
    let attempt = |list: &[u8], slot, attempt| {
        format!("for attempt {attempt} of slot {}", slot_times(slot, slot, context.slot_seconds_of(list)))
    };
    match message {
        Message::Request(request) => attempt(&request.list.0, request.slot, request.attempt),
        Message::Retry(retry) => attempt(&retry.list.0, retry.slot, retry.attempt),
        Message::List(header, _) => format!("of epoch {}", time(header.epoch)),
        Message::Reading(_)
        | Message::Reveal(_)
        | Message::Dealt(_)
        | Message::Answer(_)
        | Message::Enrolment(_)
        | Message::Status(_) => "which no gateway sends".to_owned(),
    }
}

fn meaning(code: StatusCode) -> &'static str {
    match code {
        StatusCode::NoList => "no list, the meter has none in force and is silent",
        StatusCode::ListRefused => "list refused, by the protocol's rules or the meter's policy",
        StatusCode::NotListed => "not listed, the meter is not a member of the list",
        StatusCode::LedgerExhausted => "ledger exhausted, the meter has spent its privacy budget of the day",
        StatusCode::ClockDoubtful => "clock doubtful, the meter waits until its time is confirmed",
        StatusCode::RecordLost => "record lost, the list names keys that the meter no longer holds",
        StatusCode::RequestRefused => "request refused, it broke a rule",
        StatusCode::Equivocation => "equivocation, the gateway signed two statements that contradict each other",
        StatusCode::NotAsked => "not asked, the meter sent a reading and got no request",
    }
}

/// Describes a certificate: its role, its id, the cluster that it is for and its validity.
fn subject(certificate: &Certificate) -> String {
    let who = match certificate.subject() {
        Subject::Meter(id) => format!("of meter {id}"),
        Subject::Gateway(id) => format!("of gateway {id}"),
    };
    let cluster = match certificate.cluster() {
        Some(CertifiedCluster { id, size: Some(size) }) => format!(" in cluster {id} of {size} meters"),
        Some(CertifiedCluster { id, size: None }) => format!(" in cluster {id}"),
        None => String::new(),
    };
    let [from, to] = [certificate.not_before(), certificate.not_after()].map(utc);
    format!("{who}{cluster}, {from} to {to}")
}

pub(super) fn slot_times(from: Slot, to: Slot, slot_seconds: Option<u64>) -> String {
    let slots = if from == to { from.to_string() } else { format!("{from} to {to}") };
    let Some(seconds) = slot_seconds else { return slots };
    let [start, end] = [from, to.plus(1)].map(|slot| utc(slot.0.saturating_mul(seconds)));
    format!("{slots}, {start} to {end}")
}

/// Unix seconds, with what they mean.
pub(super) fn time(seconds: u64) -> String {
    format!("{} ({seconds})", utc(seconds))
}

fn utc(seconds: u64) -> String {
    let instant = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    instant.map_or_else(|| "after the year 9999".to_owned(), |instant| instant.to_string())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes at most 16 bytes in hexadecimal.
pub(super) fn hex_prefix(bytes: &[u8]) -> String {
    match bytes.get(..16) {
        Some(start) if bytes.len() > 16 => format!("{}...", hex(start)),
        _ => hex(bytes),
    }
}
