//! Stable names of errors, all in one place: metrics, logs and the test vectors rely on them, so that a variant can be
//! renamed without breaking anybody.

use crate::certificate::CertificateError;
use crate::cluster::Rejection;
use crate::enrolment::EnrolmentError;
use crate::evidence::EvidenceError;
use crate::ids::IdError;
use crate::member_set::MemberSetError;
use crate::membership::ListError;
use crate::meter::Refusal;
use crate::params::ParamsError;
use crate::policy::PolicyError;
use crate::scheme::committee::CommitteeError;
use crate::topic::TopicError;
use crate::wire::DecodeError;

/// An error with a stable name.
pub trait Coded {
    /// Returns the name of the rule that was broken, in snake case; each variant of an enum has its own.
    fn code(&self) -> &'static str;

    /// Returns the error inside that says more exactly what is wrong, if there is one.
    fn detail(&self) -> Option<&dyn Coded> {
        None
    }

    /// Returns the names from the outside in, for example `list/enrolment/certificate/bad_signature`.
    fn code_path(&self) -> String {
        match self.detail() {
            Some(detail) => format!("{}/{}", self.code(), detail.code_path()),
            None => self.code().to_owned(),
        }
    }
}

impl Coded for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::ClockDoubtful => "clock_doubtful",
            Self::Decode(_) => "malformed",
            Self::Topic(_) => "topic",
            Self::List(_) => "list",
            Self::Policy(_) => "policy",
            Self::NotListed => "not_listed",
            Self::OldEnrolment => "old_enrolment",
            Self::RecordLost => "record_lost",
            Self::StaleEpoch { .. } => "stale_epoch",
            Self::TwoListsOfAnEpoch(_) => "two_lists_of_an_epoch",
            Self::BrokenChain(_) => "broken_chain",
            Self::ProtectionFalls { .. } => "protection_falls",
            Self::TooFarAhead => "too_far_ahead",
            Self::ListOver => "list_over",
            Self::TooManyLists => "too_many_lists",
            Self::NoList => "no_list",
            Self::SlotNotOver => "slot_not_over",
            Self::SlotOver => "slot_over",
            Self::AlreadyReported => "already_reported",
            Self::LedgerExhausted => "ledger_exhausted",
            Self::UnknownSlot => "unknown_slot",
            Self::OtherList => "other_list",
            Self::BadSignature => "bad_signature",
            Self::OtherAttempt => "other_attempt",
            Self::TooManyMissing { .. } => "too_many_missing",
            Self::NamesThisMeter => "names_this_meter",
            Self::Bitmap(_) => "bitmap",
            Self::NotAHolder => "not_a_holder",
            Self::AlreadyAnswered => "already_answered",
            Self::SecondRequest => "second_request",
            Self::SecondRetry => "second_retry",
            Self::AttemptNotAbove { .. } => "attempt_not_above",
            Self::TooManyAttempts { .. } => "too_many_attempts",
            Self::RetryOver => "retry_over",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Topic(error) => Some(error),
            Self::List(error) => Some(error),
            Self::Policy(error) => Some(error),
            Self::Bitmap(error) => Some(error),
            Self::ClockDoubtful
            | Self::NotListed
            | Self::OldEnrolment
            | Self::RecordLost
            | Self::StaleEpoch { .. }
            | Self::TwoListsOfAnEpoch(_)
            | Self::BrokenChain(_)
            | Self::ProtectionFalls { .. }
            | Self::TooFarAhead
            | Self::ListOver
            | Self::TooManyLists
            | Self::NoList
            | Self::SlotNotOver
            | Self::SlotOver
            | Self::AlreadyReported
            | Self::LedgerExhausted
            | Self::UnknownSlot
            | Self::OtherList
            | Self::BadSignature
            | Self::OtherAttempt
            | Self::TooManyMissing { .. }
            | Self::NamesThisMeter
            | Self::NotAHolder
            | Self::AlreadyAnswered
            | Self::SecondRequest
            | Self::SecondRetry
            | Self::AttemptNotAbove { .. }
            | Self::TooManyAttempts { .. }
            | Self::RetryOver => None,
        }
    }
}

