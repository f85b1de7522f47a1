//! Whether a message belongs where it was found, and whether it can be believed.

use dream_protocol::certificate::{Authorities, Certificate};
use dream_protocol::enrolment::Enrolment;
use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::topic::{GatewayChannel, MeterChannel, PREFIX, Topic};
use dream_protocol::wire::Sign1;

use super::input::Context;
use super::message::{Body, Envelope, Message, Plain};

/// The result of checking a tag or a signature.
#[derive(Debug)]
pub(super) enum Verdict {
    Verified(String),
    Unchecked(&'static str),
    Refused(String),
}

/// Checks that the envelope is the one for this kind of message.
pub(super) fn seal(message: &Message<'_>, envelope: &Envelope<'_>) -> Result<(), String> {
    let expected = match message {
        Message::Reading(_) | Message::Reveal(_) | Message::Dealt(_) | Message::Answer(_) => "a Mac0",
        Message::Enrolment(_) | Message::List(..) => "a Sign1 with a certificate",
        Message::Request(_) | Message::Status(_) | Message::Retry(_) => "a Sign1 without a certificate",
    };
    let found = match (envelope, envelope.certificate()) {
        (Envelope::Mac0(_), _) => "a Mac0",
        (Envelope::Sign1(_), Some(_)) => "a Sign1 with a certificate",
        (Envelope::Sign1(_), None) => "a Sign1 without a certificate",
    };
    if found == expected { Ok(()) } else { Err(format!("its envelope is {found}, this message needs {expected}")) }
}

/// Checks that the message may travel on this topic.
pub(super) fn topic(
    topic: &str,
    message: &Message<'_>,
    envelope: &Envelope<'_>,
    context: &Context,
) -> Result<(), String> {
    let parsed = Topic::parse(topic).map_err(|error| error.to_string())?;
    let (cluster, found) = match parsed {
        Topic::Meter { cluster, channel, .. } => (cluster, channel.as_str()),
        Topic::Gateway { cluster, channel } => (cluster, channel.as_str()),
    };
    let Some((channel, form)) = channel(message) else {
        return Err("it does not travel by itself: a list follows it".to_owned());
    };
    if found != channel {
        return Err(format!("it is on a topic for `{found}`; it belongs on {PREFIX}{{cluster}}/{form}"));
    }
    let list = message.list().and_then(|hash| context.list_of(hash));
    let stated = stated_cluster(message).or_else(|| list.map(|list| &list.cluster));
    if let Some(stated) = stated.filter(|stated| stated.as_str() != cluster) {
        return Err(format!("it is for cluster `{stated}`, its topic for `{cluster}`"));
    }
    let Topic::Meter { meter, .. } = parsed else { return Ok(()) };
    let certificate = envelope.certificate().and_then(|der| Certificate::unverified(der).ok());
    if let Some(Ok(id)) = certificate.as_ref().map(Certificate::meter)
        && id.as_str() != meter
    {
        return Err(format!("it is of meter `{id}`, its topic of `{meter}`"));
    }
    match (message, list) {
        (Message::Reading(_) | Message::Reveal(_) | Message::Dealt(_) | Message::Answer(_), Some(list))
            if !list.members.iter().any(|id| id == meter) =>
        {
            Err(format!("its topic is of meter `{meter}`, which is not in the list"))
        }
        _ => Ok(()),
    }
}

/// Checks that a plain text may travel on this topic.
pub(super) fn plain_topic(topic: &str, plain: Plain) -> Result<(), String> {
    let of_gateway = topic.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix("gateway/"));
    let status = of_gateway.is_some_and(|rest| rest.split_once('/').is_some_and(|(_, level)| level == "status"));
    let aggregate = matches!(Topic::parse(topic), Ok(Topic::Gateway { channel: GatewayChannel::Aggregate, .. }));
    match plain {
        Plain::Online | Plain::Offline if !status => {
            Err(format!("a gateway's status belongs on {PREFIX}gateway/{{gateway}}/status"))
        }
        Plain::Json if !aggregate => Err(format!("JSON belongs on {PREFIX}{{cluster}}/aggregate")),
        Plain::Online | Plain::Offline | Plain::Json | Plain::Empty => Ok(()),
    }
}

