//! What a meter accepts. Every privacy rule is enforced here and in [`crate::meter`], never by trusting the gateway.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::certificate::Authorities;
use crate::ids::GatewayId;
use crate::membership::MembershipList;

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
    /// The most that may be spent on the slots that start in one UTC day, in millionths.
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
    #[error("the list was verified under other authorities than the policy's")]
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
    /// The default policy, for meters of these authorities and gateways.
    pub fn new(authorities: Authorities, gateways: impl IntoIterator<Item = GatewayId>) -> Self {
        Self {
            authorities,
            gateways: gateways.into_iter().collect(),
            range: (0, 9000),
            max_epsilon: (1, 1),
            daily_micro_epsilon: 160_000_000,
            max_attempts: 2,
            min_honest: 20,
            min_slot_seconds: 60,
        }
    }

    pub fn check(&self, list: &MembershipList) -> Result<(), PolicyError> {
        if *list.authorities() != self.authorities {
            return Err(PolicyError::Authorities);
        }
        if !self.gateways.contains(list.gateway()) {
            return Err(PolicyError::Gateway(list.gateway().clone()));
        }
        let params = list.params();
        let terms = params.terms();
        if (terms.lo, terms.hi) != self.range {
            return Err(PolicyError::Range { expected: self.range, found: (terms.lo, terms.hi) });
        }
        let found = (terms.epsilon_numerator, terms.epsilon_denominator);
        let most = self.max_epsilon;
        if u128::from(found.0) * u128::from(most.1) > u128::from(most.0) * u128::from(found.1) {
            return Err(PolicyError::Epsilon { most, found });
        }
        if params.attempts() > self.max_attempts {
            return Err(PolicyError::Attempts { most: self.max_attempts, found: params.attempts() });
        }
        if params.honest() < self.min_honest {
            return Err(PolicyError::TooFewHonest { least: self.min_honest, found: params.honest() });
        }
        if terms.slot_seconds < self.min_slot_seconds {
            return Err(PolicyError::SlotTooShort { least: self.min_slot_seconds, found: terms.slot_seconds });
        }
        Ok(())
    }
}
