//! 10 and the body that belongs to it: a membership list is a short signed header, and enrolments that the header names by
//! hash. A reader first checks one signature over something short, and then everything else by hash.

use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::{DecodeError, Message, Reader, Seal as _, Sign1, Writer, cluster};
use crate::derive::sha256;
use crate::ids::ClusterId;
use crate::keys::{AgreementPublic, IdentityKey, ListHash};
use crate::membership;
use crate::params::{MAX_AUTHORITIES, MAX_MEMBERS, Terms};
use crate::scheme::committee::{Committee, MAX_HOLDERS};
use crate::scheme::{Kind, Scheme};
use crate::time::Slot;

/// 10: what a gateway signs of a list. LH is the SHA-256 of this payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListHeader {
    pub cluster: ClusterId,
    pub epoch: u64,
    /// The epoch of the list before, and its hash; see [`ListStatement`].
    pub previous_epoch: u64,
    pub previous: ListHash,
    /// SHA-256 of the gateway's certificate.
    pub certificate: [u8; 32],
    pub gateway: AgreementPublic,
    /// Fingerprints of the authorities under which every meter's certificate of the list verifies, ascending.
    pub meter_authorities: Vec<[u8; 32]>,
    /// The fingerprint of the authority under which the gateway's certificate verifies.
    pub gateway_authority: [u8; 32],
    pub from_slot: Slot,
    pub to_slot: Slot,
    pub terms: Terms,
    /// N.
    pub members: u64,
    pub hashes: ListHashes,
}

/// The length of the digest that stands for an enrolment in a short list.
pub(crate) const DIGEST: usize = 8;

/// How a header names the enrolments of its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListHashes {
    /// SHA-256 of the SHA-256 of each enrolment, in order.
    pub entries: [u8; 32],
    /// SHA-256 of the first 8 bytes of the SHA-256 of each enrolment, in order.
    pub digests: [u8; 32],
    /// As `entries`, of the holders' enrolments alone.
    pub holders: [u8; 32],
}

impl ListHashes {
    /// Returns the hashes of a list of whose enrolments, and of whose holders' enrolments, these are the SHA-256.
    pub fn new<'a>(
        entries: impl IntoIterator<Item = &'a [u8; 32]>,
        holders: impl IntoIterator<Item = &'a [u8; 32]>,
    ) -> Self {
        let (mut whole, mut digests) = (Sha256::new(), Sha256::new());
        for entry in entries {
            whole.update(entry);
            digests.update(&entry[..DIGEST]);
        }
        let (entries, digests) = (whole.finalize().into(), digests.finalize().into());
        Self { entries, digests, holders: Self::of_holders(holders) }
    }

    /// Returns the hash by which a header names the holders' enrolments, of which these are the SHA-256.
    pub fn of_holders<'a>(holders: impl IntoIterator<Item = &'a [u8; 32]>) -> [u8; 32] {
        holders.into_iter().fold(Sha256::new(), |hash, entry| hash.chain_update(entry)).finalize().into()
    }
}

