//! What a meter accepts. Every privacy rule is enforced here and in [`crate::meter`], never by trusting the gateway.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::certificate::Authorities;
use crate::day::DAY_SECONDS;
use crate::ids::GatewayId;
use crate::membership::MembershipList;
use crate::params::{MAX_MEMBERS, Params, Terms};
use crate::scheme::Kind;

/// How large a cluster a meter is willing to be a holder in by default: any.
#[expect(clippy::cast_possible_truncation, reason = "10,000")]
const HOLDS: u16 = MAX_MEMBERS as u16;

/// How small a cluster may be, in absolute numbers. Limits that are relative to N bound no gateway that chooses N: a list of
/// three homes and twenty meters of its own would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floors {
    /// The fewest members, N.
    pub members: u16,
    /// The fewest colluders that the noise must allow for, T.
    pub malicious: u16,
    /// The fewest honest shares that must make up the noise, n.
    pub honest: u16,
}

impl Floors {
    /// Returns the floors that a list with these parameters is below.
    pub fn broken_by(&self, params: &Params) -> impl Iterator<Item = PolicyError> {
        let below = |found: u16, least: u16| (found < least).then_some((least, found));
        let members = below(params.members(), self.members);
        let malicious = below(params.max_malicious(), self.malicious);
        let honest = below(params.honest(), self.honest);
        [
            members.map(|(least, found)| PolicyError::TooFewMembers { least, found }),
            malicious.map(|(least, found)| PolicyError::TooFewMalicious { least, found }),
            honest.map(|(least, found)| PolicyError::TooFewHonest { least, found }),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether a list with these parameters is large enough.
    pub fn allow(&self, params: &Params) -> bool {
        self.broken_by(params).next().is_none()
    }
}

/// How much a meter spends, in millionths of epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most on the slots that start within any 24 hours.
    pub daily_micro_epsilon: u64,
    /// The most on all slots of a UTC day, where lists state no rho.
    pub day_micro_epsilon: u64,
}

/// A named set of rules. A meter's is set by its maker or owner; a gateway asks which one its meters have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// The default.
    #[default]
    Strict,
    /// For small clusters, such as an energy community, whose authority certifies how many meters there are.
    Community,
    /// For trials in which nobody's home is measured: next to no rules. No profile of `protocol.md`.
    Trial,
}

impl Profile {
    pub const ALL: [Self; 3] = [Self::Strict, Self::Community, Self::Trial];

    pub const fn floors(self) -> Floors {
        match self {
            Self::Strict => Floors { members: 50, malicious: 10, honest: 20 },
            Self::Community => Floors { members: 23, malicious: 3, honest: 15 },
            Self::Trial => Floors { members: 2, malicious: 1, honest: 2 },
        }
    }

    pub fn budget(self) -> Budget {
        let Policy { daily_micro_epsilon, day_micro_epsilon, .. } = self.rules();
        Budget { daily_micro_epsilon, day_micro_epsilon }
    }

    /// Returns the policy of a meter that trusts nobody yet: for asking what such meters refuse.
    pub fn rules(self) -> Policy {
        Policy::new(Authorities::none(), []).with_profile(self)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Community => "community",
            Self::Trial => "trial",
        }
    }
}

impl FromStr for Profile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|profile| profile.as_str() == text);
        named.ok_or("use strict, community or trial")
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A meter's privacy policy, set by its maker or owner; the defaults are those of `protocol.md 2`.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Who may issue certificates, and to whom.
    pub authorities: Authorities,
    /// Which gateways may publish lists.
    pub gateways: BTreeSet<GatewayId>,
    /// What the range of readings must lie within, in watts: a wider one would add noise for readings that no home has.
    pub range: (i64, i64),
    /// The least lambda, the scale of the noise, in watts. With a range of 0 to 50 W and epsilon 1, one lamp would cost the
    /// whole epsilon.
    pub min_noise_watts: u64,
    /// The largest epsilon of one attempt, as a fraction.
    pub max_epsilon: (u64, u64),
    /// The most that may be spent on the slots that start within any 24 hours, in millionths.
    pub daily_micro_epsilon: u64,
    /// The most epsilon that the attempts of a UTC day may cost under lists that state no rho, in millionths.
    pub day_micro_epsilon: u64,
    /// The largest rho of a UTC day, in millionths. It is another measure than epsilon, and has a limit of its own.
    pub day_micro_rho: u64,
    /// The most attempts per slot.
    pub max_attempts: u8,
    /// How small a cluster may be.
    pub floors: Floors,
    /// Whether every certificate, the meter's own included, must name the cluster and its size. Otherwise a gateway could
    /// fill a small cluster with meters from anywhere.
    pub certified_size: bool,
    /// Whether lists may let members mask with some others only (w > 0), which is weaker and saves nothing.
    pub partial_masks: bool,
    /// The scheme that is refused, if one is: the pairwise one by who fears losses more than colluders, the committee by who
    /// fears many colluders at once.
    pub refused_scheme: Option<Kind>,
    /// The largest cluster in which the meter is willing to be a holder; 0 for none. A small device has room for fewer keys.
    pub holds: u16,
    /// The shortest slot: epsilon protects what happens in one, so that a gateway must not make it a moment.
    pub min_slot_seconds: u64,
}

