//! Messages that a meter encrypts with a key that its owner has: general-glo-ciphering of DLMS, which Luxembourg and Austria put
//! around P1 telegrams, and other countries around what their meters push.
//!
//! AES-128-GCM with a tag of twelve bytes. The nonce is the name of the meter's system and a counter; what is
//! authenticated beside the text is the security byte and a second key.

use std::fmt;
use std::path::Path;

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{AesGcm, Nonce, aes::Aes128};
use dream_edge::config::Section;
use dream_edge::files;
use thiserror::Error;
use zeroize::Zeroizing;

/// What a ciphered message begins with.
pub(crate) const TAG: u8 = 0xdb;

/// The authentication key of every meter in Luxembourg, which is in its public specification: there the other key is the secret.
const PUBLIC_KEY: [u8; 16] =
    [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];

/// Authenticated and encrypted, which is the only way that is read: without a tag, anybody could change a reading.
const SECURITY: u8 = 0x30;

const TAG_BYTES: usize = 12;

/// No telegram is longer.
const LONGEST: usize = 16 << 10;

/// The keys of a meter, which nothing prints.
#[derive(Clone)]
pub struct Keys {
    encryption: Zeroizing<[u8; 16]>,
    authentication: Zeroizing<[u8; 16]>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Why a ciphered message is not used. Nothing of it appears here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CipherError {
    #[error("the meter encrypts what it sends; ask the grid operator for its key, and name the file with `key_file`")]
    NoKey,
    #[error("the encrypted message is cut short; check the cable")]
    Short,
    #[error("the message is protected in a way that is not read (security byte {0:02x}; 30 is)")]
    Security(u8),
    #[error("the key does not open the message; check the digits in `key_file`, and that they are of this meter")]
    Key,
}

impl Keys {
    /// Reads the keys in the file that `key_file` names, which only its owner may read: 32 hexadecimal digits in its first
    /// line, and in its second those of the authentication key, if the grid operator gave one.
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        section.key("key_file").parsed(|path| Self::from_file(Path::new(path)))
    }

    fn from_file(path: &Path) -> Result<Self, String> {
        files::check_private(path).map_err(|error| error.to_string())?;
        let text = files::read(path).map_err(|error| error.to_string())?;
        let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let wrong = || {
            let path = path.display();
            format!("{path} does not have 32 hexadecimal digits in its first line, and 32 or nothing in its second")
        };
        let encryption = lines.next().and_then(key).ok_or_else(wrong)?;
        let authentication = match lines.next() {
            Some(line) => key(line).ok_or_else(wrong)?,
            None => Zeroizing::new(PUBLIC_KEY),
        };
        if lines.next().is_some() { Err(wrong()) } else { Ok(Self { encryption, authentication }) }
    }

    /// For tests and fuzzing: keys that everybody knows.
    pub fn known() -> Self {
        Self { encryption: Zeroizing::new([7; 16]), authentication: Zeroizing::new(PUBLIC_KEY) }
    }

    /// Opens a ciphered message, from its tag to its end.
    pub fn open(&self, message: &[u8]) -> Result<Vec<u8>, CipherError> {
        let Head { system, body, .. } = head(message).ok_or(CipherError::Short)?;
        let body = message.get(body).ok_or(CipherError::Short)?;
        let (security, rest) = body.split_first().ok_or(CipherError::Short)?;
        if *security != SECURITY {
            return Err(CipherError::Security(*security));
        }
        let (counter, text) = rest.split_first_chunk::<4>().ok_or(CipherError::Short)?;
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&system);
        nonce[8..].copy_from_slice(counter);
        let aad = Zeroizing::new([&[*security][..], self.authentication.as_slice()].concat());
        let cipher = AesGcm::<Aes128, U12, U12>::new((&*self.encryption).into());
        let payload = Payload { msg: text, aad: &aad };
        cipher.decrypt(&Nonce::from(nonce), payload).map_err(|_| CipherError::Key)
    }

    /// Encrypts a text, as a meter would.
    pub fn seal(&self, system: [u8; 8], counter: u32, text: &[u8]) -> Vec<u8> {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&system);
        nonce[8..].copy_from_slice(&counter.to_be_bytes());
        let aad = Zeroizing::new([&[SECURITY][..], self.authentication.as_slice()].concat());
        let cipher = AesGcm::<Aes128, U12, U12>::new((&*self.encryption).into());
        let sealed = cipher.encrypt(&Nonce::from(nonce), Payload { msg: text, aad: &aad }).unwrap_or_default();
        let length = u16::try_from(sealed.len() + 5).unwrap_or(u16::MAX);
        let mut message = vec![TAG, 8];
        message.extend(system);
        message.push(0x82);
        message.extend(length.to_be_bytes());
        message.push(SECURITY);
        message.extend(counter.to_be_bytes());
        message.extend(sealed);
        message
    }
}

