//! What is known of offenders, as an entry of the store.

use std::collections::BTreeSet;

use super::offender::MOST_DAYS;
use super::search::{Search, State};
use super::several::Several;
use super::{LONGEST_WAIT, Offence, Offender, Offenders};
use crate::ids::MeterId;
use crate::time::{Slot, Timestamp};
use crate::wire::{DecodeError, Reader, Writer};

/// More meters than are ever remembered.
const MOST_METERS: u64 = 20_000;

/// Above any slot, second and count, and far enough below 2^64 that nothing overflows.
const MOST: u64 = 1 << 41;

impl Offenders {
    /// Appends the entry after its kind: an array of two more items.
    pub(in crate::cluster) fn encode(&self, writer: Writer) -> Writer {
        let mut writer = writer.nested_array(self.meters.len() as u64);
        for (meter, offender) in &self.meters {
            writer = encode_offender(writer, meter, offender);
        }
        match &self.search {
            None => writer.nested_array(0),
            Some(search) => encode_search(writer, search),
        }
    }

    pub(in crate::cluster) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut offenders = Self::default();
        for _ in 0..length(reader, "offenders")? {
            let (meter, offender) = decode_offender(reader)?;
            offenders.meters.insert(meter, offender);
        }
        offenders.search = decode_search(reader)?;
        Ok(offenders)
    }
}

fn encode_offender(writer: Writer, meter: &MeterId, offender: &Offender) -> Writer {
    let (kind, with) = match &offender.offence {
        Offence::Silent => (0, ""),
        Offence::SpoilsSums => (1, ""),
        Offence::SuspectedWith(other) => (2, other.as_str()),
    };
    writer
        .nested_array(13)
        .text(meter.as_str())
        .uint(kind)
        .text(with)
        .uint(offender.since.0)
        .uint(offender.last.0)
        .uint(offender.failures.into())
        .uint(offender.next_trial.map_or(0, |trial| trial.0))
        .uint(offender.excluded_until.map_or(0, Timestamp::as_secs))
        .uint(offender.wait)
        .uint(offender.days)
        .uint(offender.proofs)
        .uint(offender.alone.into())
        .uint(offender.stage.into())
}

fn decode_offender(reader: &mut Reader<'_>) -> Result<(MeterId, Offender), DecodeError> {
    reader.array(13)?;
    let meter = id(reader)?;
    let offence = match (reader.uint()?, reader.text()?) {
        (0, "") => Offence::Silent,
        (1, "") => Offence::SpoilsSums,
        (2, other) => Offence::SuspectedWith(meter_id(other)?),
        _ => return Err(DecodeError::OutOfRange { field: "offence" }),
    };
    Ok((
        meter,
        Offender {
            offence,
            since: slot(reader, "since")?,
            last: slot(reader, "last")?,
            failures: u32::try_from(reader.uint()?).map_err(|_| DecodeError::OutOfRange { field: "failures" })?,
            next_trial: Some(slot(reader, "next trial")?).filter(|trial| trial.0 > 0),
            excluded_until: Some(number(reader, "excluded until", MOST)?)
                .filter(|&at| at > 0)
                .map(Timestamp::from_secs),
            wait: number(reader, "wait", LONGEST_WAIT)?,
            days: number(reader, "days", MOST_DAYS)?,
            proofs: number(reader, "proofs", MOST)?,
            alone: number(reader, "alone", 1)? == 1,
            stage: u8::try_from(number(reader, "stage", 2)?).map_err(|_| DecodeError::OutOfRange { field: "stage" })?,
        },
    ))
}

fn encode_search(writer: Writer, search: &Search) -> Writer {
    let (state, accused, given_up) = match &search.state {
        State::Looking => (0, "", 0),
        State::Accused(meter) => (1, meter.as_str(), 0),
        State::Resting => (2, "", 0),
        State::GivenUp(slot) => (3, "", slot.0),
        State::Watching => (4, "", 0),
    };
    let writer = writer.nested_array(9).uint(state).text(accused).uint(given_up);
    let writer = writer.uint(search.since.0).uint(search.last.0).uint(search.failures);
    let writer = encode_set(encode_set(writer, &search.cleared), &search.likely);
    match &search.several {
        None => writer.nested_array(0),
        Some(several) => {
            let writer = writer.nested_array(9).uint(several.slots).uint(several.since.0);
            let writer = writer.uint(several.decided.0).uint(several.lists);
            let Several { everybody, guilty, part, rest, away, .. } = several;
            [everybody, guilty, part, rest, away].into_iter().fold(writer, encode_set)
        }
    }
}

fn decode_search(reader: &mut Reader<'_>) -> Result<Option<Search>, DecodeError> {
    match reader.array_of_any()? {
        0 => return Ok(None),
        9 => {}
        _ => return Err(DecodeError::OutOfRange { field: "search" }),
    }
    let state = match (reader.uint()?, reader.text()?, slot(reader, "given up")?) {
        (0, "", Slot(0)) => State::Looking,
        (1, accused, Slot(0)) => State::Accused(meter_id(accused)?),
        (2, "", Slot(0)) => State::Resting,
        (3, "", slot) => State::GivenUp(slot),
        (4, "", Slot(0)) => State::Watching,
        _ => return Err(DecodeError::OutOfRange { field: "state" }),
    };
    Ok(Some(Search {
        state,
        since: slot(reader, "since")?,
        last: slot(reader, "last")?,
        failures: number(reader, "failures", MOST)?,
        cleared: set(reader)?,
        likely: set(reader)?,
        several: match reader.array_of_any()? {
            0 => None,
            9 => Some(Several {
                slots: number(reader, "slots", MOST)?,
                since: slot(reader, "since")?,
                decided: slot(reader, "decided")?,
                lists: number(reader, "lists", MOST)?,
                everybody: set(reader)?,
                guilty: set(reader)?,
                part: set(reader)?,
                rest: set(reader)?,
                away: set(reader)?,
            }),
            _ => return Err(DecodeError::OutOfRange { field: "several" }),
        },
    }))
}

fn encode_set(writer: Writer, set: &BTreeSet<MeterId>) -> Writer {
    set.iter().fold(writer.nested_array(set.len() as u64), |writer, meter| writer.text(meter.as_str()))
}

fn set(reader: &mut Reader<'_>) -> Result<BTreeSet<MeterId>, DecodeError> {
    (0..length(reader, "meters")?).map(|_| id(reader)).collect()
}

fn length(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let found = reader.array_of_any()?;
    if found <= MOST_METERS { Ok(found) } else { Err(DecodeError::OutOfRange { field }) }
}

fn id(reader: &mut Reader<'_>) -> Result<MeterId, DecodeError> {
    meter_id(reader.text()?)
}

fn meter_id(text: &str) -> Result<MeterId, DecodeError> {
    MeterId::new(text).map_err(|reason| DecodeError::Id { field: "meter", reason })
}

fn slot(reader: &mut Reader<'_>, field: &'static str) -> Result<Slot, DecodeError> {
    number(reader, field, MOST).map(Slot)
}

fn number(reader: &mut Reader<'_>, field: &'static str, most: u64) -> Result<u64, DecodeError> {
    let found = reader.uint()?;
    if found <= most { Ok(found) } else { Err(DecodeError::OutOfRange { field }) }
}