impl<'a> Message<'a> for ListHeader {
    const KIND: u64 = 10;
    const FIELDS: u64 = 31;
    const EARLIER_FIELDS: Option<u64> = Some(29);
    type Key<'k> = (&'k IdentityKey, &'k [u8]);

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (cluster, epoch, previous_epoch) = (cluster(reader)?, reader.uint()?, reader.uint()?);
        let previous = ListHash(reader.fixed("previous list hash")?);
        let certificate = reader.fixed("certificate hash")?;
        let gateway = AgreementPublic(reader.fixed("gateway X25519 key")?);
        let meter_authorities = authorities(reader)?;
        let gateway_authority = reader.fixed("authority of the gateway")?;
        let (from_slot, to_slot) = (Slot(reader.uint()?), Slot(reader.uint()?));
        let (slot_seconds, reading_seconds, reveal_seconds) = (reader.uint()?, reader.uint()?, reader.uint()?);
        let kind = reader.uint()?;
        let (max_missing, max_malicious, drawn) = (reader.uint()?, reader.uint()?, reader.uint()?);
        let needed = reader.uint()?;
        let (lo, hi) = (reader.int()?, reader.int()?);
        let (epsilon_numerator, epsilon_denominator) = (reader.uint()?, reader.uint()?);
        let (account, day_micro_rho, attempts) = (reader.uint()?, reader.uint()?, reader.uint()?);
        if account != account_of(day_micro_rho) {
            let energy = account == ACCOUNT_OF_ENERGY;
            return Err(if energy { DecodeError::EarlierFormat } else { DecodeError::OutOfRange { field: "account" } });
        }
        let (members, holders) = (reader.uint()?, reader.uint()?);
        let scheme = scheme(kind, Committee { drawn, needed, holders })?;
        Ok(Self {
            cluster,
            epoch,
            previous_epoch,
            previous,
            certificate,
            gateway,
            meter_authorities,
            gateway_authority,
            from_slot,
            to_slot,
            terms: Terms {
                slot_seconds,
                reading_seconds,
                reveal_seconds,
                max_missing,
                max_malicious,
                scheme,
                lo,
                hi,
                epsilon_numerator,
                epsilon_denominator,
                day_micro_rho,
                attempts,
            },
            members,
            hashes: ListHashes {
                entries: reader.fixed("hash of the entries")?,
                digests: reader.fixed("hash of the digests")?,
                holders: reader.fixed("hash of the holders")?,
            },
        })
    }

    fn write(&self, writer: Writer) -> Writer {
        let terms = &self.terms;
        let Committee { drawn, needed, holders } = match terms.scheme {
            Scheme::Pairwise { partners } => Committee { drawn: partners, needed: 0, holders: 0 },
            Scheme::Committee(committee) => committee,
        };
        writer
            .text(self.cluster.as_str())
            .uint(self.epoch)
            .uint(self.previous_epoch)
            .bytes(&self.previous.0)
            .bytes(&self.certificate)
            .bytes(&self.gateway.0)
            .bytes(&self.meter_authorities.concat())
            .bytes(&self.gateway_authority)
            .uint(self.from_slot.0)
            .uint(self.to_slot.0)
            .uint(terms.slot_seconds)
            .uint(terms.reading_seconds)
            .uint(terms.reveal_seconds)
            .uint(terms.scheme.kind() as u64)
            .uint(terms.max_missing)
            .uint(terms.max_malicious)
            .uint(drawn)
            .uint(needed)
            .int(terms.lo)
            .int(terms.hi)
            .uint(terms.epsilon_numerator)
            .uint(terms.epsilon_denominator)
            .uint(account_of(terms.day_micro_rho))
            .uint(terms.day_micro_rho)
            .uint(terms.attempts)
            .uint(self.members)
            .uint(holders)
            .bytes(&self.hashes.entries)
            .bytes(&self.hashes.digests)
            .bytes(&self.hashes.holders)
    }
}

/// Reads what a header says of its scheme: w, q and K, or k, q and K.
fn scheme(kind: u64, fields: Committee) -> Result<Scheme, DecodeError> {
    match Kind::ALL.into_iter().find(|known| *known as u64 == kind) {
        Some(Kind::Pairwise) if (fields.needed, fields.holders) == (0, 0) => {
            Ok(Scheme::Pairwise { partners: fields.drawn })
        }
        Some(Kind::Committee) => Ok(Scheme::Committee(fields)),
        Some(Kind::Pairwise) | None => Err(DecodeError::OutOfRange { field: "scheme" }),
    }
}

/// The account of a day that no list may state any more.
const ACCOUNT_OF_ENERGY: u64 = 1;

/// Returns what a meter keeps an account of for a day: 0 nothing, 2 squares, for noise that is Laplace's. It does if and only
/// if the list states a rho. 3 is for squares with Gaussian noise, which nobody draws yet.
const fn account_of(day_micro_rho: u64) -> u64 {
    if day_micro_rho == 0 { 0 } else { 2 }
}

