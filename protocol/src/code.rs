//! Stable names of errors, all in one place: metrics, logs and the test vectors rely on them, so that a variant can be
//! renamed without breaking anybody.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::certificate::CertificateError;
#[cfg(feature = "gateway")]
use crate::cluster::Rejection;
use crate::enrolment::EnrolmentError;
use crate::evidence::EvidenceError;
use crate::ids::IdError;
use crate::member_set::MemberSetError;
use crate::membership::ListError;
#[cfg(feature = "meter")]
use crate::meter::Refusal;
use crate::params::ParamsError;
use crate::policy::PolicyError;
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

/// Names errors by their variants. Listed are the fields that hold an error which says more.
macro_rules! coded {
    ($($(#[$only:meta])* $error:ty: $($variant:ident.$field:tt),*;)*) => { $($(#[$only])* impl Coded for $error {
        fn code(&self) -> &'static str {
            self.into()
        }

        fn detail(&self) -> Option<&dyn Coded> {
            $(if let Self::$variant { $field: inner, .. } = self {
                return Some(inner);
            })*
            None
        }
    })* };
}

coded! {
    #[cfg(feature = "meter")]
    Refusal: Decode.0, Topic.0, List.0, Policy.0, Bitmap.0;
    #[cfg(feature = "gateway")]
    Rejection: Topic.0, Decode.0, Enrolment.0, List.0, Evidence.0;
    EvidenceError: Decode.0, Certificate.0;
    ListError: Decode.0, Gateway.0, Enrolment.reason, Params.0;
    EnrolmentError: Decode.0, Certificate.0;
    CertificateError: Id.0;
    TopicError: Id.0;
    DecodeError: Id.reason;
    PolicyError:;
    MemberSetError:;
    IdError:;
}

impl Coded for ParamsError {
    /// Returns the name of the rule; one of a committee is named like the others.
    fn code(&self) -> &'static str {
        if let Self::Committee(error) = self { error.into() } else { self.into() }
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantNames;

    use super::*;
    use crate::scheme::committee::CommitteeError;

    /// Metrics, vectors and other implementations know these names: a variant may be renamed, its name may not.
    #[test]
    fn no_name_ever_changes() {
        let names = |variants: &[&'static str]| variants.join(" ");
        assert_eq!(
            names(Refusal::VARIANTS),
            "clock_doubtful malformed topic list policy not_listed old_enrolment record_lost stale_epoch \
             two_lists_of_an_epoch broken_chain protection_falls too_far_ahead list_over too_many_lists \
             no_list slot_not_over slot_over already_reported ledger_exhausted unknown_slot other_list \
             bad_signature other_attempt too_many_missing names_this_meter bitmap not_a_holder \
             already_answered second_request second_retry attempt_not_above too_many_attempts retry_over"
        );
        assert_eq!(
            names(Rejection::VARIANTS),
            "topic malformed duplicate not_a_member other_list bad_mac bad_signature slot_closed \
             slot_not_open other_attempt too_late contradiction not_asked other_request not_a_responder \
             other_scheme not_a_holder corrections enrolment old_enrolment dated_ahead in_other_cluster \
             too_often key_in_use denied unknown_meter evidence other_gateway too_far_ahead list"
        );
        assert_eq!(names(EvidenceError::VARIANTS), "malformed certificate bad_signature two_gateways no_contradiction");
        assert_eq!(
            names(ListError::VARIANTS),
            "malformed other_cluster unknown_authority wrong_authority gateway other_certificate \
             bad_signature holder_count other_holders not_a_holder other_digests not_short member_count \
             other_entries enrolment period gateway_period slots epoch order repeated_identity low_order \
             certified_size params"
        );
        assert_eq!(
            names(EnrolmentError::VARIANTS),
            "malformed certificate other_certificate other_cluster certified_cluster bad_signature \
             period low_order"
        );
        assert_eq!(
            names(CertificateError::VARIANTS),
            "malformed unknown_authority wrong_authority bad_signature not_ed25519 weak_key \
             not_an_authority is_an_authority key_usage unknown_critical_extension bad_extension \
             common_name name cluster draw name_mismatch wrong_role id"
        );
        assert_eq!(
            names(ParamsError::VARIANTS),
            "members too_many_missing too_few_malicious none_honest range epsilon day_rho day_scale windows \
             too_large too_few_partners too_large_for_partners committee"
        );
        assert_eq!(names(CommitteeError::VARIANTS), "holders drawn needed committee_missing");
        assert_eq!(
            names(PolicyError::VARIANTS),
            "authorities gateway range noise_scale day_epsilon day_rho epsilon attempts too_few_members \
             too_few_malicious too_few_honest no_certified_size short_list partial_masks scheme \
             slot_too_short"
        );
        assert_eq!(names(MemberSetError::VARIANTS), "length spare_bits");
        assert_eq!(names(TopicError::VARIANTS), "unknown_version unknown_channel id");
        assert_eq!(
            names(DecodeError::VARIANTS),
            "truncated trailing non_canonical wrong_type wrong_count wrong_length out_of_range \
             wrong_kind wrong_algorithm wrong_header earlier_format id"
        );
        assert_eq!(names(IdError::VARIANTS), "length character reserved");
    }
}
