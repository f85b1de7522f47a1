//! Names of meters, clusters and gateways.
//!
//! One grammar for all (`protocol.md 3`): `[a-z0-9][a-z0-9_-]{0,63}`, so that an id is at once a certificate's common
//! name, an MQTT topic level, an MQTT user name and a Prometheus label value. Ids sort bytewise.

use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

/// The longest id, in bytes.
pub const MAX_ID_LEN: usize = 64;

/// Why a text is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IdError {
    #[error("an id has 1 to {MAX_ID_LEN} characters, this one has {len}")]
    Length { len: usize },
    #[error(
        "the character at byte {at} is not allowed; ids use a-z, 0-9, `_` and `-`, and start with a letter or digit"
    )]
    Character { at: usize },
    #[error("`gateway` is reserved as a cluster id, because gateways publish their status below it")]
    Reserved,
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() || text.len() > MAX_ID_LEN {
        return Err(IdError::Length { len: text.len() });
    }
    let allowed = |at: usize, byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => true,
        b'_' | b'-' => at > 0,
        _ => false,
    };
    match text.bytes().enumerate().find(|&(at, byte)| !allowed(at, byte)) {
        Some((at, _)) => Err(IdError::Character { at }),
        None => Ok(()),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $reserved:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the grammar and keeps the text.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check(text)?;
                if $reserved == Some(text) {
                    return Err(IdError::Reserved);
                }
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id!(
    /// A meter: the common name of its certificate.
    MeterId,
    None::<&str>
);
id!(
    /// A gateway: the common name of its certificate.
    GatewayId,
    None::<&str>
);
id!(
    /// A cluster of meters whose sum is released.
    ClusterId,
    Some("gateway")
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_that_of_the_specification() {
        let longest = "a".repeat(MAX_ID_LEN);
        for good in ["a", "0", "m-1_x", longest.as_str()] {
            assert_eq!(MeterId::new(good).unwrap().as_str(), good);
        }
        assert_eq!(MeterId::new(""), Err(IdError::Length { len: 0 }));
        assert_eq!(MeterId::new(&"a".repeat(65)), Err(IdError::Length { len: 65 }));
        for (bad, at) in [("-a", 0), ("_a", 0), ("A", 0), ("a/b", 1), ("a+", 1), ("a#", 1), ("aé", 1), ("a b", 1)] {
            assert_eq!(MeterId::new(bad), Err(IdError::Character { at }), "{bad}");
        }
    }

    #[test]
    fn only_clusters_may_not_be_called_gateway() {
        assert_eq!(ClusterId::new("gateway"), Err(IdError::Reserved));
        assert!(GatewayId::new("gateway").is_ok());
    }
}
