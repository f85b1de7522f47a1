//! A list with any content, and honest terms to start from.

use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementSecret, ListHash};
use dream_protocol::params::Terms;
use dream_protocol::policy::{Floors, Profile};
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::GatewayChannel;
use dream_protocol::wire::ListStatement;

use super::SLOT_SECONDS;
use super::participants::Gateway;

/// What a meter's default policy demands.
const FLOORS: Floors = Profile::Strict.floors();

/// How many slots a list covers: more than any run lasts.
const SLOTS: u64 = 1000;

/// A list before it is signed.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) epoch: u64,
    pub(super) previous_epoch: u64,
    pub(super) previous: ListHash,
    pub(super) terms: Terms,
    /// With their meters, sorted by them.
    pub(super) enrolments: Vec<(MeterId, Vec<u8>)>,
}

impl Draft {
    /// An honest first list, but for the epoch.
    pub(super) fn honest(epoch: u64, enrolments: Vec<(MeterId, Vec<u8>)>) -> Self {
        Self { epoch, previous_epoch: 0, previous: ListHash::NONE, terms: terms(enrolments.len()), enrolments }
    }

    /// Sorts, and signs for the slots after the present one.
    pub(super) fn sign(
        mut self,
        cluster: &ClusterId,
        (gateway, authorities): (&Gateway, &Authorities),
        secret: &AgreementSecret,
        now: Timestamp,
    ) -> Vec<u8> {
        self.enrolments.sort();
        let from = Slot(now.as_secs() / SLOT_SECONDS + 1);
        let statement = ListStatement {
            cluster: cluster.clone(),
            epoch: self.epoch,
            previous_epoch: self.previous_epoch,
            previous: self.previous,
            gateway: secret.public(),
            meter_authorities: authorities.meters().fingerprints(),
            gateway_authority: authorities.gateways().fingerprints()[0],
            from_slot: from,
            to_slot: from.plus(SLOTS),
            terms: self.terms,
            enrolments: self.enrolments.iter().map(|(_, bytes)| bytes.as_slice()).collect(),
            holders: Vec::new(),
        };
        statement.seal((&gateway.identity, &gateway.der), &GatewayChannel::Membership.topic(cluster))
    }
}

/// Returns terms with a tenth malicious, or as many as meters ask for, and as many missing, up to a tenth, as leave enough
/// honest shares.
fn terms(members: usize) -> Terms {
    let members = members as u64;
    let max_malicious = members.div_ceil(10).max(FLOORS.malicious.into());
    let max_missing = members.saturating_sub(max_malicious + u64::from(FLOORS.honest)).min(members / 10);
    Terms {
        slot_seconds: SLOT_SECONDS,
        reading_seconds: SLOT_SECONDS / 2,
        reveal_seconds: SLOT_SECONDS / 2,
        max_missing,
        max_malicious,
        attempts: 1,
        ..Terms::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_protocol::params::Params;
    use dream_protocol::policy::Policy;

    #[test]
    fn honest_terms_are_acceptable_and_have_room_for_someone_missing() {
        let policy = Policy { min_slot_seconds: SLOT_SECONDS, ..Policy::new(Authorities::none(), []) };
        for members in 51..=100 {
            let params = Params::new(members, terms(members)).unwrap();
            assert_eq!(policy.objections(&params).collect::<Vec<_>>(), [], "{members}");
            assert!(params.max_missing() >= 1, "{members}");
        }
        let without_one = Params::new(50, terms(50)).unwrap();
        assert_eq!(policy.objections(&without_one).collect::<Vec<_>>(), [], "refused for its epoch and nothing else");
    }
}
