//! The fields of lists, whole and short.

use dream_protocol::params::{Params, Terms};
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::wire::{ListHeader, ShortList};

use super::Report;
use super::fields::{hex, slot_times, time};
use super::input::{self, Context};
use super::message::{Body, Envelope};

/// The header of a list, and what follows it.
pub(super) fn list(
    header: &ListHeader,
    body: &Body<'_>,
    envelope: &Envelope<'_>,
    context: &Context,
    report: &mut Report,
) {
    let seconds = Some(header.terms.slot_seconds).filter(|&seconds| seconds > 0);
    report.row("cluster", header.cluster.to_string());
    report.row("epoch", time(header.epoch));
    report.row("list hash", hex(&input::hash(envelope.payload()).0));
    report.row(
        "previous list",
        match (header.previous_epoch, header.previous.0 == [0; 32]) {
            (0, _) => "none: the first of its cluster".to_owned(),
            (epoch, true) => format!("unknown to the gateway, before epoch {}", time(epoch)),
            (epoch, false) => format!("{}, epoch {}", hex(&header.previous.0), time(epoch)),
        },
    );
    report.row("certificate hash", hex(&header.certificate));
    report.row("gateway's key", hex(&header.gateway.0));
    header.meter_authorities.iter().for_each(|fingerprint| report.row("meters' authority", hex(fingerprint)));
    report.row("its authority", hex(&header.gateway_authority));
    report.row("slots", slot_times(header.from_slot, header.to_slot, seconds));
    terms(&header.terms, report);
    scheme(header, report);
    match Params::new(usize::try_from(header.members).unwrap_or(usize::MAX), header.terms) {
        Ok(params) => report.row("honest shares", format!("{} (n)", params.honest())),
        // With authorities the whole list is verified, and this found again.
        Err(_) if context.authorities.is_some() && !matches!(body, Body::Nothing) => {}
        Err(error) => report.problem(format!("the list's parameters are refused: {error}")),
    }
    let enrolments = match body {
        Body::Nothing => return report.row("members", header.members.to_string()),
        Body::Short(short) => return short_list(header, short, context, report),
        Body::Full(full) => &full.enrolments,
    };
    if enrolments.len() as u64 != header.members {
        report.problem(format!("its header announces {} members, but {} follow", header.members, enrolments.len()));
    }
    let hint = if context.name_members { "" } else { "; --members names them" };
    report.row("members", format!("{}{hint}", enrolments.len()));
    if context.name_members {
        enrolments.iter().for_each(|entry| report.row("  member", input::member_id(entry)));
    }
}

/// What a short list has after its header.
fn short_list(header: &ListHeader, list: &ShortList<'_>, context: &Context, report: &mut Report) {
    report.row("members", header.members.to_string());
    if list.holders.is_empty() && list.digests.is_empty() {
        return report.row("entries", "none: every member takes the whole list, from membership/full");
    }
    let hint = if context.name_members { "" } else { "; --members names them" };
    report.row("entries", format!("those of {} holders{hint}", list.holders.len()));
    if context.name_members {
        list.holders.iter().for_each(|entry| report.row("  holder", input::member_id(entry)));
    }
    let digests = list.digests.len() / 8;
    report.row("digests", format!("{digests}, one for each member's enrolment"));
    if list.digests.len() as u64 != 8 * header.members {
        report.problem(format!("its header announces {} members, but {digests} digests follow", header.members));
    }
}

/// The scheme, and what belongs to it.
fn scheme(header: &ListHeader, report: &mut Report) {
    match header.terms.scheme {
        Scheme::Pairwise { partners } => {
            report.row("scheme", "pairwise masks (0)".to_owned());
            let partners = if partners == 0 { "all other members".to_owned() } else { partners.to_string() };
            report.row("mask partners", partners);
        }
        Scheme::Committee(Committee { drawn, needed, holders }) => {
            report.row("scheme", "committee (1)".to_owned());
            report.row("holders", format!("{holders} (K), of which {needed} must answer (q)"));
            let drawn = match drawn {
                0 => "all willing members are holders (k = 0)".to_owned(),
                drawn => format!("by certificate, k = {drawn}"),
            };
            report.row("drawn", drawn);
        }
    }
}

fn terms(terms: &Terms, report: &mut Report) {
    report.row("slot length", format!("{} s", terms.slot_seconds));
    report.row("windows", format!("readings {} s, reveals {} s", terms.reading_seconds, terms.reveal_seconds));
    report.row("attempts", format!("{} a slot", terms.attempts));
    report.row("may be silent", format!("up to {} members (M)", terms.max_missing));
    report.row("may be malicious", format!("up to {} members (T)", terms.max_malicious));
    report.row("range", format!("{}..{} W", terms.lo, terms.hi));
    report.row("epsilon", format!("{}/{} an attempt", terms.epsilon_numerator, terms.epsilon_denominator));
    report.row("rho of a day", format!("{} millionths", terms.day_micro_rho));
}
