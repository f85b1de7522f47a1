//! Slots as a series takes them, and what becomes of neighbouring ones.

use dream_protocol::time::Timestamp;

use super::{Clusters, Failed, Point, Within};
use crate::board::group::GroupSlot;
use crate::history::{AddedNoise, ClosedSlot, Load};
use crate::http::words;

/// A slot as a series takes it.
pub(in crate::http) struct Drawn {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Its loads, or why there are none.
    pub(super) loads: Result<Loads, &'static str>,
}

pub(super) struct Loads {
    sum: Noisy,
    estimate: Noisy,
    filtered: Option<Within>,
    pub(super) clusters: Clusters,
}

/// A load and its noise.
struct Noisy {
    watts: f64,
    noise: AddedNoise,
    /// The band of this one by itself, which is exact.
    band95: f64,
}

impl Noisy {
    fn new(load: Load, noise: AddedNoise) -> Self {
        Self { watts: load.watts as f64, noise, band95: load.band95 as f64 }
    }
}

impl From<&ClosedSlot> for Drawn {
    fn from(slot: &ClosedSlot) -> Self {
        let loads = || {
            Some(Loads {
                sum: Noisy::new(slot.sum()?, AddedNoise::of(slot, 1.0)),
                estimate: Noisy::new(slot.estimate()?, AddedNoise::of_estimate(slot)),
                filtered: slot.filtered.map(Within::from),
                clusters: Clusters { added: 1, of: 1 },
            })
        };
        let outcome = &slot.outcome;
        let failure = || outcome.result.err().map_or("", |failure| words::failure(failure).0);
        Self { start: outcome.start, end: outcome.end, loads: loads().ok_or_else(failure) }
    }
}

impl From<&GroupSlot> for Drawn {
    fn from(slot: &GroupSlot) -> Self {
        let (in_sum, in_estimate) = slot.noise();
        let loads = || {
            Some(Loads {
                sum: Noisy::new(slot.sum()?, in_sum),
                estimate: Noisy::new(slot.estimate()?, in_estimate),
                filtered: slot.filtered().map(Within::from),
                clusters: Clusters { added: slot.added(), of: slot.clusters },
            })
        };
        Self { start: slot.start, end: slot.end, loads: loads().ok_or("no cluster gave one") }
    }
}

/// Returns the slots of a bucket that gave none, together.
pub(super) fn failed(bucket: &[Drawn]) -> Option<Failed> {
    let failed = bucket.iter().filter_map(|slot| Some((slot, slot.loads.as_ref().err()?)));
    let each = failed.map(|(slot, reason)| Failed { start: slot.start, end: slot.end, slots: 1, reason });
    each.reduce(|a, b| Failed { start: a.start, slots: a.slots + 1, ..b })
}

/// Returns the means over the slots that gave an aggregate and have most clusters in it.
pub(super) fn point(bucket: &[Drawn]) -> Option<Point> {
    let decoded = || bucket.iter().filter_map(|slot| Some((slot, slot.loads.as_ref().ok()?)));
    let clusters = decoded().map(|(_, loads)| loads.clusters).max_by_key(|clusters| clusters.added)?;
    let (slots, loads): (Vec<&Drawn>, Vec<&Loads>) = decoded().filter(|(_, loads)| loads.clusters == clusters).unzip();
    Some(Point {
        start: slots.first()?.start,
        end: slots.last()?.end,
        slots: slots.len(),
        load: mean(&loads, |loads| &loads.sum),
        estimate: mean(&loads, |loads| &loads.estimate),
        filtered: filtered(&loads),
        clusters,
    })
}

/// Returns the mean of loads whose noise is independent: its band is narrower than theirs.
fn mean(loads: &[&Loads], of: fn(&Loads) -> &Noisy) -> Within {
    let (count, mut noise) = (loads.len() as f64, AddedNoise::default());
    loads.iter().for_each(|loads| noise += of(loads).noise);
    let watts = loads.iter().map(|loads| of(loads).watts).sum::<f64>() / count;
    let band95 = match loads {
        [only] => of(only).band95,
        _ => noise.band95() / count,
    };
    Within { watts, band95 }
}

/// Returns the mean of filtered loads. Neighbouring ones err alike: the band of their mean is no narrower than the mean of their bands.
fn filtered(loads: &[&Loads]) -> Option<Within> {
    let all: Vec<Within> = loads.iter().filter_map(|loads| loads.filtered).collect();
    let mean = |value: &dyn Fn(&Within) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| Within { watts: mean(&|it| it.watts), band95: mean(&|it| it.band95) })
}
