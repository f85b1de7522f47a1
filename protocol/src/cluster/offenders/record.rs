//! What is known of offenders, as an entry of the store.

use super::Offenders;
use super::pairs::Pairs;
use super::search::{Search, Suspect, Trial};
use super::silence::{LONGEST_WAIT, MOST_DAYS, Silence, Silences};
use crate::ids::MeterId;
use crate::time::{Slot, Timestamp};
use crate::wire::{DecodeError, Reader, Writer};

/// More meters than are ever remembered.
const MOST_METERS: u64 = 20_001;

/// Above any slot, second and count, and far enough below 2^64 that nothing overflows.
const MOST: u64 = 1 << 41;

impl Offenders {
    /// Appends the entry after its kind: an array of five more items.
    pub(in crate::cluster) fn encode(&self, writer: Writer) -> Writer {
        let silent = self.silent.0.iter();
        let writer = silent.fold(writer.nested_array(self.silent.0.len() as u64), |writer, (meter, known)| {
            encode_silence(writer, meter, known)
        });
        let Search { places, suspects, failed, recent, calm, trial, wide, away, decided } = &self.search;
        // By place, so that places are as they were.
        let mut meters: Vec<(&MeterId, u16)> = places.iter().map(|(meter, place)| (meter, *place)).collect();
        meters.sort_by_key(|(_, place)| *place);
        let writer = meters
            .iter()
            .zip(suspects)
            .fold(writer.nested_array(suspects.len() as u64), |writer, ((meter, _), suspect)| {
                encode_suspect(writer, meter, suspect)
            });
        let writer = failed.iter().fold(writer.nested_array(failed.len() as u64), encode_places);
        let writer = writer.nested_array(6).uint(*recent).uint((*calm).into()).uint((*wide).into());
        let writer = encode_places(writer, away).uint(decided.0);
        let writer = match trial {
            None => writer.nested_array(0),
            Some(trial) => {
                let writer = writer.nested_array(4).uint(trial.slot.0).uint(trial.suspect.into());
                writer.uint(trial.let_in.into()).uint(trial.open.into())
            }
        };
        let Pairs { at_odds, tests, .. } = &self.pairs;
        let writer = writer.nested_array(1 + 2 * at_odds.len() as u64).uint((*tests).into());
        at_odds.iter().fold(writer, |writer, (member, holder)| writer.text(member.as_str()).text(holder.as_str()))
    }

    pub(in crate::cluster) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut silent = Silences::default();
        for _ in 0..length(reader, "silent")? {
            let (meter, known) = decode_silence(reader)?;
            silent.0.insert(meter, known);
        }
        let mut search = Search::default();
        for place in 0..length(reader, "suspects")? {
            let (meter, suspect) = decode_suspect(reader)?;
            search.places.insert(meter, u16::try_from(place).unwrap_or(u16::MAX));
            search.suspects.push(suspect);
        }
        if search.places.len() != search.suspects.len() {
            return Err(DecodeError::OutOfRange { field: "suspects" });
        }
        let known = search.suspects.len();
        for _ in 0..length(reader, "failed")? {
            search.failed.push_back(places(reader, known)?);
        }
        reader.array(6)?;
        search.recent = number(reader, "recent", (1 << 48) - 1)?;
        search.calm = reader.small("calm")?;
        search.wide = flag(reader)?;
        search.away = places(reader, known)?;
        search.decided = slot(reader, "decided")?;
        search.trial = match reader.array_of_any()? {
            0 => None,
            4 => Some(Trial {
                slot: slot(reader, "slot")?,
                suspect: place(reader.uint()?, known)?,
                let_in: flag(reader)?,
                open: flag(reader)?,
            }),
            _ => return Err(DecodeError::OutOfRange { field: "trial" }),
        };
        let mut pairs = Pairs::default();
        let Some(ids) = length(reader, "pairs")?.checked_sub(1).filter(|ids| ids % 2 == 0) else {
            return Err(DecodeError::OutOfRange { field: "pairs" });
        };
        pairs.tests = small(reader, "tests")?;
        for _ in 0..ids / 2 {
            pairs.at_odds.insert((id(reader)?, id(reader)?));
        }
        Ok(Self { silent, search, pairs, changed: false })
    }
}

