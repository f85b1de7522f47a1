//! Which message it is: the envelope, the payload, or one of the plain texts that a gateway publishes.

use dream_protocol::wire::{
    self, Answer, DealtReading, DecodeError, EnrolmentStatement, FullList, ListHeader, Mac0, MaskedReading,
    Message as _, RecoveryRequest, Retry, Reveal, ShortList, Sign1, Status,
};

/// One of the two envelopes.
#[derive(Debug)]
pub(super) enum Envelope<'a> {
    Mac0(Mac0<'a>),
    Sign1(Sign1<'a>),
}

impl<'a> Envelope<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, String> {
        // The protected header comes first and tells the two apart.
        let envelope = match Mac0::decode(bytes) {
            Err(DecodeError::WrongAlgorithm) => Sign1::decode_any(bytes).map(Self::Sign1),
            decoded => decoded.map(Self::Mac0),
        };
        envelope.map_err(|error| match (error, bytes) {
            (DecodeError::WrongAlgorithm, _) => {
                "the protected header is neither that of HMAC 256/64 (a10104) nor that of EdDSA (a10127)".to_owned()
            }
            (DecodeError::WrongType { at: 0, .. }, [0xd1 | 0xd2, ..]) => "it is tagged; DREAM's are not".to_owned(),
            (error, _) => error.to_string(),
        })
    }

    pub(super) fn payload(&self) -> &'a [u8] {
        match self {
            Self::Mac0(envelope) => envelope.payload(),
            Self::Sign1(envelope) => envelope.payload(),
        }
    }

    pub(super) fn certificate(&self) -> Option<&'a [u8]> {
        match self {
            Self::Mac0(_) => None,
            Self::Sign1(envelope) => envelope.certificate(),
        }
    }
}

/// A decoded payload.
#[derive(Debug)]
pub(super) enum Message<'a> {
    Reading(MaskedReading),
    Request(RecoveryRequest),
    Reveal(Reveal),
    Enrolment(EnrolmentStatement),
    /// A list's header, with what follows it.
    List(Box<ListHeader>, Body<'a>),
    Status(Status),
    Retry(Retry),
    Dealt(DealtReading<'a>),
    Answer(Answer),
}

/// What follows the header of a list.
#[derive(Debug)]
pub(super) enum Body<'a> {
    /// Nothing: a header by itself.
    Nothing,
    Full(FullList<'a>),
    Short(ShortList<'a>),
}

impl<'a> Message<'a> {
    pub(super) fn decode(payload: &'a [u8]) -> Result<Self, String> {
        let message = match wire::kind(payload).map_err(|error| error.to_string())? {
            1 => MaskedReading::decode(payload).map(Self::Reading),
            2 => RecoveryRequest::decode(payload).map(Self::Request),
            3 => Reveal::decode(payload).map(Self::Reveal),
            4 => EnrolmentStatement::decode(payload).map(Self::Enrolment),
            5 => Err(DecodeError::EarlierFormat),
            6 => Status::decode(payload).map(Self::Status),
            7 => Retry::decode(payload).map(Self::Retry),
            8 => DealtReading::decode(payload).map(Self::Dealt),
            9 => Answer::decode(payload).map(Self::Answer),
            10 => ListHeader::decode(payload).map(|header| Self::List(Box::new(header), Body::Nothing)),
            other => return Err(format!("it is of kind {other}; kinds are 1 to 4 and 6 to 11")),
        };
        message.map_err(|error| error.to_string())
    }

    /// Returns the hash of the list that the message is about, or the start of it.
    pub(super) fn list(&self) -> Option<&[u8]> {
        match self {
            Self::Reading(reading) => Some(&reading.list),
            Self::Request(request) => Some(&request.list.0),
            Self::Reveal(reveal) => Some(&reveal.list),
            Self::Status(status) => status.list.as_ref().map(<[u8; 8]>::as_slice),
            Self::Retry(retry) => Some(&retry.list.0),
            Self::Dealt(reading) => Some(&reading.list),
            Self::Answer(answer) => Some(&answer.list),
            Self::Enrolment(_) | Self::List(..) => None,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Reading(_) => "reading (message 1)",
            Self::Request(_) => "recovery request (message 2)",
            Self::Reveal(_) => "reveal (message 3)",
            Self::Enrolment(_) => "enrolment (message 4)",
            Self::List(_, Body::Full(_)) => "membership list",
            Self::List(_, Body::Short(_)) => "short membership list",
            Self::List(_, Body::Nothing) => "header of a membership list (message 10)",
            Self::Status(_) => "status (message 6)",
            Self::Retry(_) => "retry (message 7)",
            Self::Dealt(_) => "reading dealt to holders (message 8)",
            Self::Answer(_) => "answer of a holder (message 9)",
        }
    }
}

/// What a gateway publishes for others than meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    Online,
    Offline,
    Json,
    Empty,
}

impl Plain {
    pub(super) fn recognise(bytes: &[u8]) -> Option<Self> {
        match bytes.trim_ascii() {
            b"online" => Some(Self::Online),
            b"offline" => Some(Self::Offline),
            b"" => Some(Self::Empty),
            text @ [b'{', ..] => serde_json::from_slice::<serde_json::Value>(text).is_ok().then_some(Self::Json),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Online | Self::Offline => "gateway status",
            Self::Json => "JSON",
            Self::Empty => "empty message",
        }
    }

    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Online => "`online`: the gateway is connected to the broker",
            Self::Offline => "`offline`: the gateway has left, or its connection broke",
            Self::Json => "for other consumers, as an aggregate is; not part of the protocol, and nobody signs it",
            Self::Empty => "on a retained topic, it removes the message that was retained",
        }
    }
}