/// Where a ciphered message has what.
struct Head {
    system: [u8; 8],
    /// From the security byte to the end.
    body: std::ops::Range<usize>,
}

/// Reads the head of a message; `None` if it is not one, or not yet whole.
fn head(message: &[u8]) -> Option<Head> {
    let [TAG, 8, rest @ ..] = message else { return None };
    let system = *rest.first_chunk::<8>()?;
    let (start, length) = match *message.get(10..)? {
        [0x82, high, low, ..] => (13, usize::from(u16::from_be_bytes([high, low]))),
        [0x81, length, ..] => (12, usize::from(length)),
        [length @ 0..=0x7f, ..] => (11, usize::from(length)),
        _ => return None,
    };
    Some(Head { system, body: start..start + length })
}

fn key(digits: &[u8]) -> Option<Zeroizing<[u8; 16]>> {
    let mut key = Zeroizing::new([0; 16]);
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(key)
}

/// Cuts a stream of bytes into ciphered messages.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            // The head of a message: other bytes have the tag too.
            let start = self.buffer.windows(2).position(|pair| pair == [TAG, 8]);
            let Some(start) = start else {
                let kept = self.buffer.len().min(1);
                self.buffer.drain(..self.buffer.len() - kept);
                return None;
            };
            self.buffer.drain(..start);
            // The tag, the system, three bytes of length and the security byte.
            if self.buffer.len() < 14 {
                return None;
            }
            match head(&self.buffer).filter(|head| self.is_likely(head)).map(|head| head.body) {
                Some(body) if body.end <= self.buffer.len() => return Some(self.buffer.drain(..body.end).collect()),
                Some(_) => return None,
                None => drop(self.buffer.drain(..2)),
            }
        }
    }
}

impl Frames {
    /// Whether a head is one: a system's name begins with three letters of its maker, and the message is protected.
    fn is_likely(&self, head: &Head) -> bool {
        let is_named = head.system[..3].iter().all(u8::is_ascii_uppercase);
        let is_protected = self.buffer.get(head.body.start).is_some_and(|security| (0x10..=0x3f).contains(security));
        is_named && is_protected && head.body.len() >= 5 + TAG_BYTES && head.body.end <= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SYSTEM: [u8; 8] = *b"SAGg\0\0\0\x01";

    #[test]
    fn a_message_is_found_and_opened_and_a_changed_one_is_not() {
        let keys = Keys::known();
        let sealed = keys.seal(SYSTEM, 7, b"/LUX5\\253833635_A\r\n!\r\n");
        let stream = [b"\xdb\x08tail", &sealed[..], &sealed, &[TAG, 8]].concat();
        for size in [1, 7, stream.len()] {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in stream.chunks(size) {
                frames.push(piece);
                found.extend(std::iter::from_fn(|| frames.next_frame()));
            }
            assert_eq!(found, [sealed.clone(), sealed.clone()], "in pieces of {size}");
        }
        assert_eq!(keys.open(&sealed).as_deref(), Ok(&b"/LUX5\\253833635_A\r\n!\r\n"[..]));
        for at in 2..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(keys.open(&changed).is_err(), "byte {at}");
        }
        let other = Keys { encryption: Zeroizing::new([8; 16]), ..keys };
        assert_eq!(other.open(&sealed), Err(CipherError::Key));
    }

    #[test]
    fn keys_are_read_from_a_file_for_its_owner_alone_and_never_printed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let read = |text: &str, mode: u32| {
            std::fs::write(file.path(), text).expect("written");
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("set");
            Keys::from_file(file.path())
        };
        let digits = "07".repeat(16);
        let sealed = Keys::known().seal(SYSTEM, 1, b"text");
        let opened = |keys: Result<Keys, String>| keys.expect("keys").open(&sealed);
        assert_eq!(opened(read(&format!("{digits}\n"), 0o600)).as_deref(), Ok(&b"text"[..]));
        let both = format!("{digits}\n00112233445566778899aabbccddeeff");
        assert_eq!(opened(read(&both, 0o600)).as_deref(), Ok(&b"text"[..]));
        assert_eq!(opened(read(&format!("{digits}\n{digits}"), 0o600)), Err(CipherError::Key));
        let open = read(&digits, 0o644).expect_err("others can read it");
        assert!(open.contains("chmod 600"), "{open}");
        for wrong in ["", "07", &format!("{digits}\nx"), &format!("{digits}\n{digits}\n{digits}")] {
            let problem = read(wrong, 0o600).expect_err("no key");
            assert!(problem.contains("32 hexadecimal digits") && !problem.contains("0707"), "{problem}");
        }
        assert_eq!(format!("{:?}", Keys::known()), "Keys { .. }");
    }
}
