//! The broker as the gateway would meet it: reached, trusted, logged in at, and asked for every right.

use std::io;

use dream_edge::mqtt::dialog::{Answer, Dialog, Version, reach};
use dream_edge::mqtt::{BrokerUrl, Client, Trouble};

use super::{Finding, State, end};
use crate::config::Config;
use crate::config::certificates::NamedCertificate;
use crate::engine::mqtt::visitor;
use crate::engine::rights::{Act, NOBODY, Right, needed};

/// How close the doctor comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    /// To the door: TCP and TLS.
    Reach,
    LogIn,
}

/// A filter that nobody gives a gateway: a broker that grants it grants everything, or says so at least.
const NOT_OURS: &str = "dream-doctor/not-granted";

const SEE_RULES: &str =
    "compare the broker's rules with broker-config/ and the table in operations.md (Broker permissions)";

pub(super) fn look(config: &Config, visit: Visit, now: u64) -> anyhow::Result<Vec<Finding>> {
    let client = visitor(&config.broker, format!("{}-doctor", config.replica_name()?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let mut findings = Vec::new();
        let mut tried = false;
        for url in &client.urls {
            let certificate = match reach(&client, url).await {
                Ok(certificate) => certificate,
                Err(trouble) => {
                    findings.push(unwelcome(url, &trouble));
                    continue;
                }
            };
            let tls = if url.tls { "reached, and its certificate is trusted" } else { "reached, without TLS" };
            let certificate =
                certificate.and_then(|der| NamedCertificate::read("the broker's certificate", false, &der));
            findings.extend(certificate.and_then(|certificate| end(&certificate, now)));
            if visit == Visit::Reach {
                findings.push(Finding::ok(
                    "broker",
                    format!("{url}: {tls}; a gateway runs, so the doctor does not log in"),
                ));
                continue;
            }
            match Dialog::begin(&client, url).await {
                Ok(dialog) => {
                    findings.push(Finding::ok("broker", format!("{url}: {tls}; lets the gateway in")));
                    // The nodes of one broker have the same rules.
                    if !std::mem::replace(&mut tried, true) {
                        findings.extend(rights(config, &client, url, dialog).await);
                    } else {
                        let keep = dialog.is_kept();
                        dialog.end(&client, url, keep).await;
                    }
                }
                Err(trouble) => findings.push(unwelcome(url, &trouble)),
            }
        }
        findings
    }))
}

fn unwelcome(url: &BrokerUrl, trouble: &Trouble) -> Finding {
    Finding::wrong("broker", format!("{url}: {trouble}"), "see \"The broker refuses\" in runbooks.md")
}

/// What came of trying a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    Granted,
    Refused,
    /// The broker does not say, and no message came that would show it.
    Unsaid,
    /// It works, but so does publishing in the name of a meter.
    TooMuch,
}

async fn rights(config: &Config, client: &Client, url: &BrokerUrl, dialog: Dialog) -> Vec<Finding> {
    let (version, keep) = (dialog.version(), dialog.is_kept());
    if config.clusters.contains_key(NOBODY) {
        dialog.end(client, url, keep).await;
        let says = format!("not tried, since they are tried as a cluster `{NOBODY}`, and there is one");
        return vec![Finding::new("rights", State::Unknown, says, "give that cluster another name")];
    }
    let needed = needed(config.home_assistant.as_deref());
    let mut trial = Trial { client, url, dialog: Some(dialog), keep, says_what_it_refuses: false };
    trial.says_what_it_refuses = trial.subscribe(NOT_OURS).await == Answer::Refused;
    let mut tried = Vec::new();
    for right in &needed {
        tried.push(trial.attempt(right).await);
    }
    trial.end(&needed).await;
    findings(&needed, &tried, version)
}

fn findings(needed: &[Right], tried: &[Tried], version: Version) -> Vec<Finding> {
    let of = |wanted: Tried| -> Vec<String> {
        let all = needed.iter().zip(tried).filter(|(_, found)| **found == wanted);
        all.map(|(right, _)| in_words(right)).collect()
    };
    let mut findings: Vec<Finding> = of(Tried::Refused)
        .into_iter()
        .map(|right| {
            Finding::wrong(
                "rights",
                format!("the broker refuses to let the gateway {right} (tried as `{NOBODY}`)"),
                SEE_RULES,
            )
        })
        .collect();
    let (too_much, unsaid) = (of(Tried::TooMuch), of(Tried::Unsaid));
    if !too_much.is_empty() {
        let says = "the broker lets the gateway publish in the name of meters: its rules are missing or too wide";
        findings.push(Finding::new("rights", State::Warning, says, SEE_RULES));
    }
    if !unsaid.is_empty() {
        let says = format!("this broker does not say whether the gateway may {}", unsaid.join(", "));
        let to_do = match version {
            Version::Mqtt5 => {
                "start the gateway: dream_messages_total{kind=\"reading\"} rises when a reading gets through"
            }
            Version::Mqtt311 => "it speaks MQTT 3.1.1 alone, in which nobody is told; its log names what it refuses",
        };
        findings.push(Finding::new("rights", State::Unknown, says, to_do));
    }
    let granted = of(Tried::Granted).len() + too_much.len();
    findings.push(Finding::ok("rights", format!("{granted} of {} were tried and are granted", needed.len())));
    findings
}

