//! What every invitation of a community says, remembered from the first one on, and who answers those who enrol.

use std::path::{Path, PathBuf};

use dream_edge::issuer::{self, Validity};
use dream_edge::mqtt::BrokerUrl;
use dream_edge::tls;
use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::ids::GatewayId;
use dream_protocol::policy::Profile;
use dream_protocol::time::Timestamp;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::{Deserialize, Serialize};

use super::invitations::Invited;
use super::{Authority, AuthorityError, DAY_SECONDS};
use crate::est::EnrolUrl;
use crate::files;
use crate::invitation::{Fingerprint, Invitation, Secret};

const COMMUNITY: &str = "community.json";
pub(super) const GATEWAY_AUTHORITIES: &str = "gateway-authorities.pem";
pub(super) const BROKER_AUTHORITIES: &str = "broker-ca.pem";

/// The certificate and key that answer those who enrol: they say nothing about meters.
const SERVER: &str = "server.pem";
const SERVER_KEY: &str = "server.key";

/// For how many days that certificate is valid: as long as homes remember it.
const SERVER_DAYS: u64 = 20 * 365;

/// What is given once for all invitations; what is left out stays as it was.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub broker: Option<BrokerUrl>,
    pub gateways: Vec<GatewayId>,
    pub profile: Option<Profile>,
    pub enrol: Option<EnrolUrl>,
    pub gateway_authorities: Vec<PathBuf>,
    pub broker_ca: Option<PathBuf>,
}

/// What every invitation says.
#[derive(Debug, Clone)]
pub struct Community {
    pub broker: BrokerUrl,
    pub gateways: Vec<GatewayId>,
    pub profile: Profile,
    pub enrol: EnrolUrl,
}

/// The same as the file has it.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Stored {
    broker: Option<String>,
    gateways: Vec<String>,
    profile: Option<String>,
    enrol: Option<String>,
}

impl Authority {
    /// Remembers facts beside those that are known, and returns all of them; says which are missing.
    pub fn describe(&self, facts: &Facts) -> Result<Community, AuthorityError> {
        let path = self.directory.join(COMMUNITY);
        let wrong = |why: String| AuthorityError::Community(format!("{}: {why}", path.display()));
        let mut stored = match path.exists() {
            true => serde_json::from_slice(&files::read(&path)?).map_err(|error| wrong(error.to_string()))?,
            false => Stored::default(),
        };
        if let Some(broker) = &facts.broker {
            stored.broker = Some(broker.to_string());
        }
        if !facts.gateways.is_empty() {
            stored.gateways = facts.gateways.iter().map(ToString::to_string).collect();
        }
        if let Some(profile) = facts.profile {
            stored.profile = Some(profile.to_string());
        }
        if let Some(enrol) = &facts.enrol {
            stored.enrol = Some(enrol.to_string());
        }
        let missing = |flag: &str, what: &str| {
            AuthorityError::Community(format!("{flag} is missing: {what}. It is remembered for the next invitations"))
        };
        let broker = stored.broker.as_deref().ok_or_else(|| missing("--broker", "the address of the broker"))?;
        let enrol = stored.enrol.as_deref();
        let enrol = enrol.ok_or_else(|| missing("--url", "where `authority serve` answers, https://HOST[:8445]"))?;
        if stored.gateways.is_empty() {
            return Err(missing("--gateway", "the gateway whose lists meters accept"));
        }
        self.keep_authorities(&facts.gateway_authorities, GATEWAY_AUTHORITIES)?;
        self.keep_authorities(facts.broker_ca.as_slice(), BROKER_AUTHORITIES)?;
        if !self.directory.join(GATEWAY_AUTHORITIES).exists() {
            return Err(missing("--gateway-authority", "the certificate of the authority that certifies the gateway"));
        }
        let profile = stored.profile.as_deref().unwrap_or("community");
        let community = Community {
            broker: BrokerUrl::parse(broker).ok_or_else(|| wrong(format!("`broker` is {broker:?}")))?,
            gateways: stored
                .gateways
                .iter()
                .map(|name| GatewayId::new(name).map_err(|error| wrong(error.to_string())))
                .collect::<Result<_, _>>()?,
            profile: profile.parse().map_err(|_| wrong(format!("`profile` is {profile:?}")))?,
            enrol: enrol.parse().map_err(wrong)?,
        };
        files::replace(&path, &serde_json::to_vec_pretty(&stored).expect("names"))?;
        Ok(community)
    }