impl Coded for Rejection {
    /// Returns the word that is used in metrics.
    fn code(&self) -> &'static str {
        self.as_str()
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Topic(error) => Some(error),
            Self::Decode(error) => Some(error),
            Self::Enrolment(error) => Some(error),
            Self::List(error) => Some(error),
            Self::Evidence(error) => Some(error),
            Self::Duplicate
            | Self::NotAMember
            | Self::OtherList
            | Self::BadMac
            | Self::BadSignature
            | Self::SlotClosed
            | Self::SlotNotOpen
            | Self::OtherAttempt
            | Self::TooLate
            | Self::Contradiction
            | Self::NotAsked
            | Self::OtherRequest
            | Self::NotAResponder
            | Self::OtherScheme
            | Self::NotAHolder
            | Self::Corrections { .. }
            | Self::OldEnrolment
            | Self::DatedAhead
            | Self::InOtherCluster
            | Self::TooOften
            | Self::KeyInUse
            | Self::Denied
            | Self::Unknown
            | Self::OtherGateway
            | Self::TooFarAhead => None,
        }
    }
}

impl Coded for EvidenceError {
    fn code(&self) -> &'static str {
        match self {
            Self::Decode(_) => "malformed",
            Self::Certificate(_) => "certificate",
            Self::BadSignature { .. } => "bad_signature",
            Self::TwoGateways { .. } => "two_gateways",
            Self::NoContradiction => "no_contradiction",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Certificate(error) => Some(error),
            Self::BadSignature { .. } | Self::TwoGateways { .. } | Self::NoContradiction => None,
        }
    }
}

impl Coded for ListError {
    fn code(&self) -> &'static str {
        match self {
            Self::Decode(_) => "malformed",
            Self::OtherCluster { .. } => "other_cluster",
            Self::Gateway(_) => "gateway",
            Self::BadSignature => "bad_signature",
            Self::Enrolment { .. } => "enrolment",
            Self::Period { .. } => "period",
            Self::GatewayPeriod => "gateway_period",
            Self::Slots { .. } => "slots",
            Self::Epoch { .. } => "epoch",
            Self::UnknownAuthority => "unknown_authority",
            Self::WrongAuthority { .. } => "wrong_authority",
            Self::OtherCertificate => "other_certificate",
            Self::HolderCount { .. } => "holder_count",
            Self::OtherHolders => "other_holders",
            Self::NotAHolder { .. } => "not_a_holder",
            Self::OtherDigests => "other_digests",
            Self::NotShort => "not_short",
            Self::MemberCount { .. } => "member_count",
            Self::OtherEntries => "other_entries",
            Self::Order { .. } => "order",
            Self::RepeatedIdentity { .. } => "repeated_identity",
            Self::LowOrder => "low_order",
            Self::CertifiedSize { .. } => "certified_size",
            Self::Params(_) => "params",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Gateway(error) => Some(error),
            Self::Enrolment { reason, .. } => Some(reason),
            Self::Params(error) => Some(error),
            Self::OtherCluster { .. }
            | Self::BadSignature
            | Self::Period { .. }
            | Self::GatewayPeriod
            | Self::Slots { .. }
            | Self::Epoch { .. }
            | Self::UnknownAuthority
            | Self::WrongAuthority { .. }
            | Self::OtherCertificate
            | Self::HolderCount { .. }
            | Self::OtherHolders
            | Self::NotAHolder { .. }
            | Self::OtherDigests
            | Self::NotShort
            | Self::MemberCount { .. }
            | Self::OtherEntries
            | Self::Order { .. }
            | Self::RepeatedIdentity { .. }
            | Self::LowOrder
            | Self::CertifiedSize { .. } => None,
        }
    }
}

impl Coded for EnrolmentError {
    fn code(&self) -> &'static str {
        match self {
            Self::Decode(_) => "malformed",
            Self::Certificate(_) => "certificate",
            Self::OtherCertificate => "other_certificate",
            Self::OtherCluster { .. } => "other_cluster",
            Self::CertifiedCluster { .. } => "certified_cluster",
            Self::BadSignature => "bad_signature",
            Self::Period { .. } => "period",
            Self::LowOrder => "low_order",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Certificate(error) => Some(error),
            Self::OtherCertificate
            | Self::OtherCluster { .. }
            | Self::CertifiedCluster { .. }
            | Self::BadSignature
            | Self::Period { .. }
            | Self::LowOrder => None,
        }
    }
}

