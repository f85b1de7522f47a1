//! What a meter accepts. Every privacy rule is enforced here and in [`crate::meter`], never by trusting the gateway.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::certificate::Authorities;
use crate::ids::GatewayId;
use crate::membership::MembershipList;
use crate::params::Params;

/// The fewest honest shares that meters ask for unless their policy says otherwise.
pub const MIN_HONEST: u16 = 20;

/// A meter's privacy policy, set by its maker or owner; the defaults are those of `protocol.md 2`.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Who may issue certificates.
    pub authorities: Authorities,
    /// Which gateways may publish lists.
    pub gateways: BTreeSet<GatewayId>,
    /// The only range that is accepted, in watts: a smaller one would clip more, a larger one costs accuracy.
    pub range: (i64, i64),
    /// The largest epsilon of one attempt, as a fraction.
    pub max_epsilon: (u64, u64),
    /// The most that may be spent on the slots that start within any 24 hours, in millionths.
    pub daily_micro_epsilon: u64,
    /// The most attempts per slot.
    pub max_attempts: u8,
    /// The fewest honest shares that must make up the noise.
    pub min_honest: u16,
    /// The shortest slot: epsilon protects what happens in one, so that a gateway must not make it a moment.
    pub min_slot_seconds: u64,
}

/// Which rule of a policy a list breaks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    #[error("the list names an authority that the policy does not")]
    Authorities,
    #[error("gateway `{0}` is not one that the policy names")]
    Gateway(GatewayId),
    #[error("the range is {found:?} W, the policy's is {expected:?} W")]
    Range { expected: (i64, i64), found: (i64, i64) },
    #[error("epsilon {}/{} is above the policy's {}/{}", found.0, found.1, most.0, most.1)]
    Epsilon { most: (u64, u64), found: (u64, u64) },
    #[error("{found} attempts per slot; the policy allows {most}")]
    Attempts { most: u8, found: u8 },
    #[error("the noise would be made by {found} honest shares; the policy demands {least}")]
    TooFewHonest { least: u16, found: u16 },
    #[error("slots of {found} s; the policy demands {least} s")]
    SlotTooShort { least: u64, found: u64 },
}

impl Policy {
    /// Returns the default policy of a meter that trusts nobody yet: for asking what such meters refuse.
    pub fn default_rules() -> Self {
        Self::new(Authorities::new([]).expect("no certificate is malformed"), [])
    }

    /// The default policy, for meters of these authorities and gateways.
    pub fn new(authorities: Authorities, gateways: impl IntoIterator<Item = GatewayId>) -> Self {
        Self {
            authorities,
            gateways: gateways.into_iter().collect(),
            range: (0, 9000),
            max_epsilon: (1, 1),
            daily_micro_epsilon: 160_000_000,
            max_attempts: 2,
            min_honest: MIN_HONEST,
            min_slot_seconds: 60,
        }
    }

    pub fn check(&self, list: &MembershipList) -> Result<(), PolicyError> {
        if !list.authorities().iter().all(|named| self.authorities.contains(named)) {
            return Err(PolicyError::Authorities);
        }
        if !self.gateways.contains(list.gateway()) {
            return Err(PolicyError::Gateway(list.gateway().clone()));
        }
        self.objections(list.params()).next().map_or(Ok(()), Err)
    }

    /// The rules that a list with these parameters breaks, whoever signs it.
    pub fn objections(&self, params: &Params) -> impl Iterator<Item = PolicyError> {
        let terms = params.terms();
        let range = (terms.lo, terms.hi);
        let (found, most) = ((terms.epsilon_numerator, terms.epsilon_denominator), self.max_epsilon);
        let too_large = u128::from(found.0) * u128::from(most.1) > u128::from(most.0) * u128::from(found.1);
        let (attempts, honest, slot) = (params.attempts(), params.honest(), terms.slot_seconds);
        let too_many = attempts > self.max_attempts;
        let too_few = honest < self.min_honest;
        let too_short = slot < self.min_slot_seconds;
        [
            (range != self.range).then_some(PolicyError::Range { expected: self.range, found: range }),
            too_large.then_some(PolicyError::Epsilon { most, found }),
            too_many.then_some(PolicyError::Attempts { most: self.max_attempts, found: attempts }),
            too_few.then_some(PolicyError::TooFewHonest { least: self.min_honest, found: honest }),
            too_short.then_some(PolicyError::SlotTooShort { least: self.min_slot_seconds, found: slot }),
        ]
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Terms;

    const TERMS: Terms = Terms { max_malicious: 3, ..Terms::with_slots_of(60) };

    #[test]
    fn every_rule_that_parameters_break_is_named_and_none_at_its_limit() {
        let policy = Policy::new(Authorities::new([]).unwrap(), []);
        let objections = |members, terms| policy.objections(&Params::new(members, terms).unwrap()).collect::<Vec<_>>();
        assert_eq!(objections(23, TERMS), []);
        let slot_seconds = 59;
        let terms = Terms { slot_seconds, lo: -1, epsilon_numerator: 3, epsilon_denominator: 2, attempts: 3, ..TERMS };
        assert_eq!(
            objections(22, terms),
            [
                PolicyError::Range { expected: (0, 9000), found: (-1, 9000) },
                PolicyError::Epsilon { most: (1, 1), found: (3, 2) },
                PolicyError::Attempts { most: 2, found: 3 },
                PolicyError::TooFewHonest { least: 20, found: 19 },
                PolicyError::SlotTooShort { least: 60, found: 59 },
            ]
        );
    }
}
