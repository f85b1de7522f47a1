//! Dishonest members: what one of them does to a day of sums, and how soon the gateway finds it.
//!
//! All machines are the real ones, with the default policy and ten-minute slots. They exchange messages in memory and in virtual
//! time, so that the day takes a moment, and it is the same day in every run.

use std::fmt;

use clap::ValueEnum;
use dream_protocol::cluster::ClusterConfig;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::meter::MeterConfig;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::simulation::Simulation;
use dream_protocol::topic::MeterChannel;
use dream_virtual::example::{START, at, cluster_config, cluster_id, meter_config, meter_name};
use dream_virtual::node::MeterNode;
use dream_virtual::pki::Pki;
use dream_virtual::rng;
use dream_virtual::virtual_cluster::VirtualCluster;

use super::attack;
use super::participants::watts;
use dream_fleet::liar::NONSENSE;

/// The slots of a day.
const DAY: usize = 144;

/// How many slots in a hundred must give a sum in spite of a liar.
const ENOUGH: usize = 80;

/// What a dishonest member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Liar {
    /// A member that sends its reading and never helps to open the sum
    NeverReveals,
    /// A member that makes every sum it is in invalid
    SpoilsSums,
}

/// A day of a cluster with one liar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    pub liar: Liar,
    /// How many members there were, with the liar.
    pub members: usize,
    pub slots: usize,
    /// How many slots gave a sum.
    pub decoded: usize,
    /// In which slot, counted from 1, the gateway had found the liar.
    pub found_after: Option<usize>,
    /// How many honest members are taken for liars at the end.
    pub accused: usize,
}

impl Liar {
    pub(super) fn name(self) -> String {
        attack::name(&self)
    }

    pub(super) fn summary(self) -> String {
        attack::summary(&self)
    }

    /// Returns an explanation for readers who do not know the protocol.
    pub(super) const fn explanation(self) -> &'static str {
        match self {
            Self::NeverReveals => {
                "Now one of the homes lies, not the gateway. It sends its reading like every other home, and then \
                 does not help to remove the masks: the sum of that slot stays closed. The gateway sees who is \
                 silent, asks all others once more, and excludes that home until a retest."
            }
            Self::SpoilsSums => {
                "One home answers every request with invalid data, so that no sum can be decoded. Since all readings \
                 are hidden, nobody sees which home it is. The gateway excludes a different group of homes in each \
                 slot, and learns from the sums that open and those that do not."
            }
        }
    }

    /// Lets a day pass for so many honest meters and this liar.
    pub(super) fn play(self, honest: usize) -> Day {
        let members = honest + 1;
        // Somewhere in the middle: groups are formed by what is random, and this is the same in every run.
        let liar = members / 2;
        let pki = Pki::new();
        let meters = (0..members).map(|number| {
            let simulation = if number == liar { self.simulation() } else { Simulation::default() };
            MeterNode::new(honest_config(&pki, number), simulation, rng(1000 + number as u64))
        });
        let mut cluster = VirtualCluster::new(gateway_config(&pki, members), meters, at(START), rng(1));
        if self == Self::NeverReveals {
            cluster.withheld.insert(MeterChannel::Reveal.topic(&cluster_id(), &id(liar)));
        }
        let mut day = Day { liar: self, members, slots: DAY, decoded: 0, found_after: None, accused: 0 };
        for slot in 1..=DAY {
            let outcome = cluster.next_outcome(|meter, _| Some(watts(meter)));
            day.decoded += usize::from(outcome.result.is_ok());
            if day.found_after.is_none() && left_out(&cluster).any(|meter| *meter == id(liar)) {
                day.found_after = Some(slot);
            }
        }
        day.accused = left_out(&cluster).filter(|meter| **meter != id(liar)).count();
        day
    }

    fn simulation(self) -> Simulation {
        let share = match self {
            Self::NeverReveals => None,
            Self::SpoilsSums => Some(NONSENSE),
        };
        Simulation { share, ..Simulation::default() }
    }
}

impl Day {
    /// Whether the liar was found, nobody else is taken for one, and nearly all slots gave a sum.
    pub fn is_good(&self) -> bool {
        self.found_after.is_some() && self.accused == 0 && self.decoded * 100 >= self.slots * ENOUGH
    }

    /// In one word.
    pub fn verdict(&self) -> &'static str {
        match self.found_after {
            Some(_) if self.is_good() => "found",
            Some(_) => "COSTLY",
            None => "NOT FOUND",
        }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { members, slots, decoded, .. } = self;
        match self.found_after {
            Some(1) => write!(f, "One of {members} members lies: found after 1 slot")?,
            Some(after) => write!(f, "One of {members} members lies: found after {after} slots")?,
            None => write!(f, "One of {members} members lies: NOT FOUND")?,
        }
        write!(f, ", {decoded} of {slots} slots of the day decoded.")?;
        if self.accused > 0 {
            write!(f, " {} HONEST MEMBERS ARE TAKEN FOR LIARS.", self.accused)?;
        }
        Ok(())
    }
}

/// Returns whom the gateway leaves out of sums.
fn left_out(cluster: &VirtualCluster) -> impl Iterator<Item = &MeterId> {
    let offenders = cluster.gateway.cluster.offenders();
    offenders.filter(|(_, offender)| offender.left_out).map(|(meter, _)| meter)
}

fn id(number: usize) -> MeterId {
    MeterId::new(&meter_name(number)).expect("a plain name")
}

fn honest_config(pki: &Pki, number: usize) -> MeterConfig {
    let gateway = GatewayId::new("gw").expect("a plain name");
    MeterConfig { policy: Policy::new(pki.authorities(), [gateway]), ..meter_config(pki, &meter_name(number)) }
}

/// A cluster that meters with the default policy accept, and of which a tenth may be missing, as by default.
fn gateway_config(pki: &Pki, members: usize) -> ClusterConfig {
    let members = u16::try_from(members).expect("a hundred or so");
    let missing_share = Share::new(1, 10).expect("a share");
    ClusterConfig {
        terms: Terms::DEFAULT,
        missing_share,
        floors: Profile::Strict.floors(),
        ..cluster_config(pki, members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_liars_are_found_and_most_of_the_day_is_decoded() {
        for liar in Liar::value_variants() {
            let day = liar.play(51);
            assert!(day.is_good(), "{day:?}");
        }
    }

    #[test]
    fn a_day_without_enough_sums_or_with_the_wrong_suspect_is_not_good() {
        let good =
            Day { liar: Liar::SpoilsSums, members: 25, slots: 144, decoded: 142, found_after: Some(7), accused: 0 };
        assert!(good.is_good());
        assert_eq!(
            good.to_string(),
            "One of 25 members lies: found after 7 slots, 142 of 144 slots of the day decoded."
        );
        for bad in [Day { decoded: 100, ..good }, Day { found_after: None, ..good }, Day { accused: 1, ..good }] {
            assert!(!bad.is_good(), "{bad}");
        }
    }
}
