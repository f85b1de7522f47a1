//! `gateway.toml` for a trial: what `dream-gateway run` needs, and comments that explain it.

use dream_edge::HomeKind;
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::policy::Profile;
use dream_protocol::scheme::{Kind, SchemeChoice};

const HEAD: &str = "\
# A gateway for trials, written by `meter-sim provision`. Paths are taken from the directory of this file. Every key is
# explained in docs/configuration.md; check changes with `dream-gateway check-config`.

";

const IDENTITY: &str = r#"
[identity]
certificate = "gateway.pem"
key = "gateway.key"
meter_authorities = ["meter-authority.pem"]     # whose meters' certificates count
gateway_authorities = ["gateway-authority.pem"] # issued gateway.pem

[broker]
"#;

const TLS: &str = r#"ca = "gateway-authority.pem"    # issued broker.pem too
client_certificate = "gateway.pem"
client_key = "gateway.key"
"#;

const STORE: &str = r#"
[store]
path = "gateway.redb"           # created at the first start

[http]
listen = "127.0.0.1:9464"       # the page, the API and the metrics

[defaults]                      # of every cluster
"#;

/// What is particular to a trial.
pub(super) struct Settings<'a> {
    pub(super) gateway: &'a GatewayId,
    pub(super) broker_url: &'a str,
    pub(super) tls: bool,
    pub(super) clusters: &'a [ClusterId],
    /// Of each cluster.
    pub(super) meters: u16,
    /// What they accept.
    pub(super) profile: Profile,
    pub(super) slot_seconds: u64,
    pub(super) epsilon: &'a str,
    pub(super) kind: HomeKind,
    pub(super) scheme: SchemeChoice,
}

impl Settings<'_> {
    pub(super) fn to_toml(&self) -> String {
        let Self { gateway, broker_url, slot_seconds, epsilon, .. } = self;
        let (window, settle) = (window(*slot_seconds), (*slot_seconds).min(60));
        let min_members = min_members(self.meters, self.profile);
        let mut text = String::from(HEAD);
        line(&mut text, &format!("id = \"{gateway}\""), "the common name of gateway.pem");
        text += IDENTITY;
        line(&mut text, &format!("url = \"{broker_url}\""), if self.tls { "" } else { "not encrypted" });
        text += if self.tls { TLS } else { "" };
        text += STORE;
        let policy = match self.profile {
            Profile::Strict => "what meters accept by default",
            Profile::Community => "certificates say how many meters a cluster has",
            Profile::Trial => "meters that accept clusters this small; real ones do not",
        };
        let scheme = match self.scheme {
            SchemeChoice::Auto => "a committee from 50 members on, pairwise below",
            SchemeChoice::Only(Kind::Committee) => "holders open the sum; some may drop out",
            SchemeChoice::Only(Kind::Pairwise) => "every member must help to open the sum",
        };
        let settings: [(&str, String, &str); 11] = [
            ("slot_seconds", slot_seconds.to_string(), ""),
            ("reading_seconds", window.to_string(), "how long meters may take to report"),
            ("reveal_seconds", window.to_string(), "and then to answer the request that follows"),
            ("scheme", format!("\"{}\"", self.scheme), scheme),
            ("epsilon", (*epsilon).to_owned(), "of each attempt: smaller is more private, and noisier"),
            ("kind", format!("\"{}\"", self.kind), "of homes: the range of readings, and their square over a day"),
            ("max_missing", "0.1".to_owned(), "the share of members that may be silent"),
            ("max_malicious", "0.1".to_owned(), "the share that may work for the gateway; less is refused"),
            ("meter_policy", format!("\"{}\"", self.profile), policy),
            ("min_members", min_members.to_string(), "a list needs this many enrolled members"),
            ("settle_seconds", settle.to_string(), "and this long without a new one"),
        ];
        for (key, value, meaning) in settings {
            line(&mut text, &format!("{key} = {value}"), meaning);
        }
        for cluster in self.clusters {
            text += &format!("\n[clusters.{cluster}]\n");
            line(&mut text, &format!("allow_file = \"{cluster}.allow\""), "who may join");
        }
        text
    }
}

/// A key, and what it means in a column of its own.
fn line(text: &mut String, key: &str, meaning: &str) {
    let line = if meaning.is_empty() { key.to_owned() } else { format!("{key:<31} # {meaning}") };
    text.push_str(&line);
    text.push('\n');
}

/// Both windows: a tenth of a slot, but of short slots as much as two attempts leave room for.
fn window(slot_seconds: u64) -> u64 {
    if slot_seconds >= 120 { slot_seconds / 10 } else { (slot_seconds / 4).clamp(1, 12) }
}

/// Four fifths, so that a trial starts without stragglers, but enough for the meters' policy if there are enough.
fn min_members(meters: u16, profile: Profile) -> u16 {
    let fewest = match profile {
        Profile::Strict | Profile::Trial => Profile::Strict.floors().members,
        Profile::Community => Profile::Community.floors().members,
    };
    let most = (u32::from(meters) * 4).div_ceil(5);
    let most = u16::try_from(most).unwrap_or(meters);
    most.max(meters.min(fewest)).max(2)
}
