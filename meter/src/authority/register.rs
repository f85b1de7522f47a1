//! The register that an authority publishes: every certificate that it has issued, in a chain that only grows, with a signed head.
//!
//! Whoever has seen a head can tell whether the past was changed since, and two heads that contradict each other are evidence that
//! anybody can judge with the authority's certificate.

use std::collections::{BTreeMap, BTreeSet};

use dream_edge::issuer;
use dream_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use x509_parser::der_parser::asn1_rs::BitString;
use x509_parser::oid_registry::OID_SIG_ED25519;
use x509_parser::verify::verify_signature;
use x509_parser::x509::AlgorithmIdentifier;

use super::{Authority, AuthorityError, KEY};
use crate::files;
use crate::invitation::{Fingerprint, hexadecimal};

/// The file that holds it, as it is served.
const REGISTER: &str = "register.json";

/// Why a register is not believed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegisterError {
    #[error("the register cannot be read: {0}")]
    Malformed(String),
    #[error("the register's head is not signed by the authority")]
    Signature,
    #[error("the register's entries do not lead to its signed head")]
    Chain,
}

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Counted from 0.
    pub number: u64,
    /// When it was entered, in Unix seconds.
    pub at: u64,
    pub cluster: String,
    pub size: u64,
    /// Which meter of this authority it is for, counted from 0: certificates of one meter have the same.
    pub meter: u64,
    /// SHA-256 of the certificate, in digits.
    pub certificate: String,
    pub from: u64,
    pub to: u64,
}

/// What the authority states of all entries so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub entries: u64,
    /// The hash of the last entry and, through it, of all before; in digits.
    pub chain: String,
    /// When it was signed, in Unix seconds.
    pub at: u64,
    pub signature: String,
}

impl Head {
    fn message(&self) -> Vec<u8> {
        format!("dream register head, version 1\n{}\n{}\n{}\n", self.entries, self.chain, self.at).into_bytes()
    }

    /// Whether an authority, whose certificate this is in DER, has signed it.
    fn is_signed_by(&self, authority: &[u8]) -> bool {
        let Ok((_, certificate)) = x509_parser::parse_x509_certificate(authority) else { return false };
        let Some(signature) = digits(&self.signature) else { return false };
        let algorithm = AlgorithmIdentifier::new(OID_SIG_ED25519, None);
        let signature = BitString::new(0, &signature);
        verify_signature(certificate.public_key(), &algorithm, &signature, &self.message()).is_ok()
    }
}

/// A head, and entries as they were hashed, each a line of JSON: all of them, or those from some number on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    pub head: Head,
    pub lines: Vec<String>,
}

impl Register {
    /// Reads what an authority serves.
    pub fn parse(bytes: &[u8]) -> Result<Self, RegisterError> {
        serde_json::from_slice(bytes).map_err(|error| RegisterError::Malformed(error.to_string()))
    }

    /// Checks a whole register, and returns its entries.
    pub fn verify(&self, authorities: &[impl AsRef<[u8]>]) -> Result<Vec<Entry>, RegisterError> {
        if !authorities.iter().any(|authority| self.head.is_signed_by(authority.as_ref())) {
            return Err(RegisterError::Signature);
        }
        let reached = chain(&beginning(), &self.lines);
        if self.lines.len() as u64 != self.head.entries || reached != self.head.chain {
            return Err(RegisterError::Chain);
        }
        let mut entries = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            let entry: Entry =
                serde_json::from_str(line).map_err(|error| RegisterError::Malformed(error.to_string()))?;
            if entry.number != number as u64 {
                return Err(RegisterError::Malformed(format!("entry {number} has the number {}", entry.number)));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Returns it without the entries before a number.
    #[must_use]
    pub fn since(&self, number: usize) -> Self {
        Self { head: self.head.clone(), lines: self.lines.get(number..).unwrap_or_default().to_vec() }
    }
}

/// A register that a meter has seen before.
#[derive(Debug, Clone)]
pub struct Kept(pub Register);

/// What comes of a newer register beside one that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The past is as it was.
    Grown(Register),
    /// The register is an older one than that which was kept; perhaps somebody on the way repeats it.
    Older,
    /// The authority has signed two pasts.
    Contradiction { kept: Register, found: Register },
}

impl Kept {
    /// Joins what was served from the last known number on. `None`: it does not follow, so ask for all of it.
    pub fn grown(&self, tail: &Register) -> Option<Register> {
        let lines: Vec<String> = self.0.lines.iter().chain(&tail.lines).cloned().collect();
        let reached = chain(&self.0.head.chain, &tail.lines);
        let follows = lines.len() as u64 == tail.head.entries && reached == tail.head.chain;
        follows.then(|| Register { head: tail.head.clone(), lines })
    }