/// Which rule of a policy a list breaks.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum PolicyError {
    #[error("the list names an authority that the policy does not name in that role")]
    Authorities,
    #[error("gateway `{0}` is not one that the policy names")]
    Gateway(GatewayId),
    #[error("the range {}..{} W is not within the policy's {}..{} W", found.0, found.1, outer.0, outer.1)]
    Range { outer: (i64, i64), found: (i64, i64) },
    #[error("the noise has a scale of {found} W; the policy demands {least} W, by a wider range or a smaller epsilon")]
    NoiseScale { least: u64, found: u64 },
    #[error("a day costs {} epsilon; the policy allows {}", micro(*found), micro(*most))]
    DayEpsilon { most: u64, found: u64 },
    #[error("a day has a rho of {}; the policy allows {}", micro(*found), micro(*most))]
    DayRho { most: u64, found: u64 },
    #[error("epsilon {}/{} is above the policy's {}/{}", found.0, found.1, most.0, most.1)]
    Epsilon { most: (u64, u64), found: (u64, u64) },
    #[error("{found} attempts per slot; the policy allows {most}")]
    Attempts { most: u8, found: u8 },
    #[error("{found} members; the policy demands {least}")]
    TooFewMembers { least: u16, found: u16 },
    #[error("{found} members may be malicious; the policy demands that the noise allows for {least}")]
    TooFewMalicious { least: u16, found: u16 },
    #[error("the noise would be made by {found} honest shares; the policy demands {least}")]
    TooFewHonest { least: u16, found: u16 },
    #[error("the certificate of entry {entry} does not say how many meters the cluster has; the policy demands it")]
    NoCertifiedSize { entry: usize },
    #[error("holders are drawn, so that members get short lists; the policy demands to see every certificate")]
    ShortList,
    #[error("members would mask with {partners} others only; the policy demands all, which is w = 0")]
    PartialMasks { partners: u64 },
    #[error("the scheme is {refused}, which the policy refuses")]
    Scheme { refused: Kind },
    #[error("slots of {found} s; the policy demands {least} s")]
    SlotTooShort { least: u64, found: u64 },
}

impl Policy {
    /// Returns the default policy of a meter that trusts nobody yet: for asking what such meters refuse.
    pub fn default_rules() -> Self {
        Profile::Strict.rules()
    }

    /// The default policy, for meters of these authorities and gateways.
    pub fn new(authorities: Authorities, gateways: impl IntoIterator<Item = GatewayId>) -> Self {
        Self {
            authorities,
            gateways: gateways.into_iter().collect(),
            range: (-10_000, 15_000),
            min_noise_watts: 2_000,
            max_epsilon: (1, 1),
            daily_micro_epsilon: 160_000_000,
            day_micro_epsilon: 100_000_000,
            day_micro_rho: 2_000_000,
            max_attempts: 2,
            floors: Profile::Strict.floors(),
            certified_size: false,
            partial_masks: false,
            refused_scheme: None,
            holds: HOLDS,
            min_slot_seconds: 60,
        }
    }

