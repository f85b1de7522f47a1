//! What the command is given: a message, authorities and a list. A mistake here is the user's, not the message's.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dream_protocol::certificate::{Authorities, Certificate};
use dream_protocol::ids::ClusterId;
use dream_protocol::keys::ListHash;
use dream_protocol::membership::MembershipList;
use dream_protocol::params::Params;
use dream_protocol::time::Slot;
use dream_protocol::wire::{FullList, ListStatement, Sign1};
use sha2::{Digest, Sha256};

use super::DecodeArgs;
use crate::cmd::BadInput;
use crate::config::secrets;

/// Returns the bytes of the message, out of hexadecimal if need be.
pub(super) fn message(args: &DecodeArgs) -> Result<Vec<u8>, BadInput> {
    let bytes = read(&args.file)?;
    if args.raw || !(args.hex || looks_like_hex(&bytes)) {
        return Ok(bytes);
    }
    from_hex(&bytes).map_err(|reason| BadInput(format!("{}: {reason}", shown(&args.file))))
}

/// What is known besides the message.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) topic: Option<String>,
    pub(super) authorities: Option<Authorities>,
    pub(super) list: Option<KnownList>,
    pub(super) slot_seconds: Option<u64>,
    pub(super) name_members: bool,
}

/// The list that the user names, verified if authorities are known.
#[derive(Debug)]
pub(super) struct KnownList {
    pub(super) hash: ListHash,
    pub(super) params: Params,
    pub(super) cluster: ClusterId,
    /// The first and the last slot.
    pub(super) slots: RangeInclusive<Slot>,
    /// The members' ids as their certificates say, in the list's order.
    pub(super) members: Vec<String>,
    pub(super) verified: Option<Arc<MembershipList>>,
}

impl Context {
    pub(super) fn new(args: &DecodeArgs) -> Result<Self, BadInput> {
        let authorities = authorities(&args.meter_authority, &args.gateway_authority)?;
        let known = |path: &PathBuf| {
            let bytes = read(path).map_err(|BadInput(reason)| BadInput(format!("--list: {reason}")))?;
            let bytes = if looks_like_hex(&bytes) { from_hex(&bytes).unwrap_or(bytes) } else { bytes };
            KnownList::new(&bytes, authorities.as_ref())
                .map_err(|reason| BadInput(format!("--list {}: {reason}", path.display())))
        };
        let list = args.list.as_ref().map(known).transpose()?;
        Ok(Self {
            topic: args.topic.clone(),
            authorities,
            list,
            slot_seconds: args.slot_seconds,
            name_members: args.members,
        })
    }

    /// Returns the list that the user names, if the message is of this list.
    pub(super) fn list_of(&self, hash: &[u8]) -> Option<&KnownList> {
        self.list.as_ref().filter(|list| list.hash.0.starts_with(hash))
    }

    /// Returns how long the slots of a list are, if that is known.
    pub(super) fn slot_seconds_of(&self, hash: &[u8]) -> Option<u64> {
        self.slot_seconds.or_else(|| Some(self.list_of(hash)?.params.terms().slot_seconds))
    }
}

impl KnownList {
    fn new(bytes: &[u8], authorities: Option<&Authorities>) -> Result<Self, String> {
        let (envelope, _) = FullList::header_of(bytes).map_err(|error| error.to_string())?;
        let statement = ListStatement::decode(bytes).map_err(|error| error.to_string())?;
        let params = Params::new(statement.enrolments.len(), statement.terms).map_err(|error| error.to_string())?;
        let verified = authorities.map(|authorities| MembershipList::verify(bytes, &statement.cluster, authorities));
        let verified = verified.transpose().map_err(|error| error.to_string())?;
        let members = statement.enrolments.iter().map(|entry| member_id(entry)).collect();
        let slots = statement.from_slot..=statement.to_slot;
        Ok(Self { hash: hash(envelope.payload()), params, cluster: statement.cluster, slots, members, verified })
    }
}

/// Returns the hash of a payload; of a list's header it is LH.
pub(super) fn hash(payload: &[u8]) -> ListHash {
    ListHash(Sha256::digest(payload).into())
}

/// Returns whose enrolment an entry of a list says it is.
pub(super) fn member_id(entry: &[u8]) -> String {
    let certificate = Sign1::decode_certified(entry).map(|(_, der)| Certificate::unverified(der));
    match certificate {
        Ok(Ok(certificate)) => certificate.meter().map_or_else(|error| format!("({error})"), ToString::to_string),
        Ok(Err(error)) => format!("({error})"),
        Err(error) => format!("({error})"),
    }
}

/// Reads the authorities that are trusted, if any are.
pub(in crate::cmd) fn authorities(meters: &[PathBuf], gateways: &[PathBuf]) -> Result<Option<Authorities>, BadInput> {
    if meters.is_empty() && gateways.is_empty() {
        return Ok(None);
    }
    let anchors = |flag, files| secrets::anchors(flag, files).map_err(|error| BadInput(error.to_string()));
    // A user who inspects messages may trust one authority with everything.
    Ok(Some(Authorities::shared(anchors("--meter-authority", meters)?, anchors("--gateway-authority", gateways)?)))
}

pub(in crate::cmd) fn read(path: &Path) -> Result<Vec<u8>, BadInput> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| BadInput(format!("{} cannot be read: {error}", shown(path))))?;
    Ok(bytes)
}

pub(in crate::cmd) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "the standard input".to_owned() } else { path.display().to_string() }
}

/// No message starts with a hexadecimal digit, so that there is no doubt.
fn looks_like_hex(bytes: &[u8]) -> bool {
    let digits = |&byte: &u8| byte.is_ascii_hexdigit() || byte.is_ascii_whitespace();
    bytes.iter().all(digits) && bytes.iter().any(u8::is_ascii_hexdigit)
}

fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digits = (1..).zip(text).filter(|(_, byte)| !byte.is_ascii_whitespace());
    let digits = digits.map(|(at, &byte)| {
        let digit = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        digit.ok_or_else(|| format!("character {at} is not a hexadecimal digit; give --raw if it is not hexadecimal"))
    });
    let digits = digits.collect::<Result<Vec<u8>, _>>()?;
    match digits.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()),
        _ => Err(format!("it has {} hexadecimal digits, an odd number; one is missing or too many", digits.len())),
    }
}
