//! Evidence against a gateway: two messages that it signed and that contradict each other (`protocol.md 7`, message 11).
//!
//! Anybody can judge it, with nothing but the certificates of gateways' authorities: the messages say which cluster, slot and list
//! they are about, and the signatures say who made them. A meter keeps such pairs and sends them with its status.

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::certificate::{Authorities, Certificate, CertificateError};
use crate::derive::sha256;
use crate::ids::{ClusterId, GatewayId};
use crate::keys::ListHash;
use crate::time::Slot;
use crate::topic::GatewayChannel;
use crate::wire::{DecodeError, EvidenceStatement, ListHeader, Message as _, RecoveryMessage, Sign1};

/// What a gateway is shown to have done, which an honest one never does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub gateway: GatewayId,
    pub cluster: ClusterId,
    pub contradiction: Contradiction,
}

/// How two messages contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Contradiction {
    #[error("two different requests for attempt {attempt} of slot {slot}")]
    Requests { slot: Slot, attempt: u8 },
    #[error("two different retries for attempt {attempt} of slot {slot}")]
    Retries { slot: Slot, attempt: u8 },
    #[error("two different lists of epoch {epoch}")]
    Lists { epoch: u64 },
    #[error(
        "the list of epoch {later} names epoch {named} as the one before it, and another list than that of epoch {earlier}"
    )]
    Chain { earlier: u64, later: u64, named: u64 },
}

/// Why two messages show nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EvidenceError {
    #[error("the evidence does not decode: {0}")]
    #[strum(serialize = "malformed")]
    Decode(#[from] DecodeError),
    #[error("the gateway's certificate is refused: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the signature of the {which} message does not verify for cluster `{cluster}`")]
    BadSignature { which: &'static str, cluster: ClusterId },
    #[error("the messages are from two gateways, `{first}` and `{second}`, which may differ")]
    TwoGateways { first: GatewayId, second: GatewayId },
    #[error("the messages do not contradict each other")]
    NoContradiction,
}

/// Judges evidence with nothing but the certificates of gateways' authorities; returns what it shows, of whom.
pub fn judge(evidence: &EvidenceStatement, authorities: &Authorities) -> Result<Verdict, EvidenceError> {
    let (gateway, contradiction) = if evidence.certificate.is_empty() {
        judge_headers(evidence, authorities)?
    } else {
        judge_recovery(evidence, authorities)?
    };
    Ok(Verdict { gateway, cluster: evidence.cluster.clone(), contradiction })
}

fn judge_headers(
    evidence: &EvidenceStatement,
    authorities: &Authorities,
) -> Result<(GatewayId, Contradiction), EvidenceError> {
    let read = |bytes, which| {
        let (envelope, der) = Sign1::decode_certified(bytes)?;
        let header = ListHeader::decode(envelope.payload())?;
        let certificate = authorities.verify_gateway(der)?;
        let gateway = certificate.gateway()?.clone();
        check_signature(&envelope, &certificate, GatewayChannel::Membership, which, &evidence.cluster)?;
        let right = header.cluster == evidence.cluster && header.certificate == certificate.hash;
        let hash = ListHash(sha256(envelope.payload()));
        if right { Ok((gateway, header, hash)) } else { Err(EvidenceError::NoContradiction) }
    };
    let (first, second) = (read(&evidence.first, "first")?, read(&evidence.second, "second")?);
    if first.0 != second.0 {
        return Err(EvidenceError::TwoGateways { first: first.0, second: second.0 });
    }
    let (earlier, later) = if first.1.epoch <= second.1.epoch { (&first, &second) } else { (&second, &first) };
    let found = contradiction(
        (earlier.1.epoch, &earlier.2),
        (later.1.epoch, &later.2),
        (later.1.previous_epoch, &later.1.previous),
    );
    found.map(|found| (earlier.0.clone(), found)).ok_or(EvidenceError::NoContradiction)
}

/// Returns how a list contradicts an earlier one: two of one epoch, or a later one that says that the earlier never was.
/// Lists are given by epoch and hash.
pub(crate) fn contradiction(
    earlier: (u64, &ListHash),
    later: (u64, &ListHash),
    before_later: (u64, &ListHash),
) -> Option<Contradiction> {
    if later == earlier || later.0 < earlier.0 {
        return None;
    }
    if later.0 == earlier.0 {
        return Some(Contradiction::Lists { epoch: later.0 });
    }
    let denied = before_later.0 <= earlier.0 && before_later != earlier;
    denied.then_some(Contradiction::Chain { earlier: earlier.0, later: later.0, named: before_later.0 })
}

fn judge_recovery(
    evidence: &EvidenceStatement,
    authorities: &Authorities,
) -> Result<(GatewayId, Contradiction), EvidenceError> {
    let certificate = authorities.verify_gateway(&evidence.certificate)?;
    let gateway = certificate.gateway()?.clone();
    let read = |bytes, which| {
        let envelope = Sign1::decode(bytes)?;
        let message = RecoveryMessage::decode(envelope.payload())?;
        check_signature(&envelope, &certificate, message.channel(), which, &evidence.cluster)?;
        Ok::<_, EvidenceError>(message)
    };
    let (first, second) = (read(&evidence.first, "first")?, read(&evidence.second, "second")?);
    let same = (first.list(), first.slot(), first.attempt()) == (second.list(), second.slot(), second.attempt());
    let (slot, attempt) = (first.slot(), first.attempt());
    let found = match (&first, &second) {
        _ if !same || first == second => None,
        (RecoveryMessage::Request(_), RecoveryMessage::Request(_)) => Some(Contradiction::Requests { slot, attempt }),
        (RecoveryMessage::Retry(_), RecoveryMessage::Retry(_)) => Some(Contradiction::Retries { slot, attempt }),
        (RecoveryMessage::Request(_), RecoveryMessage::Retry(_))
        | (RecoveryMessage::Retry(_), RecoveryMessage::Request(_)) => None,
    };
    found.map(|found| (gateway, found)).ok_or(EvidenceError::NoContradiction)
}

fn check_signature(
    envelope: &Sign1<'_>,
    certificate: &Certificate,
    channel: GatewayChannel,
    which: &'static str,
    cluster: &ClusterId,
) -> Result<(), EvidenceError> {
    let verifies = envelope.verifies(certificate.key(), &channel.topic(cluster));
    verifies.then_some(()).ok_or_else(|| EvidenceError::BadSignature { which, cluster: cluster.clone() })
}