fn encode_silence(writer: Writer, meter: &MeterId, known: &Silence) -> Writer {
    writer
        .nested_array(8)
        .text(meter.as_str())
        .uint(known.since.0)
        .uint(known.last.0)
        .uint(known.failures.into())
        .uint(known.next_trial.map_or(0, |trial| trial.0))
        .uint(known.excluded_until.map_or(0, Timestamp::as_secs))
        .uint(known.wait)
        .uint(known.days)
}

fn decode_silence(reader: &mut Reader<'_>) -> Result<(MeterId, Silence), DecodeError> {
    reader.array(8)?;
    let meter = id(reader)?;
    let known = Silence {
        since: slot(reader, "since")?,
        last: slot(reader, "last")?,
        failures: small(reader, "failures")?,
        next_trial: Some(slot(reader, "next trial")?).filter(|trial| trial.0 > 0),
        excluded_until: Some(number(reader, "excluded until", MOST)?).filter(|&at| at > 0).map(Timestamp::from_secs),
        wait: number(reader, "wait", LONGEST_WAIT)?,
        days: number(reader, "days", MOST_DAYS)?,
    };
    Ok((meter, known))
}

fn encode_suspect(writer: Writer, meter: &MeterId, suspect: &Suspect) -> Writer {
    let [always, sometimes] = suspect.odds;
    writer
        .nested_array(10)
        .text(meter.as_str())
        .int(always.into())
        .int(sometimes.into())
        .int(suspect.wealth.into())
        .uint(suspect.spells.into())
        .uint(suspect.kept.map_or(0, |since| since.0))
        .uint(suspect.convicted.into())
        .uint(suspect.passed.into())
        .uint(suspect.failures.into())
        .uint(suspect.last.0)
}

fn decode_suspect(reader: &mut Reader<'_>) -> Result<(MeterId, Suspect), DecodeError> {
    reader.array(10)?;
    let meter = id(reader)?;
    let suspect = Suspect {
        odds: [millibits(reader)?, millibits(reader)?],
        wealth: millibits(reader)?,
        spells: small(reader, "spells")?,
        kept: Some(slot(reader, "kept")?).filter(|since| since.0 > 0),
        convicted: flag(reader)?,
        passed: flag(reader)?,
        failures: small(reader, "failures")?,
        last: slot(reader, "last")?,
    };
    Ok((meter, suspect))
}

fn encode_places(writer: Writer, places: &Vec<u16>) -> Writer {
    writer.bytes(&places.iter().flat_map(|place| place.to_be_bytes()).collect::<Vec<u8>>())
}

/// Places of which there are so many.
fn places(reader: &mut Reader<'_>, known: usize) -> Result<Vec<u16>, DecodeError> {
    let (pairs, rest) = reader.bytes()?.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(DecodeError::OutOfRange { field: "places" });
    }
    pairs.iter().map(|pair| place(u16::from_be_bytes(*pair).into(), known)).collect()
}

fn place(found: u64, known: usize) -> Result<u16, DecodeError> {
    let place = u16::try_from(found).ok().filter(|place| usize::from(*place) < known);
    place.ok_or(DecodeError::OutOfRange { field: "place" })
}

fn length(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let found = reader.array_of_any()?;
    if found <= MOST_METERS { Ok(found) } else { Err(DecodeError::OutOfRange { field }) }
}

fn id(reader: &mut Reader<'_>) -> Result<MeterId, DecodeError> {
    MeterId::new(reader.text()?).map_err(|reason| DecodeError::Id { field: "meter", reason })
}

fn slot(reader: &mut Reader<'_>, field: &'static str) -> Result<Slot, DecodeError> {
    number(reader, field, MOST).map(Slot)
}

fn number(reader: &mut Reader<'_>, field: &'static str, most: u64) -> Result<u64, DecodeError> {
    let found = reader.uint()?;
    if found <= most { Ok(found) } else { Err(DecodeError::OutOfRange { field }) }
}

fn small(reader: &mut Reader<'_>, field: &'static str) -> Result<u32, DecodeError> {
    u32::try_from(reader.uint()?).map_err(|_| DecodeError::OutOfRange { field })
}

fn millibits(reader: &mut Reader<'_>) -> Result<i32, DecodeError> {
    i32::try_from(reader.int()?).map_err(|_| DecodeError::OutOfRange { field: "odds" })
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    Ok(number(reader, "flag", 1)? == 1)
}