    /// Returns this policy with another profile's rules in place of the default ones.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        let floors = profile.floors();
        match profile {
            Profile::Strict => Self { floors, ..self },
            Profile::Community => Self {
                floors,
                max_epsilon: (2, 1),
                day_micro_epsilon: 200_000_000,
                day_micro_rho: 18_000_000,
                certified_size: true,
                ..self
            },
            Profile::Trial => Self {
                floors,
                min_noise_watts: 0,
                daily_micro_epsilon: u64::MAX,
                day_micro_epsilon: u64::MAX,
                day_micro_rho: u64::MAX,
                partial_masks: true,
                min_slot_seconds: 1,
                ..self
            },
        }
    }

    /// The largest epsilon of an attempt that a meter accepts under such terms and can pay for in every slot of a day, in
    /// millionths.
    pub fn largest_micro_epsilon(&self, terms: &Terms) -> u64 {
        let (numerator, denominator) = self.max_epsilon;
        let of_budget = self.daily_micro_epsilon / DAY_SECONDS.div_ceil(terms.slot_seconds.max(1));
        let width = terms.hi.abs_diff(terms.lo).saturating_mul(1_000_000);
        let of_noise = width.checked_div(self.min_noise_watts).unwrap_or(u64::MAX);
        (1_000_000 * numerator / denominator).min(of_budget).min(of_noise)
    }

    pub fn check(&self, list: &MembershipList) -> Result<(), PolicyError> {
        let meters = list.meter_authorities().iter().all(|named| self.authorities.meters().contains(named));
        if !meters || !self.authorities.gateways().contains(list.gateway_authority()) {
            return Err(PolicyError::Authorities);
        }
        if !self.gateways.contains(list.gateway()) {
            return Err(PolicyError::Gateway(list.gateway().clone()));
        }
        if let Some(broken) = self.objections(list.params()).next() {
            return Err(broken);
        }
        if !self.certified_size {
            return Ok(());
        }
        // Of a short list only the holders' certificates can be looked at.
        if !list.is_full() {
            return Err(PolicyError::ShortList);
        }
        match list.members().iter().position(|member| member.certified_size().is_none()) {
            Some(entry) => Err(PolicyError::NoCertifiedSize { entry }),
            None => Ok(()),
        }
    }

    /// The rules that a list with these parameters breaks, no matter who signs it.
    pub fn objections(&self, params: &Params) -> impl Iterator<Item = PolicyError> {
        let terms = params.terms();
        let (range, outer) = ((terms.lo, terms.hi), self.range);
        let outside = range.0 < outer.0 || range.1 > outer.1;
        let (lambda, least) = (params.noise_scale(), self.min_noise_watts);
        let too_quiet = u128::from(lambda.numerator()) < u128::from(least) * u128::from(lambda.denominator());
        let day = match terms.day_micro_rho {
            0 => Some((self.day_micro_epsilon, params.plain_day_micro_epsilon()))
                .filter(|(most, found)| found > most)
                .map(|(most, found)| PolicyError::DayEpsilon { most, found }),
            found => (found > self.day_micro_rho).then_some(PolicyError::DayRho { most: self.day_micro_rho, found }),
        };
        let (found, most) = ((terms.epsilon_numerator, terms.epsilon_denominator), self.max_epsilon);
        let too_large = u128::from(found.0) * u128::from(most.1) > u128::from(most.0) * u128::from(found.1);
        let (attempts, slot, partners) = (params.attempts(), terms.slot_seconds, terms.scheme.partners());
        let too_many = attempts > self.max_attempts;
        let partial = partners > 0 && !self.partial_masks;
        let too_short = slot < self.min_slot_seconds;
        [
            outside.then_some(PolicyError::Range { outer, found: range }),
            too_large.then_some(PolicyError::Epsilon { most, found }),
            too_quiet.then(|| PolicyError::NoiseScale { least, found: lambda.numerator() / lambda.denominator() }),
            // Short slots make a long day of themselves: say that first.
            too_short.then_some(PolicyError::SlotTooShort { least: self.min_slot_seconds, found: slot }),
            day,
            too_many.then_some(PolicyError::Attempts { most: self.max_attempts, found: attempts }),
            partial.then_some(PolicyError::PartialMasks { partners }),
            self.refused_scheme
                .filter(|refused| *refused == terms.scheme.kind())
                .map(|refused| PolicyError::Scheme { refused }),
        ]
        .into_iter()
        .flatten()
        .chain(self.floors.broken_by(params))
    }
}

