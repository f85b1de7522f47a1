//! A cluster's configuration at its gateway, and the terms of lists that follow from it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use thiserror::Error;

use super::offenders::Limits;
use super::{CannotForm, RosterRules};
use crate::certificate::{Authorities, CertificateError};
use crate::enrolment::Enrolment;
use crate::ids::ClusterId;
use crate::keys::IdentityKey;
use crate::membership::{self, MembershipList, fewest_of};
use crate::params::{Params, ParamsError, Share, Terms};
use crate::policy::{Budget, Floors};
use crate::scheme::committee::{self, NoCommittee};
use crate::scheme::{COMMITTEE_FROM, Kind, Scheme, SchemeChoice};
use crate::time::Slot;

/// A cluster's configuration at its gateway.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    pub cluster: ClusterId,
    pub identity: Arc<IdentityKey>,
    /// The gateway's certificate, in DER.
    pub certificate: Arc<[u8]>,
    pub authorities: Authorities,
    /// The terms of every list; `max_missing` and `max_malicious` follow from the shares below and the members.
    pub terms: Terms,
    /// Which schemes lists are formed in. `terms` has the parameters of the pairwise one.
    pub scheme: SchemeChoice,
    /// How many attempts a slot has in the committee scheme, where losses cost none.
    pub committee_attempts: u64,
    /// Whether the holders of large lists may be drawn: not if meters want to see the certificate of every member.
    pub may_draw: bool,
    pub missing_share: Share,
    pub malicious_share: Share,
    /// How small a list its meters accept. T is never below theirs.
    pub floors: Floors,
    /// How much its meters spend. A slot is not tried again where that would leave too little for those that follow.
    pub budget: Budget,
    pub roster: RosterRules,
    /// How early, by the gateway's clock, a reading may come because a meter's clock is ahead.
    pub clock_skew_seconds: u64,
}

/// Why a configuration cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    #[error("the gateway's own certificate is refused: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the certificate is for another key than the gateway's identity key")]
    OtherKey,
    #[error("a cluster of `min_members` cannot be formed: {0}")]
    Params(#[from] ParamsError),
}

impl ClusterConfig {
    /// The terms of a list of so many members.
    pub(super) fn params_for(&self, members: u16) -> Result<Params, ParamsError> {
        self.terms.for_members(members, self.missing_share, self.malicious_share, self.floors.malicious)
    }

    /// The terms of a list of so many members that allows for at least so many malicious ones, as far as enough honest ones are
    /// left.
    pub(super) fn params_keeping(&self, members: u16, malicious: u16) -> Result<Params, ParamsError> {
        let params = self.params_for(members)?;
        let most = members.saturating_sub(params.max_missing()).saturating_sub(self.floors.honest);
        let kept = malicious.min(most);
        if kept <= params.max_malicious() {
            return Ok(params);
        }
        Params::new(members.into(), Terms { max_malicious: kept.into(), ..*params.terms() })
    }