fn in_words(right: &Right) -> String {
    match right.act {
        Act::Subscribe { .. } => format!("read {}", right.rule),
        Act::Publish { .. } => format!("publish on {}", right.rule),
    }
}

/// A broker may hang up because of the packet before; if it does so twice, it is because of this one.
const TRIES: usize = 2;

/// A dialog that is begun again when the broker hangs up, as some do on what they refuse.
struct Trial<'a> {
    client: &'a Client,
    url: &'a BrokerUrl,
    dialog: Option<Dialog>,
    /// Whether there was a session before the first dialog.
    keep: bool,
    /// Whether a granted subscription is worth anything.
    says_what_it_refuses: bool,
}

impl Trial<'_> {
    async fn attempt(&mut self, right: &Right) -> Tried {
        match &right.act {
            Act::Publish { topic, retained } => match self.publish(topic, *retained).await {
                Answer::Granted => Tried::Granted,
                Answer::Refused => Tried::Refused,
                Answer::Unsaid => {
                    let comes_back = self.subscribe(topic).await == Answer::Granted
                        && self.publish(topic, *retained).await == Answer::Unsaid
                        && self.hears(topic).await;
                    if comes_back { Tried::Granted } else { Tried::Unsaid }
                }
            },
            Act::Subscribe { filter, topic } => {
                if self.subscribe(filter).await == Answer::Refused {
                    return Tried::Refused;
                }
                let is_list = filter == topic;
                if self.publish(topic, false).await != Answer::Refused && self.hears(topic).await {
                    return if is_list { Tried::Granted } else { Tried::TooMuch };
                }
                if self.says_what_it_refuses { Tried::Granted } else { Tried::Unsaid }
            }
        }
    }

    async fn dialog(&mut self) -> io::Result<&mut Dialog> {
        if self.dialog.is_none() {
            self.dialog = Dialog::begin(self.client, self.url).await.ok();
        }
        self.dialog.as_mut().ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    async fn subscribe(&mut self, filter: &str) -> Answer {
        for _ in 0..TRIES {
            let Ok(dialog) = self.dialog().await else { break };
            match dialog.subscribe(filter).await {
                Ok(answer) => return answer,
                Err(_) => self.dialog = None,
            }
        }
        Answer::Refused
    }

    async fn publish(&mut self, topic: &str, retained: bool) -> Answer {
        for _ in 0..TRIES {
            let Ok(dialog) = self.dialog().await else { break };
            match dialog.publish(topic, retained).await {
                Ok(answer) => return answer,
                Err(_) => self.dialog = None,
            }
        }
        Answer::Refused
    }

    async fn hears(&mut self, topic: &str) -> bool {
        match &mut self.dialog {
            Some(dialog) => dialog.hears(topic).await,
            None => false,
        }
    }

    /// Takes back what was asked for, in case the session is one that stays.
    async fn end(mut self, needed: &[Right]) {
        let filters = needed.iter().map(|right| match &right.act {
            Act::Subscribe { filter, .. } => filter.as_str(),
            Act::Publish { topic, .. } => topic.as_str(),
        });
        for filter in filters.chain([NOT_OURS]) {
            let Ok(dialog) = self.dialog().await else { return };
            if dialog.unsubscribe(filter).await.is_err() {
                self.dialog = None;
            }
        }
        if let Some(dialog) = self.dialog.take() {
            dialog.end(self.client, self.url, self.keep).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_does_not_say_is_not_called_well() {
        let needed = needed(None);
        let tried = vec![Tried::Unsaid; needed.len()];
        let found = findings(&needed, &tried, Version::Mqtt311);
        assert_eq!(found.iter().map(|finding| finding.state).collect::<Vec<_>>(), [State::Unknown, State::Ok]);
        assert!(found[0].says.contains("read dream/v1/+/reading/+"), "{}", found[0].says);
        assert!(found[1].says.starts_with("0 of "), "{}", found[1].says);
    }
}