/// Reads the fingerprints of a list's authorities of meters, 32 bytes each, ascending.
fn authorities(reader: &mut Reader<'_>) -> Result<Vec<[u8; 32]>, DecodeError> {
    const WRONG: DecodeError = DecodeError::OutOfRange { field: "authorities" };
    let (found, rest) = reader.bytes()?.as_chunks::<32>();
    let ascending = found.is_sorted_by(|one, next| one < next);
    let right = rest.is_empty() && ascending && (1..=MAX_AUTHORITIES).contains(&found.len());
    if right { Ok(found.to_vec()) } else { Err(WRONG) }
}

/// A list as it travels: a header in its envelope, and the members' enrolments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullList<'a> {
    /// A [`ListHeader`] in a Sign1 with certificate, made for the cluster's membership topic.
    pub header: &'a [u8],
    /// The members' enrolments, whole envelopes, sorted by meter id.
    pub enrolments: Vec<&'a [u8]>,
}

impl<'a> FullList<'a> {
    /// Reads a list, all of it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let list = Self { header: header(&mut reader, 2)?, enrolments: enrolments(&mut reader, MAX_MEMBERS as u64)? };
        reader.end()?;
        Ok(list)
    }

    pub fn encode(&self) -> Vec<u8> {
        let len = self.header.len() + self.enrolments.iter().map(|entry| entry.len() + 3).sum::<usize>() + 16;
        let head = Writer::sized(2, len).bytes(self.header).nested_array(self.enrolments.len() as u64);
        self.enrolments.iter().fold(head, |list, enrolment| list.bytes(enrolment)).finish()
    }

    /// Reads the header of a list, and none of its enrolments.
    pub fn header_of(bytes: &'a [u8]) -> Result<(Sign1<'a>, ListHeader), DecodeError> {
        header_of(bytes, 2)
    }
}

/// A list as it travels to members that need to know the holders only: a header in its envelope, the holders' enrolments, and
/// the digests of all enrolments. Both are empty where everybody needs the whole list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortList<'a> {
    /// As in a [`FullList`].
    pub header: &'a [u8],
    /// The holders' enrolments, whole envelopes, sorted by meter id.
    pub holders: Vec<&'a [u8]>,
    /// The first 8 bytes of the SHA-256 of each member's enrolment, sorted by meter id.
    pub digests: &'a [u8],
}

impl<'a> ShortList<'a> {
    /// Reads a short list, all of it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let list = Self {
            header: header(&mut reader, 3)?,
            holders: enrolments(&mut reader, MAX_HOLDERS)?,
            digests: reader.bytes()?,
        };
        reader.end()?;
        Ok(list)
    }

    pub fn encode(&self) -> Vec<u8> {
        let entries = self.holders.iter().map(|entry| entry.len() + 3).sum::<usize>();
        let head = Writer::sized(3, self.header.len() + entries + self.digests.len() + 20).bytes(self.header);
        let head = head.nested_array(self.holders.len() as u64);
        let list = self.holders.iter().fold(head, |list, enrolment| list.bytes(enrolment));
        list.bytes(self.digests).finish()
    }

    /// Reads the header of a short list, and nothing that follows it.
    pub fn header_of(bytes: &'a [u8]) -> Result<(Sign1<'a>, ListHeader), DecodeError> {
        header_of(bytes, 3)
    }
}

fn header_of(bytes: &[u8], parts: u64) -> Result<(Sign1<'_>, ListHeader), DecodeError> {
    let (envelope, _) = Sign1::decode_certified(header(&mut Reader::new(bytes), parts)?)?;
    Ok((envelope, ListHeader::decode(envelope.payload())?))
}

/// Reads which list this is, full or short: its epoch and its hash. Records may hold lists of earlier formats, which are of no
/// other use.
pub(crate) fn list_name(bytes: &[u8]) -> Result<(u64, ListHash), DecodeError> {
    let mut list = Reader::new(bytes);
    list.array_of_any()?;
    let (envelope, _) = Sign1::decode_certified(list.bytes()?)?;
    let mut header = Reader::new(envelope.payload());
    header.array_of_any()?;
    let expected = <ListHeader as Message<'_>>::KIND;
    let found = header.uint()?;
    if found != expected {
        return Err(DecodeError::WrongKind { expected, found });
    }
    header.text()?;
    Ok((header.uint()?, ListHash(sha256(envelope.payload()))))
}