    /// Compares with a whole register, both of which are verified.
    pub fn compare(&self, found: &Register) -> Checked {
        let kept = &self.0;
        if found.lines.starts_with(&kept.lines) {
            return Checked::Grown(found.clone());
        }
        if kept.lines.starts_with(&found.lines) && found.head.at <= kept.head.at {
            return Checked::Older;
        }
        Checked::Contradiction { kept: kept.clone(), found: found.clone() }
    }
}

/// Returns how many meters of a cluster have a valid certificate in a register.
pub fn meters_of(entries: &[Entry], cluster: &str, now: Timestamp) -> usize {
    let valid = |entry: &&Entry| entry.cluster == cluster && (entry.from..=entry.to).contains(&now.as_secs());
    entries.iter().filter(valid).map(|entry| entry.meter).collect::<BTreeSet<_>>().len()
}

impl Authority {
    /// Returns the register as it was published last; `None` before the first certificate.
    pub fn register(&self) -> Result<Option<Register>, AuthorityError> {
        let path = self.directory.join(REGISTER);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(Register::parse(&files::read(&path)?)?))
    }

    /// Enters every certificate that is not in the register yet, and signs its head. Needs the key.
    pub fn publish(&self, now: Timestamp) -> Result<(), AuthorityError> {
        let known = self.register()?;
        let mut entries = match &known {
            Some(register) => register.verify(&[&self.der])?,
            None => Vec::new(),
        };
        let mut lines = known.map_or_else(Vec::new, |register| register.lines);
        let entered: BTreeMap<String, u64> =
            entries.iter().map(|entry| (entry.certificate.clone(), entry.meter)).collect();
        let mut numbers = BTreeMap::new();
        for issued in &self.issued {
            if let Some(number) = entered.get(&hexadecimal(&issued.fingerprint.0)) {
                numbers.insert(issued.meter.clone(), *number);
            }
        }
        let mut next = entries.iter().map(|entry| entry.meter + 1).max().unwrap_or(0);
        for issued in &self.issued {
            let certificate = hexadecimal(&issued.fingerprint.0);
            if entered.contains_key(&certificate) {
                continue;
            }
            let meter = *numbers.entry(issued.meter.clone()).or_insert_with(|| {
                next += 1;
                next - 1
            });
            let cluster = issued.certificate.cluster();
            let entry = Entry {
                number: entries.len() as u64,
                at: now.as_secs(),
                cluster: cluster.map_or_else(String::new, |cluster| cluster.id.to_string()),
                size: cluster.and_then(|cluster| cluster.size).map_or(0, u64::from),
                meter,
                certificate,
                from: issued.certificate.not_before(),
                to: issued.certificate.not_after(),
            };
            lines.push(serde_json::to_string(&entry).expect("names and numbers"));
            entries.push(entry);
        }
        let seed = files::private_seed(&self.directory.join(KEY))?;
        let chain = chain(&beginning(), &lines);
        let mut head = Head { entries: lines.len() as u64, chain, at: now.as_secs(), signature: String::new() };
        head.signature = hexadecimal(&issuer::sign(&seed, &head.message()));
        let text = serde_json::to_vec(&Register { head, lines }).expect("lines of text");
        Ok(files::replace(&self.directory.join(REGISTER), &text)?)
    }
}

/// Whether a register names a certificate.
pub fn names(entries: &[Entry], certificate: &Fingerprint) -> bool {
    let wanted = hexadecimal(&certificate.0);
    entries.iter().any(|entry| entry.certificate == wanted)
}

/// What the first entry follows.
fn beginning() -> String {
    "0".repeat(64)
}

/// Returns the hash that lines lead to, from another.
fn chain(from: &str, lines: &[String]) -> String {
    lines.iter().fold(from.to_owned(), |before, line| {
        hexadecimal(&Sha256::new().chain_update(&before).chain_update("\n").chain_update(line).finalize())
    })
}

fn digits(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
