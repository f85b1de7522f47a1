//! What may be shown of the gateway itself.

use dream_protocol::time::Timestamp;

/// The gateway as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatewayView {
    /// Since when it runs.
    pub since: Option<Timestamp>,
    pub broker: BrokerView,
    /// Why the clock is not believed, if it is not.
    pub clock_trouble: Option<String>,
    /// Why the last commit failed, if it did.
    pub commit_error: Option<String>,
    /// For how long slots and hours are kept.
    pub retention_days: u64,
    pub hours_retention_days: u64,
    /// When the certificate in use expires, in Unix seconds.
    pub certificate_ends: Option<u64>,
}

/// The connection to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BrokerView {
    /// Not reached yet.
    #[default]
    Connecting,
    /// It has accepted the connection, and not yet confirmed all subscriptions.
    Connected {
        since: Timestamp,
    },
    Subscribed {
        since: Timestamp,
    },
    Lost {
        since: Timestamp,
        reason: String,
    },
}

impl BrokerView {
    /// Notes that all subscriptions are confirmed: a configuration that is read again may ask for more of them.
    #[must_use]
    pub fn subscribed(&self, now: Timestamp) -> Self {
        let since = match self {
            Self::Connected { since } | Self::Subscribed { since } => *since,
            Self::Connecting | Self::Lost { .. } => now,
        };
        Self::Subscribed { since }
    }

    /// Notes why there is no connection. Each attempt may fail for another reason, but it is lost since the first.
    #[must_use]
    pub fn lost(&self, now: Timestamp, reason: String) -> Self {
        let since = match self {
            Self::Lost { since, .. } => *since,
            Self::Connecting | Self::Connected { .. } | Self::Subscribed { .. } => now,
        };
        Self::Lost { since, reason }
    }
}

/// How close the end of a certificate is worth an operator's look.
pub const CERTIFICATE_ENDS_SOON_SECONDS: u64 = 14 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_lost_since_the_first_attempt_that_failed() {
        let at = Timestamp::from_secs;
        let lost = BrokerView::Connecting.lost(at(10), "refused".into()).lost(at(12), "no answer".into());
        assert_eq!(lost, BrokerView::Lost { since: at(10), reason: "no answer".into() });
    }
}
