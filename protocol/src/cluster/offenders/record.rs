//! What is known of offenders, as an entry of the store.

use alloc::collections::BTreeMap;

use super::Offenders;
use super::pairs::Pairs;
use super::search::{Search, Suspect, Trial};
use super::silence::{LONGEST_WAIT, MOST_DAYS, Silence, Silences};
use crate::ids::MeterId;
use crate::time::{Slot, Timestamp};
use crate::wire::{DecodeError, Reader, Writer};

/// More than is ever remembered of anything.
const MOST_ITEMS: u64 = 30_001;

/// Above any slot, second and count, and far enough below 2^64 that nothing overflows.
const MOST: u64 = 1 << 41;

impl Offenders {
    /// Appends the entry after its kind: an array of five more items.
    pub(in crate::cluster) fn encode(&self, writer: Writer) -> Writer {
        let Self { silent: Silences(silent), search, pairs: Pairs { at_odds, tests, .. }, changed: _ } = self;
        let Search { suspects, failed, recent, calm, trial, wide, away } = search;
        let writer = silent.iter().fold(writer.nested_array(silent.len() as u64), encode_silence);
        let writer = suspects.iter().fold(writer.nested_array(suspects.len() as u64), encode_suspect);
        let writer = writer.nested_array(5).uint((*failed).into()).uint(*recent).uint((*calm).into());
        let writer = writer.uint((*wide).into());
        let writer = match trial {
            None => writer.nested_array(0),
            Some(Trial { slot, meter, let_in, open }) => {
                writer.nested_array(4).uint(slot.0).text(meter.as_str()).uint((*let_in).into()).uint((*open).into())
            }
        };
        let writer = away.iter().fold(writer.nested_array(away.len() as u64), |writer, id| writer.text(id.as_str()));
        let writer = writer.nested_array(1 + 3 * at_odds.len() as u64).uint((*tests).into());
        at_odds.iter().fold(writer, |writer, ((member, holder), slot)| {
            writer.text(member.as_str()).text(holder.as_str()).uint(slot.0)
        })
    }

    pub(in crate::cluster) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let silent = (0..length(reader, "silent")?).map(|_| decode_silence(reader));
        let silent = Silences(silent.collect::<Result<_, _>>()?);
        let suspects = (0..length(reader, "suspects")?).map(|_| decode_suspect(reader));
        let suspects: BTreeMap<MeterId, Suspect> = suspects.collect::<Result<_, _>>()?;
        reader.array(5)?;
        let search = Search {
            suspects,
            failed: number(reader, "failed", 127)?,
            recent: number(reader, "recent", (1 << 48) - 1)?,
            calm: reader.small("calm")?,
            wide: flag(reader)?,
            trial: match reader.array_of_any()? {
                0 => None,
                4 => Some(Trial {
                    slot: slot(reader, "slot")?,
                    meter: id(reader)?,
                    let_in: flag(reader)?,
                    open: flag(reader)?,
                }),
                _ => return Err(DecodeError::OutOfRange { field: "trial" }),
            },
            away: (0..length(reader, "away")?).map(|_| id(reader)).collect::<Result<_, _>>()?,
        };
        if search.suspects.values().any(|known| known.cleared.iter().any(|cleared| cleared >> search.failed != 0)) {
            return Err(DecodeError::OutOfRange { field: "failed sums" });
        }
        let Some(items) = length(reader, "pairs")?.checked_sub(1).filter(|items| items % 3 == 0) else {
            return Err(DecodeError::OutOfRange { field: "pairs" });
        };
        let tests = number(reader, "tests", MOST)?;
        let at_odds = (0..items / 3).map(|_| Ok(((id(reader)?, id(reader)?), slot(reader, "since")?)));
        let at_odds = at_odds.collect::<Result<_, DecodeError>>()?;
        Ok(Self { silent, search, pairs: Pairs { at_odds, tests, ..Pairs::default() }, changed: false })
    }
}

fn encode_silence(writer: Writer, (meter, known): (&MeterId, &Silence)) -> Writer {
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
        failures: number(reader, "failures", MOST)?,
        next_trial: Some(slot(reader, "next trial")?).filter(|trial| trial.0 > 0),
        excluded_until: Some(reader.below(MOST, "excluded until")?).filter(|&at| at > 0).map(Timestamp::from_secs),
        wait: number(reader, "wait", LONGEST_WAIT)?,
        days: number(reader, "days", MOST_DAYS)?,
    };
    Ok((meter, known))
}

fn encode_suspect(writer: Writer, (meter, suspect): (&MeterId, &Suspect)) -> Writer {
    let [always, sometimes] = suspect.odds;
    writer
        .nested_array(12)
        .text(meter.as_str())
        .int(always.into())
        .int(sometimes.into())
        .bytes(&suspect.cleared[0].to_be_bytes())
        .bytes(&suspect.cleared[1].to_be_bytes())
        .int(suspect.wealth.into())
        .uint(suspect.spells.into())
        .uint(suspect.kept.map_or(0, |since| since.0))
        .uint(suspect.convicted.into())
        .uint(suspect.passed.into())
        .uint(suspect.failures.into())
        .uint(suspect.last.0)
}

fn decode_suspect(reader: &mut Reader<'_>) -> Result<(MeterId, Suspect), DecodeError> {
    reader.array(12)?;
    let meter = id(reader)?;
    let suspect = Suspect {
        odds: [millibits(reader)?, millibits(reader)?],
        cleared: [cleared(reader)?, cleared(reader)?],
        wealth: millibits(reader)?,
        spells: number(reader, "spells", MOST)?,
        kept: Some(slot(reader, "kept")?).filter(|since| since.0 > 0),
        convicted: flag(reader)?,
        passed: flag(reader)?,
        failures: number(reader, "failures", MOST)?,
        last: slot(reader, "last")?,
    };
    Ok((meter, suspect))
}

fn length(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let found = reader.array_of_any()?;
    if found <= MOST_ITEMS { Ok(found) } else { Err(DecodeError::OutOfRange { field }) }
}

fn id(reader: &mut Reader<'_>) -> Result<MeterId, DecodeError> {
    MeterId::new(reader.text()?).map_err(|reason| DecodeError::Id { field: "meter", reason })
}

fn slot(reader: &mut Reader<'_>, field: &'static str) -> Result<Slot, DecodeError> {
    number(reader, field, MOST).map(Slot)
}

fn number<T: TryFrom<u64>>(reader: &mut Reader<'_>, field: &'static str, most: u64) -> Result<T, DecodeError> {
    let found = T::try_from(reader.below(most + 1, field)?);
    found.map_err(|_| DecodeError::OutOfRange { field })
}

/// Far from where sums of them overflow.
fn millibits(reader: &mut Reader<'_>) -> Result<i32, DecodeError> {
    let found = i32::try_from(reader.int()?).ok().filter(|found| found.abs_diff(0) <= 1 << 30);
    found.ok_or(DecodeError::OutOfRange { field: "odds" })
}

fn cleared(reader: &mut Reader<'_>) -> Result<u128, DecodeError> {
    let bytes = reader.bytes()?.try_into().map_err(|_| DecodeError::OutOfRange { field: "failed sums" })?;
    Ok(u128::from_be_bytes(bytes))
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    Ok(reader.below(2, "flag")? == 1)
}