    /// Keeps the certificates of authorities for those who join. One that certifies meters is none of them.
    fn keep_authorities(&self, paths: &[impl AsRef<Path>], name: &str) -> Result<(), AuthorityError> {
        let mut all = String::new();
        for path in paths {
            let found = files::certificates(path.as_ref())?;
            let anchors = Anchors::new(found.iter().map(|der| der.as_ref()));
            let anchors =
                anchors.map_err(|error| AuthorityError::Certificate { path: path.as_ref().to_owned(), error })?;
            let meters = Anchors::new([self.der.as_ref()]).expect("it was accepted before");
            if let Err(error) = Authorities::new(meters, anchors) {
                return Err(AuthorityError::Community(format!("{}: {error}", path.as_ref().display())));
            }
            all.extend(found.iter().map(|der| files::encode("CERTIFICATE", der)));
        }
        if all.is_empty() {
            return Ok(());
        }
        Ok(files::replace(&self.directory.join(name), all.as_bytes())?)
    }

    /// Returns the invitation of a meter.
    pub fn invitation_line(
        &self,
        community: &Community,
        invited: &Invited,
        secret: Secret,
        now: Timestamp,
    ) -> Result<Invitation, AuthorityError> {
        let known = |name: &str| -> Result<Vec<Fingerprint>, AuthorityError> {
            let path = self.directory.join(name);
            if !path.exists() {
                return Ok(Vec::new());
            }
            Ok(files::certificates(&path)?.iter().map(|der| Fingerprint::of(der)).collect())
        };
        Ok(Invitation {
            meter: invited.meter.clone(),
            cluster: invited.cluster.clone(),
            profile: community.profile,
            gateways: community.gateways.clone(),
            broker: community.broker.clone(),
            enrol: community.enrol.clone(),
            server: Fingerprint::of(&self.server(std::slice::from_ref(&community.enrol.host), now)?.0[0]),
            meter_authorities: vec![Fingerprint::of(&self.der)],
            gateway_authorities: known(GATEWAY_AUTHORITIES)?,
            broker_authorities: known(BROKER_AUTHORITIES)?,
            expires: invited.expires,
            secret,
        })
    }

    /// Returns the certificate and key that answer those who enrol, made the first time.
    pub(super) fn server(&self, hosts: &[String], now: Timestamp) -> Result<tls::Identity, AuthorityError> {
        let (certificate, key) = (self.directory.join(SERVER), self.directory.join(SERVER_KEY));
        if !certificate.exists() {
            let from = now.as_secs().saturating_sub(DAY_SECONDS);
            let validity = Validity { from, to: from + SERVER_DAYS * DAY_SECONDS };
            let hosts: Vec<String> = hosts.iter().map(|host| host.trim_matches(['[', ']']).to_owned()).collect();
            let (der, pkcs8) =
                issuer::server(&hosts, validity).map_err(|error| AuthorityError::Community(error.to_string()))?;
            // One whose certificate was never written is of no use.
            files::erase(&key)?;
            files::create(&key, zeroize::Zeroizing::new(files::encode("PRIVATE KEY", &pkcs8)).as_bytes(), 0o600)?;
            files::replace(&certificate, files::encode("CERTIFICATE", &der).as_bytes())?;
        }
        files::check_private(&key)?;
        let found = files::private_key(&key)?;
        let found = PrivatePkcs8KeyDer::from(found.secret_der().to_vec());
        Ok((files::certificates(&certificate)?, found.into()))
    }
}
