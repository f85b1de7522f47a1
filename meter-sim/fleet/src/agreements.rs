//! The keys that pairs of meters agree on: computed once for both ends, on all cores.

use std::collections::HashMap;

use dream_homes::street;
use dream_protocol::keys::{AgreementPublic, SharedSecret};
use dream_protocol::membership::MembershipList;

use crate::meter::SimulatedMeter;

/// The X25519 results for each meter with the public keys of the others, by the meter's own public key.
pub(crate) type Agreements = HashMap<AgreementPublic, Vec<(AgreementPublic, SharedSecret)>>;

/// Computes the results for all pairs of meters that are members of a list. Those that a meter knows already are not
/// computed again.
pub(crate) fn compute(meters: &[SimulatedMeter], list: &MembershipList) -> Agreements {
    let key = |meter: &SimulatedMeter| {
        let at = list.index_of(meter.setup.id.as_str())?;
        Some(*list.member(at)?.agreement())
    };
    let listed: Vec<_> = meters.iter().filter_map(|meter| Some((meter, key(meter)?))).collect();
    let numbers: Vec<usize> = (0..listed.len()).collect();
    let results = street::in_parallel(street::all_cores(), &numbers, |&number| {
        let meter = &listed[number].0.meter;
        let later = listed[number + 1..].iter().map(|(_, with)| (*with, meter.agree_with(with)));
        later.collect::<Vec<_>>()
    });
    let mut agreements = Agreements::with_capacity(listed.len());
    for ((_, own), results) in listed.iter().zip(results) {
        for (with, shared) in results.into_iter().filter_map(|(with, shared)| Some((with, shared?))) {
            agreements.entry(*own).or_default().push((with, shared.clone()));
            agreements.entry(with).or_default().push((*own, shared));
        }
    }
    agreements
}