    /// Returns the parameters of a list of these members from a slot on, and who of them are holders. Where a committee was
    /// preferred and cannot be formed, says why.
    pub(super) fn params_of(
        &self,
        members: &[Enrolment],
        malicious: u16,
        from_slot: Slot,
    ) -> Result<(Params, Vec<u16>, Option<NoCommittee>), CannotForm> {
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        let pairwise = |reason| Ok((self.params_keeping(count, malicious)?, Vec::new(), reason));
        let auto = self.scheme == SchemeChoice::Auto;
        if self.scheme == SchemeChoice::Only(Kind::Pairwise) || (auto && count < COMMITTEE_FROM) {
            return pairwise(None);
        }
        match self.committee_of(members, self.params_keeping(count, malicious)?, from_slot) {
            Ok((params, holders)) => Ok((params, holders, None)),
            Err(CannotForm::Committee(reason)) if auto => pairwise(Some(reason)),
            Err(CannotForm::Params(_)) if auto => pairwise(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a list with these parameters says what this gateway would say, whose parameters are those in the pairwise
    /// scheme. A committee is drawn anew with the next list, not before.
    pub(super) fn would_say(&self, pairwise: &Params, found: &Params) -> bool {
        let kind = found.terms().scheme.kind();
        let expected = match kind {
            Kind::Pairwise => *pairwise.terms(),
            Kind::Committee => {
                Terms { scheme: found.terms().scheme, attempts: self.committee_attempts, ..*pairwise.terms() }
            }
        };
        let allowed = self.scheme == SchemeChoice::Auto || self.scheme == SchemeChoice::Only(kind);
        allowed && expected == *found.terms()
    }

    /// Draws the committee of a list of these members, whose parameters are those in the pairwise scheme.
    fn committee_of(
        &self,
        members: &[Enrolment],
        pairwise: Params,
        from_slot: Slot,
    ) -> Result<(Params, Vec<u16>), CannotForm> {
        let count = pairwise.members();
        let day = committee::day_of(pairwise.slot_start(from_slot).as_secs());
        let willing = members.iter().filter(|member| member.is_willing(count));
        let draws: Vec<Option<u64>> = willing.map(|member| member.sigma(day)).collect();
        let committee = committee::choose(count, pairwise.max_malicious(), &draws, self.may_draw)?.committee;
        let terms =
            Terms { scheme: Scheme::Committee(committee), attempts: self.committee_attempts, ..*pairwise.terms() };
        let params = Params::new(count.into(), terms)?;
        Ok((params, membership::holders_of(&params, from_slot, members)))
    }

    /// Whether a list of so many members, which allows for so many malicious ones, is one that this gateway forms and its meters
    /// accept. `size` is the largest number of meters that a member's certificate says the cluster has.
    pub(super) fn allows(&self, members: u16, malicious: u16, size: Option<u16>) -> bool {
        let sound = |params: Params| params.max_malicious() >= malicious && self.floors.allow(&params);
        members >= self.roster.min_members
            && members >= size.map_or(0, fewest_of)
            && self.params_keeping(members, malicious).is_ok_and(sound)
    }

    /// The configuration for a list of so many, of whom as many may be missing as any scheme allows, while a search for several
    /// liars goes on. T is that of a list of everybody.
    pub(super) fn widened(&self, members: u16, malicious: u16) -> Option<Self> {
        let count = u32::from(members);
        let most = (count / 5).min(count.saturating_sub(u32::from(malicious) + 1) / 4);
        let usual = self.params_for(members).map_or(0, |params| params.max_missing().into());
        let floors = Floors { malicious: malicious.max(self.floors.malicious), ..self.floors };
        Some(Self { missing_share: Share::new(most.max(usual), count)?, floors, ..self.clone() })
    }

    /// Returns what lists may do for a search in the cluster of a list and of those who are away from it.
    pub(super) fn search_limits(&self, list: &MembershipList, away: usize) -> Limits {
        let listed = list.params().members();
        let everybody = listed.saturating_add(u16::try_from(away).unwrap_or(u16::MAX));
        let Ok(all) = self.params_for(everybody) else { return Limits { max_missing: 0, away: 0 } };
        if list.params().terms().scheme.kind() == Kind::Pairwise {
            return Limits { max_missing: all.max_missing(), away: 0 };
        }
        let malicious = all.max_malicious().max(list.params().max_malicious());
        let willing = list.members().iter().filter(|member| member.is_willing(everybody)).count();
        let size = list.members().iter().filter_map(Enrolment::certified_size).max();
        let works = |members: u16| {
            let willing = (willing * usize::from(members) / usize::from(listed).max(1)) as u64;
            let spread = |place: u64| u64::try_from((u128::from(2 * place + 1) << 64) / u128::from(2 * willing.max(1)));
            let draws: Vec<Option<u64>> = (0..willing).map(|place| spread(place).ok()).collect();
            let forms = committee::choose(members, malicious, &draws, self.may_draw).is_ok();
            forms && self.widened(members, malicious).is_some_and(|config| config.allows(members, malicious, size))
        };
        let (mut shortest, mut too_short) = (everybody, everybody / 2);
        while shortest > too_short + 1 {
            let middle = u16::midpoint(shortest, too_short);
            *(if works(middle) { &mut shortest } else { &mut too_short }) = middle;
        }
        Limits { max_missing: all.max_missing(), away: (everybody - shortest).into() }
    }
}