/// Writes millionths as a decimal without zeros at its end.
fn micro(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Scheme;

    const TERMS: Terms = Terms { max_malicious: 10, ..Terms::with_slots_of(60) };

    fn objections(policy: &Policy, members: usize, terms: Terms) -> Vec<PolicyError> {
        policy.objections(&Params::new(members, terms).unwrap()).collect()
    }

    #[test]
    fn every_rule_that_parameters_break_is_named_and_none_at_its_limit() {
        let policy = Policy::default_rules();
        assert_eq!(objections(&policy, 50, TERMS), []);
        assert_eq!(objections(&policy, 50, Terms { max_missing: 10, max_malicious: 20, ..TERMS }), []);
        let terms = Terms {
            slot_seconds: 59,
            lo: -10_001,
            hi: 1,
            day_micro_rho: 2_000_001,
            epsilon_numerator: 3,
            epsilon_denominator: 2,
            attempts: 3,
            reading_seconds: 5,
            scheme: Scheme::Pairwise { partners: 28 },
            ..Terms { max_malicious: 9, max_missing: 1, ..TERMS }
        };
        assert_eq!(
            objections(&policy, 29, terms),
            [
                PolicyError::Range { outer: (-10_000, 15_000), found: (-10_001, 1) },
                PolicyError::Epsilon { most: (1, 1), found: (3, 2) },
                PolicyError::SlotTooShort { least: 60, found: 59 },
                PolicyError::DayRho { most: 2_000_000, found: 2_000_001 },
                PolicyError::Attempts { most: 2, found: 3 },
                PolicyError::PartialMasks { partners: 28 },
                PolicyError::TooFewMembers { least: 50, found: 29 },
                PolicyError::TooFewMalicious { least: 10, found: 9 },
                PolicyError::TooFewHonest { least: 20, found: 19 },
            ]
        );
    }

    #[test]
    fn a_range_has_outer_limits_and_noise_has_a_floor() {
        let policy = Policy::default_rules();
        assert_eq!(objections(&policy, 50, Terms { lo: -10_000, hi: 15_000, ..TERMS }), []);
        assert_eq!(objections(&policy, 50, Terms { hi: 1000, ..TERMS }), []);
        let quiet = Terms { hi: 1999, epsilon_denominator: 1, ..TERMS };
        assert_eq!(objections(&policy, 50, quiet), [PolicyError::NoiseScale { least: 2000, found: 1999 }]);
        assert_eq!(objections(&policy, 50, Terms { epsilon_denominator: 2, ..quiet }), [], "lambda is 3998 W");
        let high = Terms { hi: 15_001, ..TERMS };
        let outer = (-10_000, 15_000);
        assert_eq!(objections(&policy, 50, high), [PolicyError::Range { outer, found: (0, 15_001) }]);
    }

    #[test]
    fn a_day_has_a_limit_whether_or_not_a_list_states_one() {
        let policy = Policy::default_rules();
        let found = |terms: Terms| objections(&policy, 50, terms);
        assert_eq!(found(Terms { day_micro_rho: 2_000_000, ..TERMS }), []);
        let plain = Terms { max_malicious: 10, day_micro_rho: 0, epsilon_denominator: 1, ..Terms::DEFAULT };
        assert_eq!(found(plain), [PolicyError::DayEpsilon { most: 100_000_000, found: 144_000_000 }]);
        assert_eq!(found(Terms { epsilon_numerator: 2, epsilon_denominator: 3, ..plain }), []);
        let community = |day_micro_rho| objections(&Profile::Community.rules(), 50, Terms { day_micro_rho, ..plain });
        assert_eq!((community(0), community(18_000_000)), (vec![], vec![]));
        assert_eq!(community(18_000_001), [PolicyError::DayRho { most: 18_000_000, found: 18_000_001 }]);
        let text = PolicyError::DayEpsilon { most: 100_000_000, found: 100_050_000 }.to_string();
        assert_eq!(text, "a day costs 100.05 epsilon; the policy allows 100");
        let text = PolicyError::DayRho { most: 2_000_000, found: 2_073_600 }.to_string();
        assert_eq!(text, "a day has a rho of 2.0736; the policy allows 2");
    }

    #[test]
    fn a_community_may_be_smaller_and_louder() {
        let community = Profile::Community.rules();
        let terms = Terms { max_malicious: 3, epsilon_numerator: 2, epsilon_denominator: 1, ..TERMS };
        assert_eq!(objections(&community, 23, terms), []);
        assert_eq!(objections(&community, 23, Terms { max_missing: 4, max_malicious: 4, ..terms }), []);
        assert_eq!(objections(&community, 22, terms), [PolicyError::TooFewMembers { least: 23, found: 22 }]);
        let louder = Terms { epsilon_numerator: 201, epsilon_denominator: 100, ..terms };
        assert_eq!(objections(&community, 23, louder), [PolicyError::Epsilon { most: (2, 1), found: (201, 100) }]);
        assert!(community.certified_size && !Policy::default_rules().certified_size);
    }

    #[test]
    fn profiles_have_names() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert_eq!("Strict".parse::<Profile>(), Err("use strict, community or trial"));
    }
}
