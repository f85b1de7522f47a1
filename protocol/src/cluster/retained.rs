//! The newest list as the broker retains it, in its two forms: whether it is there, and when it is published again.

use crate::time::Timestamp;
use crate::topic::GatewayChannel;

/// How long after connecting a retained list may take to arrive. Until then nothing is published that it could contradict.
const RETAINED_SECONDS: u64 = 3;

/// The least time between two publications of one list: somebody else may publish on its topic, and go on doing so.
const RESTORE_SECONDS: u64 = 60;

/// The two forms of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Short,
    Full,
}

impl Form {
    /// In the order in which they are published.
    pub(super) const ALL: [Self; 2] = [Self::Short, Self::Full];

    pub(super) const fn channel(self) -> GatewayChannel {
        match self {
            Self::Short => GatewayChannel::Membership,
            Self::Full => GatewayChannel::FullMembership,
        }
    }
}

/// What is known of one form of the newest list on the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnBroker {
    /// It was not seen since the connection was lost, or somebody replaced it: it is to be published.
    Unseen,
    /// It was published and did not come back yet: what comes before it is older.
    Sent,
    /// It came back: what comes after it has replaced it.
    Confirmed,
}

/// The newest list on the broker.
#[derive(Debug)]
pub(super) struct Retained {
    /// From when the retained list must have been seen; `None` without a connection. It may come before the word that the
    /// topics are subscribed.
    listening: Option<Timestamp>,
    forms: [OnBroker; 2],
    /// When the newest list was last published, again or for the first time.
    last_sent: Timestamp,
}

impl Retained {
    pub(super) const fn new() -> Self {
        Self { listening: None, forms: [OnBroker::Unseen; 2], last_sent: Timestamp::from_millis(0) }
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.listening.is_some()
    }

    /// From when lists may be published.
    pub(super) const fn listening(&self) -> Option<Timestamp> {
        self.listening
    }

    pub(super) const fn connected(&mut self, now: Timestamp) {
        self.listening = Some(now.plus_secs(RETAINED_SECONDS));
    }

    pub(super) const fn disconnected(&mut self) {
        self.listening = None;
        self.forms = [OnBroker::Unseen; 2];
    }

    /// Whether a form is to be published again.
    pub(super) fn is_due(&self) -> bool {
        self.forms.contains(&OnBroker::Unseen)
    }

    /// Takes note that a new list was published, in both forms.
    pub(super) const fn published(&mut self, now: Timestamp) {
        self.forms = [OnBroker::Sent; 2];
        self.last_sent = now;
    }

    /// Returns whether a form is to be published now, and takes it as published.
    pub(super) fn take_due(&mut self, form: Form) -> bool {
        let due = self.forms[form as usize] == OnBroker::Unseen;
        if due {
            self.forms[form as usize] = OnBroker::Sent;
        }
        due
    }

    pub(super) const fn sent_again(&mut self, now: Timestamp) {
        self.last_sent = now;
    }

    /// Takes note that a form came back as it was published.
    pub(super) const fn confirm(&mut self, form: Form) {
        self.forms[form as usize] = OnBroker::Confirmed;
    }

    /// Takes note that something else is on the topic of a form; returns whether that has replaced it, so that it will be
    /// published again.
    pub(super) fn replace(&mut self, form: Form, now: Timestamp) -> bool {
        let replaced = self.is_connected() && self.forms[form as usize] == OnBroker::Confirmed;
        if replaced {
            self.forms[form as usize] = OnBroker::Unseen;
            self.listening = Some(now.max(self.last_sent.plus_secs(RESTORE_SECONDS)));
        }
        replaced
    }
}
