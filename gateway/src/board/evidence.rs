//! What meters have proven against a gateway, as it is shown: it names no meter.

use std::sync::Arc;

use dream_protocol::certificate::Certificate;
use dream_protocol::evidence::Contradiction;
use dream_protocol::wire::{EvidenceStatement, Sign1};

/// Two messages of a gateway that contradict each other.
#[derive(Debug, Clone)]
pub struct EvidenceView {
    /// Counts from 1.
    pub number: usize,
    pub gateway: String,
    pub contradiction: Contradiction,
    /// What anybody can judge with the authorities' certificates.
    pub bytes: Arc<[u8]>,
}

impl EvidenceView {
    /// Makes views of everything that was proven of a cluster.
    pub fn all(proven: &[(Contradiction, Arc<[u8]>)]) -> Arc<[Self]> {
        let view = |(number, (contradiction, bytes)): (usize, &(Contradiction, Arc<[u8]>))| Self {
            number,
            gateway: gateway(bytes).unwrap_or_default(),
            contradiction: *contradiction,
            bytes: bytes.clone(),
        };
        (1..).zip(proven).map(view).collect()
    }
}

/// Returns whose messages they are. The signatures were checked when the evidence was judged.
fn gateway(bytes: &[u8]) -> Option<String> {
    let evidence = EvidenceStatement::decode(bytes).ok()?;
    let der = match &evidence.certificate[..] {
        [] => Sign1::decode_certified(&evidence.first).ok()?.1,
        certificate => certificate,
    };
    Some(Certificate::unverified(der).ok()?.gateway().ok()?.to_string())
}
