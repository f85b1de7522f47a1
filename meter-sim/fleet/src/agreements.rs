//! The keys that pairs of meters agree on: computed once for both ends, on all cores.

use std::collections::HashMap;

use dream_homes::street;
use dream_protocol::keys::{AgreementPublic, SharedSecret};
use dream_protocol::membership::MembershipList;
use dream_protocol::scheme::Scheme;

use crate::meter::SimulatedMeter;

/// Computes the X25519 results that the meters need under a list, and hands them over. Those that a meter at one end of a
/// pair knows already are not computed again.
pub(crate) fn share(meters: &mut [SimulatedMeter], list: &MembershipList) {
    match list.params().terms().scheme {
        Scheme::Pairwise { .. } => share_among_all(meters, list),
        Scheme::Committee(_) => share_with_holders(meters, list),
    }
}

/// The results of each member with every other.
fn share_among_all(meters: &mut [SimulatedMeter], list: &MembershipList) {
    let keys = keys_in(list, meters);
    let listed: Vec<(usize, AgreementPublic)> =
        keys.into_iter().enumerate().filter_map(|(index, key)| Some((index, key?))).collect();
    let numbers: Vec<usize> = (0..listed.len()).collect();
    let results = street::in_parallel(street::all_cores(), &numbers, |&number| {
        let meter = &meters[listed[number].0].meter;
        listed[number + 1..].iter().map(|(_, with)| meter.agree_with(with)).collect::<Vec<_>>()
    });
    for (number, results) in results.into_iter().enumerate() {
        let (index, own) = listed[number];
        for ((other, with), shared) in listed[number + 1..].iter().zip(results) {
            let Some(shared) = shared else { continue };
            meters[index].meter.offer_agreement(*with, shared.clone());
            meters[*other].meter.offer_agreement(own, shared);
        }
    }
}

/// The results of each member with the holders; and, if the list says which key each member has, those of the holders with
/// all members.
fn share_with_holders(meters: &mut [SimulatedMeter], list: &MembershipList) {
    let holders: Vec<AgreementPublic> = list.holders().map(|holder| *holder.agreement()).collect();
    let keys = keys_in(list, meters);
    let numbers: Vec<usize> = (0..meters.len()).collect();
    let results = street::in_parallel(street::all_cores(), &numbers, |&number| {
        let others = holders.iter().filter(|holder| keys[number] != Some(**holder));
        let agree = |holder: &AgreementPublic| Some((*holder, meters[number].meter.agree_with(holder)?));
        others.filter_map(agree).collect::<Vec<(AgreementPublic, SharedSecret)>>()
    });
    let places: HashMap<AgreementPublic, usize> =
        (0..).zip(&keys).filter_map(|(index, key)| Some(((*key)?, index))).collect();
    for (index, results) in results.into_iter().enumerate() {
        for (holder, shared) in results {
            if let (Some(own), Some(place)) = (keys[index], places.get(&holder)) {
                meters[*place].meter.offer_agreement(own, shared.clone());
            }
            meters[index].meter.offer_agreement(holder, shared);
        }
    }
}

/// Returns each meter's key, as far as a list has it. A short one has only those of holders.
fn keys_in(list: &MembershipList, meters: &[SimulatedMeter]) -> Vec<Option<AgreementPublic>> {
    let key = |meter: &SimulatedMeter| {
        let at = list.index_of(meter.setup.id.as_str())?;
        Some(*list.member(at)?.agreement())
    };
    meters.iter().map(key).collect()
}