impl Coded for CertificateError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownAuthority => "unknown_authority",
            Self::WrongAuthority { .. } => "wrong_authority",
            Self::BadSignature => "bad_signature",
            Self::NotEd25519 => "not_ed25519",
            Self::WeakKey => "weak_key",
            Self::NotAnAuthority => "not_an_authority",
            Self::IsAnAuthority => "is_an_authority",
            Self::KeyUsage => "key_usage",
            Self::UnknownCriticalExtension(_) => "unknown_critical_extension",
            Self::BadExtension(_) => "bad_extension",
            Self::CommonName => "common_name",
            Self::Name => "name",
            Self::Cluster => "cluster",
            Self::Draw => "draw",
            Self::NameMismatch => "name_mismatch",
            Self::WrongRole { .. } => "wrong_role",
            Self::Id(_) => "id",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Id(error) => Some(error),
            Self::Malformed
            | Self::UnknownAuthority
            | Self::WrongAuthority { .. }
            | Self::BadSignature
            | Self::NotEd25519
            | Self::WeakKey
            | Self::NotAnAuthority
            | Self::IsAnAuthority
            | Self::KeyUsage
            | Self::UnknownCriticalExtension(_)
            | Self::BadExtension(_)
            | Self::CommonName
            | Self::Name
            | Self::Cluster
            | Self::Draw
            | Self::NameMismatch
            | Self::WrongRole { .. } => None,
        }
    }
}

impl Coded for ParamsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Members { .. } => "members",
            Self::TooManyMissing { .. } => "too_many_missing",
            Self::TooFewMalicious { .. } => "too_few_malicious",
            Self::NoneHonest { .. } => "none_honest",
            Self::Range { .. } => "range",
            Self::Epsilon { .. } => "epsilon",
            Self::DayEpsilon { .. } => "day_epsilon",
            Self::Windows { .. } => "windows",
            Self::TooLarge { .. } => "too_large",
            Self::TooFewPartners { .. } => "too_few_partners",
            Self::TooLargeForPartners { .. } => "too_large_for_partners",
            Self::Committee(CommitteeError::Holders { .. }) => "holders",
            Self::Committee(CommitteeError::Drawn { .. }) => "drawn",
            Self::Committee(CommitteeError::Needed { .. }) => "needed",
            Self::Committee(CommitteeError::Missing { .. }) => "committee_missing",
        }
    }
}

impl Coded for PolicyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Authorities => "authorities",
            Self::Gateway(_) => "gateway",
            Self::Range { .. } => "range",
            Self::Epsilon { .. } => "epsilon",
            Self::NoiseScale { .. } => "noise_scale",
            Self::DayEpsilon { .. } => "day_epsilon",
            Self::Attempts { .. } => "attempts",
            Self::TooFewMembers { .. } => "too_few_members",
            Self::TooFewMalicious { .. } => "too_few_malicious",
            Self::TooFewHonest { .. } => "too_few_honest",
            Self::NoCertifiedSize { .. } => "no_certified_size",
            Self::ShortList => "short_list",
            Self::PartialMasks { .. } => "partial_masks",
            Self::Scheme { .. } => "scheme",
            Self::SlotTooShort { .. } => "slot_too_short",
        }
    }
}

impl Coded for MemberSetError {
    fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "length",
            Self::SpareBits { .. } => "spare_bits",
        }
    }
}

impl Coded for TopicError {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownVersion => "unknown_version",
            Self::UnknownChannel => "unknown_channel",
            Self::Id(_) => "id",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Id(error) => Some(error),
            Self::UnknownVersion | Self::UnknownChannel => None,
        }
    }
}

impl Coded for DecodeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Trailing { .. } => "trailing",
            Self::NonCanonical { .. } => "non_canonical",
            Self::WrongType { .. } => "wrong_type",
            Self::WrongCount { .. } => "wrong_count",
            Self::WrongLength { .. } => "wrong_length",
            Self::OutOfRange { .. } => "out_of_range",
            Self::WrongKind { .. } => "wrong_kind",
            Self::WrongAlgorithm => "wrong_algorithm",
            Self::WrongHeader { .. } => "wrong_header",
            Self::EarlierFormat => "earlier_format",
            Self::Id { .. } => "id",
        }
    }

    fn detail(&self) -> Option<&dyn Coded> {
        match self {
            Self::Id { reason, .. } => Some(reason),
            Self::EarlierFormat
            | Self::Truncated { .. }
            | Self::Trailing { .. }
            | Self::NonCanonical { .. }
            | Self::WrongType { .. }
            | Self::WrongCount { .. }
            | Self::WrongLength { .. }
            | Self::OutOfRange { .. }
            | Self::WrongKind { .. }
            | Self::WrongAlgorithm
            | Self::WrongHeader { .. } => None,
        }
    }
}

impl Coded for IdError {
    fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "length",
            Self::Character { .. } => "character",
            Self::Reserved => "reserved",
        }
    }
}