/// Reads up to the end of the header. Lists were one envelope of four parts in an earlier format.
fn header<'a>(reader: &mut Reader<'a>, parts: u64) -> Result<&'a [u8], DecodeError> {
    match reader.array(parts) {
        Err(DecodeError::WrongCount { found: 4, .. }) => Err(DecodeError::EarlierFormat),
        found => found.and_then(|()| reader.bytes()),
    }
}

/// Reads a list's entries. Their number is refused at the array's head: nothing is collected that could not be a list.
fn enrolments<'a>(reader: &mut Reader<'a>, most: u64) -> Result<Vec<&'a [u8]>, DecodeError> {
    let count = reader.array_of_any()?;
    if count > most {
        return Err(DecodeError::OutOfRange { field: "members" });
    }
    (0..count).map(|_| reader.bytes()).collect()
}

/// What a gateway says with a list; header and body follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListStatement<'a> {
    pub cluster: ClusterId,
    /// The Unix time at which the list was made, or more if the one before was made in that second.
    pub epoch: u64,
    /// The epoch of the list before. 0, with a hash of zeros, if there was none; an epoch with a hash of zeros if there was
    /// one that the gateway does not know.
    pub previous_epoch: u64,
    pub previous: ListHash,
    pub gateway: AgreementPublic,
    /// Fingerprints of the authorities under which every meter's certificate of the list verifies, ascending.
    pub meter_authorities: Vec<[u8; 32]>,
    /// The fingerprint of the authority under which the gateway's certificate verifies.
    pub gateway_authority: [u8; 32],
    /// First and last slot, inclusive.
    pub from_slot: Slot,
    pub to_slot: Slot,
    pub terms: Terms,
    /// The members' enrolments, whole envelopes, sorted by meter id.
    pub enrolments: Vec<&'a [u8]>,
    /// Which of them are the holders', ascending.
    pub holders: Vec<u16>,
}

impl<'a> ListStatement<'a> {
    /// Reads what a list says, without checking who signed it or whether its header names its enrolments.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (_, header) = FullList::header_of(bytes)?;
        let enrolments = FullList::decode(bytes)?.enrolments;
        Ok(Self {
            holders: membership::drawn(&header, &enrolments),
            cluster: header.cluster,
            epoch: header.epoch,
            previous_epoch: header.previous_epoch,
            previous: header.previous,
            gateway: header.gateway,
            meter_authorities: header.meter_authorities,
            gateway_authority: header.gateway_authority,
            from_slot: header.from_slot,
            to_slot: header.to_slot,
            terms: header.terms,
            enrolments,
        })
    }

    /// Returns the header of this list for a gateway with this certificate, in DER.
    pub fn header(&self, certificate: &[u8]) -> ListHeader {
        let entries: Vec<[u8; 32]> = self.enrolments.iter().map(|entry| sha256(entry)).collect();
        let holders = self.holders.iter().filter_map(|&holder| entries.get(usize::from(holder)));
        ListHeader {
            cluster: self.cluster.clone(),
            epoch: self.epoch,
            previous_epoch: self.previous_epoch,
            previous: self.previous,
            certificate: sha256(certificate),
            gateway: self.gateway,
            meter_authorities: self.meter_authorities.clone(),
            gateway_authority: self.gateway_authority,
            from_slot: self.from_slot,
            to_slot: self.to_slot,
            terms: self.terms,
            members: self.enrolments.len() as u64,
            hashes: ListHashes::new(&entries, holders),
        }
    }

    /// Returns the signed list with every enrolment, for one membership topic.
    pub fn seal(&self, key: (&IdentityKey, &[u8]), topic: &str) -> Vec<u8> {
        let header = key.envelope(&self.header(key.1).payload(), topic);
        FullList { header: &header, enrolments: self.enrolments.clone() }.encode()
    }
}
