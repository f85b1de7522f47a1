//! Proof that a gateway of this name signed messages that contradict each other, as members have sent it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::outputs::Outputs;
use super::{ClusterConfig, Notice, Record};
use crate::evidence::{self, Contradiction, EvidenceError, Verdict};
use crate::wire::EvidenceStatement;

/// How many pieces of evidence are kept.
const EVIDENCE_KEPT: u8 = 16;

/// The evidence that is kept.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    pub(super) kept: Vec<(Contradiction, Arc<[u8]>)>,
    /// How many pieces are stored, those included that prove nothing any more.
    stored: u8,
}

impl Proofs {
    /// Takes a piece from the gateway's own records. One whose authority was removed proves nothing any more.
    pub(super) fn reopen(&mut self, number: u8, bytes: Arc<[u8]>, config: &ClusterConfig) {
        self.stored = self.stored.max(number.saturating_add(1)).min(EVIDENCE_KEPT);
        self.kept.extend(judge(&bytes, config).ok().map(|verdict| (verdict.contradiction, bytes)));
    }

    /// Keeps evidence of what was not known yet, and tells of it. The first pieces are kept: later ones show no more.
    pub(super) fn keep(&mut self, verdict: Verdict, bytes: &[u8], outputs: &mut Outputs) {
        let Verdict { gateway, contradiction, .. } = verdict;
        let known = self.kept.iter().any(|(known, _)| *known == contradiction);
        let number = self.stored;
        if known || number == EVIDENCE_KEPT {
            return;
        }
        let bytes: Arc<[u8]> = bytes.into();
        self.stored += 1;
        self.kept.push((contradiction, bytes.clone()));
        outputs.persist(Record::Evidence { number, bytes });
        outputs.notice(Notice::Proven { gateway, contradiction });
    }
}

/// What a piece of evidence shows against a gateway of this cluster.
pub(super) fn judge(bytes: &[u8], config: &ClusterConfig) -> Result<Verdict, EvidenceError> {
    let evidence = EvidenceStatement::decode(bytes)?;
    if evidence.cluster != config.cluster {
        return Err(EvidenceError::NoContradiction);
    }
    evidence::judge(&evidence, &config.authorities)
}