/// Checks the signature, as far as it can be checked with what is known.
pub(super) fn verify(bytes: &[u8], message: &Message<'_>, envelope: &Envelope<'_>, context: &Context) -> Verdict {
    let Envelope::Sign1(signed) = envelope else {
        return Verdict::Unchecked("only the gateway and the meter can check a tag");
    };
    match message {
        Message::Reading(_) | Message::Reveal(_) | Message::Dealt(_) | Message::Answer(_) => {
            Verdict::Unchecked("a signature means nothing here")
        }
        Message::Enrolment(statement) => by_authority(context, |authorities| {
            let found = Enrolment::verify(bytes, &statement.cluster, authorities).map_err(|error| error.to_string())?;
            Ok(format!("enrolment of meter {}, certified by an authority", found.id()))
        }),
        Message::List(header, Body::Nothing) => by_authority(context, |authorities| {
            let der = envelope.certificate().ok_or("it carries no certificate")?;
            let certificate = authorities.verify_gateway(der).map_err(|error| error.to_string())?;
            let gateway = certificate.gateway().map_err(|error| error.to_string())?;
            let topic = GatewayChannel::Membership.topic(&header.cluster);
            let verifies = signed.verifies(certificate.key(), &topic);
            verifies
                .then(|| format!("signed by gateway {gateway}"))
                .ok_or_else(|| "its signature does not verify".into())
        }),
        Message::List(header, Body::Short(_)) => by_authority(context, |authorities| {
            let found = MembershipList::verify_short(bytes, &header.cluster, authorities);
            Ok(match found.map_err(|error| error.to_string())? {
                Some(list) => format!(
                    "signed by gateway {}, and so are the entries of its {} holders by their meters",
                    list.gateway(),
                    list.holders().len()
                ),
                None => "signed by its gateway; every member takes the whole list, from membership/full".to_owned(),
            })
        }),
        Message::List(header, Body::Full(_)) => by_authority(context, |authorities| {
            let found = MembershipList::verify(bytes, &header.cluster, authorities);
            let list = found.map_err(|error| error.to_string())?;
            Ok(format!(
                "signed by gateway {}, and so are its {} entries by their meters",
                list.gateway(),
                list.members().len()
            ))
        }),
        Message::Request(request) => by_gateway(signed, &request.list.0, GatewayChannel::Recovery, context),
        Message::Retry(retry) => by_gateway(signed, &retry.list.0, GatewayChannel::Retry, context),
        Message::Status(_) => by_member(signed, context),
    }
}

fn by_authority(context: &Context, verify: impl FnOnce(&Authorities) -> Result<String, String>) -> Verdict {
    match &context.authorities {
        None => {
            Verdict::Unchecked("give --meter-authority and --gateway-authority to check signature and certificates")
        }
        Some(authorities) => verify(authorities).map_or_else(Verdict::Refused, Verdict::Verified),
    }
}

/// Requests and retries verify under the key that signed their list.
fn by_gateway(signed: &Sign1<'_>, hash: &[u8], channel: GatewayChannel, context: &Context) -> Verdict {
    let Some(list) = context.list_of(hash) else {
        return Verdict::Unchecked("give its list as --list, and the authorities, to check the signature");
    };
    let Some(verified) = &list.verified else {
        return Verdict::Unchecked("give --meter-authority and --gateway-authority to check list and signature");
    };
    if signed.verifies(verified.gateway_identity(), &channel.topic(verified.cluster())) {
        Verdict::Verified("signed by the gateway of the list".to_owned())
    } else {
        let channel = channel.as_str();
        Verdict::Refused(format!(
            "its signature does not verify under the key of the list's gateway, on the cluster's {channel} topic"
        ))
    }
}

/// Checks a status under the certificate of the meter that its topic names.
fn by_member(signed: &Sign1<'_>, context: &Context) -> Verdict {
    let topic = context.topic.as_deref().unwrap_or_default();
    let Ok(Topic::Meter { meter, channel: MeterChannel::Status, .. }) = Topic::parse(topic) else {
        return Verdict::Unchecked("give --topic, which names the meter, --list and the authorities");
    };
    let Some(list) = context.list.as_ref().and_then(|list| list.verified.as_ref()) else {
        return Verdict::Unchecked("give --list with the meter in it, and the authorities, to check the signature");
    };
    let Some(member) = list.index_of(meter).and_then(|index| list.member(index)) else {
        return Verdict::Unchecked("the meter is not in the list, so that its key is not known");
    };
    if signed.verifies(member.identity(), topic) {
        Verdict::Verified(format!("signed by meter {meter}"))
    } else {
        Verdict::Refused(format!("its signature does not verify under the key of meter `{meter}`, on its status topic"))
    }
}

/// Returns the channel that a message belongs on, and how its topic ends; `None` for a header without its list.
fn channel(message: &Message<'_>) -> Option<(&'static str, &'static str)> {
    Some(match message {
        Message::Reading(_) | Message::Dealt(_) => ("reading", "reading/{meter}"),
        Message::Reveal(_) | Message::Answer(_) => ("reveal", "reveal/{meter}"),
        Message::Enrolment(_) => ("enrol", "enrol/{meter}"),
        Message::Status(_) => ("status", "status/{meter}"),
        Message::List(_, Body::Nothing) => return None,
        Message::List(_, Body::Full(_)) => ("membership/full", "membership/full"),
        Message::List(_, Body::Short(_)) => ("membership", "membership"),
        Message::Request(_) => ("recovery", "recovery"),
        Message::Retry(_) => ("retry", "retry"),
    })
}

fn stated_cluster<'a>(message: &'a Message<'_>) -> Option<&'a ClusterId> {
    match message {
        Message::Enrolment(statement) => Some(&statement.cluster),
        Message::List(header, _) => Some(&header.cluster),
        Message::Status(status) => Some(&status.cluster),
        Message::Reading(_)
        | Message::Reveal(_)
        | Message::Dealt(_)
        | Message::Answer(_)
        | Message::Request(_)
        | Message::Retry(_) => None,
    }
}
