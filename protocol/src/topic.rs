//! Which message travels where: topics below `dream/v1/` (`protocol.md 7`).

use alloc::format;
use alloc::string::String;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::ids::{ClusterId, GatewayId, IdError, MeterId};

/// What every topic of this version starts with.
pub const PREFIX: &str = "dream/v1/";

/// The channels of a cluster that a meter publishes on, each on a topic of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeterChannel {
    Reading,
    Reveal,
    Enrol,
    Status,
}

impl MeterChannel {
    pub const ALL: [Self; 4] = [Self::Reading, Self::Reveal, Self::Enrol, Self::Status];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Reveal => "reveal",
            Self::Enrol => "enrol",
            Self::Status => "status",
        }
    }

    /// The topic of one meter.
    pub fn topic(self, cluster: &ClusterId, meter: &MeterId) -> String {
        format!("{PREFIX}{cluster}/{}/{meter}", self.as_str())
    }

    /// The filter for all meters of a cluster.
    pub fn filter(self, cluster: &ClusterId) -> String {
        format!("{PREFIX}{cluster}/{}/+", self.as_str())
    }
}

/// The channels of a cluster that its gateway publishes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GatewayChannel {
    /// The headers of lists, with the holders where members need no more. The headers of all lists are signed for this topic.
    Membership,
    /// Lists with every enrolment.
    FullMembership,
    /// Requests: for those who answer them.
    Recovery,
    /// Retries: for all members.
    Retry,
    /// For other consumers, not part of the protocol between meters and gateway.
    Aggregate,
}

impl GatewayChannel {
    pub const ALL: [Self; 5] = [Self::Membership, Self::FullMembership, Self::Recovery, Self::Retry, Self::Aggregate];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Membership => "membership",
            Self::FullMembership => "membership/full",
            Self::Recovery => "recovery",
            Self::Retry => "retry",
            Self::Aggregate => "aggregate",
        }
    }

    pub fn topic(self, cluster: &ClusterId) -> String {
        format!("{PREFIX}{cluster}/{}", self.as_str())
    }

    /// Returns whether the broker keeps the newest message for later subscribers.
    pub const fn is_retained(self) -> bool {
        match self {
            Self::Membership | Self::FullMembership | Self::Aggregate => true,
            Self::Recovery | Self::Retry => false,
        }
    }
}

/// The filter for what [`gateway_status`] returns for any replica of any gateway.
pub const ANY_GATEWAY_STATUS: &str = "dream/v1/gateway/+/status";

/// Returns where a replica of a gateway, `{id}-{ordinal}`, says `online` or `offline`, retained.
pub fn gateway_status(replica: &GatewayId) -> String {
    format!("{PREFIX}gateway/{replica}/status")
}

/// Returns the replica, `{id}-{ordinal}`, whose status a topic is.
pub fn replica_of_status(topic: &str) -> Option<&str> {
    topic.strip_prefix(PREFIX)?.strip_prefix("gateway/")?.strip_suffix("/status")
}

/// Returns whether a replica is one of this gateway's.
pub fn is_replica_of(replica: &str, gateway: &GatewayId) -> bool {
    let ordinal = replica.strip_prefix(gateway.as_str()).and_then(|rest| rest.strip_prefix('-'));
    ordinal.is_some_and(|ordinal| !ordinal.is_empty() && ordinal.bytes().all(|digit| digit.is_ascii_digit()))
}

/// A parsed topic of a cluster. Borrows, because the gateway parses one per message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic<'a> {
    Meter { cluster: &'a str, channel: MeterChannel, meter: &'a str },
    Gateway { cluster: &'a str, channel: GatewayChannel },
}

/// Why a topic is not one of a cluster's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum TopicError {
    #[error("the topic does not start with `{PREFIX}`: another application's, or another version's")]
    UnknownVersion,
    #[error("the topic names no channel of a cluster")]
    UnknownChannel,
    #[error("the topic names no valid id: {0}")]
    Id(#[from] IdError),
}

impl<'a> Topic<'a> {
    /// Splits a topic. Ids are checked where they are looked up: an id that nobody has is no member's.
    pub fn parse(topic: &'a str) -> Result<Self, TopicError> {
        let rest = topic.strip_prefix(PREFIX).ok_or(TopicError::UnknownVersion)?;
        let (cluster, rest) = level(rest).ok_or(TopicError::UnknownChannel)?;
        if cluster == "gateway" {
            return Err(TopicError::UnknownChannel);
        }
        let meters = level(rest).and_then(|(name, meter)| {
            let named = |channel: &MeterChannel| channel.as_str() == name && level(meter).is_none();
            MeterChannel::ALL.into_iter().find(named).map(|channel| Self::Meter { cluster, channel, meter })
        });
        let gateways = || {
            let named = |channel: &GatewayChannel| channel.as_str() == rest;
            GatewayChannel::ALL.into_iter().find(named).map(|channel| Self::Gateway { cluster, channel })
        };
        meters.or_else(gateways).ok_or(TopicError::UnknownChannel)
    }
}

/// The first level of a topic, and what follows it.
fn level(topic: &str) -> Option<(&str, &str)> {
    // Topics are short: a plain search beats `split_once`, which sets out to search long ones.
    let at = topic.bytes().position(|byte| byte == b'/')?;
    Some((&topic[..at], &topic[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_parses_back() {
        let cluster = ClusterId::new("north").unwrap();
        let meter = MeterId::new("m-1").unwrap();
        for channel in MeterChannel::ALL {
            let topic = channel.topic(&cluster, &meter);
            assert_eq!(Topic::parse(&topic), Ok(Topic::Meter { cluster: "north", channel, meter: "m-1" }));
        }
        for channel in GatewayChannel::ALL {
            let topic = channel.topic(&cluster);
            assert_eq!(Topic::parse(&topic), Ok(Topic::Gateway { cluster: "north", channel }));
        }
    }

    #[test]
    fn other_versions_and_other_topics_are_refused() {
        assert_eq!(Topic::parse("dream/v2/north/membership"), Err(TopicError::UnknownVersion));
        assert_eq!(Topic::parse("dream/v1/gateway/g-1/status"), Err(TopicError::UnknownChannel));
        for topic in ["dream/v1/north", "dream/v1/north/", "dream/v1/north/reading", "dream/v1/north/reading/a/b"] {
            assert_eq!(Topic::parse(topic), Err(TopicError::UnknownChannel), "{topic}");
        }
    }
}
