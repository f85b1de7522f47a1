//! Keys and certificates from files: read once at the start (and at SIGHUP), checked before anything is connected.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dream_edge::files::{self, mode_for_everybody, seed_of};
use dream_edge::tls;
use dream_protocol::certificate::{Anchors, Authorities, Certificate, CertificateError, Subject};
use dream_protocol::ids::GatewayId;
use dream_protocol::keys::IdentityKey;
use dream_protocol::time::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::clock::rfc3339;
use crate::config::{BrokerTls, HttpTls, Identity, Login};

/// Why a file with a key or a certificate is invalid. Never says what is in it.
#[derive(Debug, Error)]
pub enum SecretError {
    #[error("{}, `{key}`, cannot be read: {error}", path.display())]
    Read { key: &'static str, path: PathBuf, error: std::io::Error },
    #[error("{}, `{key}`, holds no {what} in PEM (a block `-----BEGIN {label}-----`)", path.display())]
    NoPem { key: &'static str, path: PathBuf, what: &'static str, label: &'static str },
    #[error(
        "{}, `{key}`, can be read by everybody on this machine (mode {mode:o}): replace it if others may have read \
         it, and `chmod 600` it, or 440 if the gateway reads it through a group",
        path.display()
    )]
    Open { key: &'static str, path: PathBuf, mode: u32 },
    #[error(
        "{}, `identity.key`, holds no Ed25519 key as PKCS#8; make one with `openssl genpkey -algorithm ed25519`",
        path.display()
    )]
    NotEd25519 { path: PathBuf },
    #[error("{}, `{key}`: {error}", path.display())]
    Certificate { key: &'static str, path: PathBuf, error: CertificateError },
    #[error("the key in {} does not match the certificate in {}", key.display(), certificate.display())]
    Mismatch { key: PathBuf, certificate: PathBuf },
    #[error("the certificate in {} is for the gateway `{found}`, but `id` is `{expected}`", path.display())]
    OtherGateway { path: PathBuf, found: GatewayId, expected: GatewayId },
    #[error(
        "{}, `broker.client_certificate`, belongs to the {found}, and a broker that identifies clients by certificate \
         would give the gateway the rights of that client; use the certificate of the gateway `{expected}`",
        path.display()
    )]
    OtherClient { path: PathBuf, found: String, expected: GatewayId },
    #[error(
        "the certificate in {} is not valid now, only from {} to {}; renew it, or set this machine's clock",
        path.display(), utc(*from), utc(*to)
    )]
    Period { path: PathBuf, from: u64, to: u64 },
    #[error("{}, `store.keys`, does not hold 64 hexadecimal digits; make a key with `openssl rand -hex 32`", path.display())]
    NotAStoreKey { path: PathBuf },
    #[error("cannot set up TLS to the broker: {error}")]
    Tls { error: rustls::Error },
    #[error("cannot set up TLS for `http.listen`: {error}")]
    HttpTls { error: rustls::Error },
    #[error("cannot set up TLS: {}, `{key}`, holds an invalid certificate: {error}", path.display())]
    Root { key: &'static str, path: PathBuf, error: rustls::Error },
}

impl From<rustls::Error> for SecretError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls { error }
    }
}

const METER_AUTHORITIES: &str = "identity.meter_authorities";
const GATEWAY_AUTHORITIES: &str = "identity.gateway_authorities";

/// Who the gateway is.
#[derive(Debug, Clone)]
pub struct GatewayIdentity {
    pub key: Arc<IdentityKey>,
    /// DER.
    pub certificate: Arc<[u8]>,
    pub checked: Certificate,
    pub authorities: Authorities,
}

impl GatewayIdentity {
    /// Reads and checks everything that can be wrong before a broker is asked.
    pub fn load(files: &Identity, id: &GatewayId, now: Timestamp) -> Result<Self, SecretError> {
        let meters = anchors(METER_AUTHORITIES, &files.meter_authorities)?;
        let gateways = anchors(GATEWAY_AUTHORITIES, &files.gateway_authorities)?;
        // One key in both roles harms no gateway: it is meters that refuse it.
        let authorities = Authorities::shared(meters, gateways);
        let path = &files.certificate;
        let certificate = certificates("identity.certificate", path)?.swap_remove(0);
        let refused = |error| SecretError::Certificate { key: "identity.certificate", path: path.clone(), error };
        let checked = authorities.verify_gateway(&certificate).map_err(refused)?;
        let found = checked.gateway().map_err(refused)?;
        if found != id {
            let (found, expected) = (found.clone(), id.clone());
            return Err(SecretError::OtherGateway { path: path.clone(), found, expected });
        }
        let (from, to) = (checked.not_before(), checked.not_after());
        if !(from..=to).contains(&now.as_secs()) {
            return Err(SecretError::Period { path: path.clone(), from, to });
        }
        let key = identity_key(&files.key)?;
        if key.public() != *checked.key() {
            return Err(SecretError::Mismatch { key: files.key.clone(), certificate: path.clone() });
        }
        Ok(Self { key: Arc::new(key), certificate: certificate.to_vec().into(), checked, authorities })
    }

    /// Returns why meters would refuse its lists: one key certifies meters and gateways.
    pub fn shared_authority(&self) -> Option<String> {
        self.authorities.meters().share_a_key_with(self.authorities.gateways()).then(|| {
            format!(
                "one key is in `{METER_AUTHORITIES}` and in `{GATEWAY_AUTHORITIES}`: its holder could invent meters \
                 and read a home, so meters refuse its lists unless their owners explicitly allow it; use two authorities"
            )
        })
    }
}

/// Returns everything that is wrong with the files of an identity, as far as one mistake does not hide another.
pub fn identity_mistakes(files: &Identity, id: Option<&GatewayId>, now: Timestamp) -> Vec<SecretError> {
    let of = |key: &'static str, paths: &[PathBuf]| -> Vec<SecretError> {
        paths.iter().filter_map(|path| anchors(key, std::slice::from_ref(path)).err()).collect()
    };
    let each = of(METER_AUTHORITIES, &files.meter_authorities)
        .into_iter()
        .chain(of(GATEWAY_AUTHORITIES, &files.gateway_authorities));
    let certificate = certificates("identity.certificate", &files.certificate).err();
    let alone: Vec<_> = each.chain(certificate).chain(identity_key(&files.key).err()).collect();
    if !alone.is_empty() {
        return alone;
    }
    id.and_then(|id| GatewayIdentity::load(files, id, now).err()).into_iter().collect()
}

/// Returns everything that is wrong with the files for TLS towards the broker.
pub fn tls_mistakes(files: &BrokerTls) -> Vec<SecretError> {
    let ca = certificates("broker.ca", &files.ca).err();
    let client = files.client.iter().flat_map(|(certificate, key)| {
        let certificate = certificates("broker.client_certificate", certificate).err();
        certificate.into_iter().chain(private_key("broker.client_key", key).err())
    });
    let alone: Vec<_> = ca.into_iter().chain(client).collect();
    if alone.is_empty() { broker_tls(files).err().into_iter().collect() } else { alone }
}

/// Returns an error if somebody else's certificate would be shown to the broker. One that has no name of the protocol's may be anyone's.
pub fn foreign_client(tls: &BrokerTls, identity: &GatewayIdentity, id: &GatewayId) -> Option<SecretError> {
    let (path, _) = tls.client.as_ref()?;
    let der = certificates("broker.client_certificate", path).ok()?.swap_remove(0);
    let authorities = &identity.authorities;
    let checked = authorities.verify_gateway(&der).or_else(|_| authorities.verify_meter(&der)).ok()?;
    let found = match checked.subject() {
        Subject::Gateway(gateway) if gateway == id => return None,
        Subject::Gateway(gateway) => format!("gateway `{gateway}`"),
        Subject::Meter(meter) => format!("meter `{meter}`"),
    };
    Some(SecretError::OtherClient { path: path.clone(), found, expected: id.clone() })
}

/// Reads the authorities in these files, each of which may hold several; `key` is where the files were named.
pub(crate) fn anchors(key: &'static str, files: &[PathBuf]) -> Result<Anchors, SecretError> {
    let mut all = Vec::new();
    for path in files {
        let found = certificates(key, path)?;
        Anchors::new(found.iter().map(|der| der.as_ref())).map_err(|error| SecretError::Certificate {
            key,
            path: path.clone(),
            error,
        })?;
        all.extend(found);
    }
    Ok(Anchors::new(all.iter().map(|der| der.as_ref())).expect("each was accepted by itself"))
}

/// TLS towards the broker, from the files as they are now: a renewed certificate counts from the next connection on.
pub fn broker_tls(files: &BrokerTls) -> Result<Arc<rustls::ClientConfig>, SecretError> {
    let roots = tls::roots(certificates("broker.ca", &files.ca)?).map_err(|error| SecretError::Root {
        key: "broker.ca",
        path: files.ca.clone(),
        error,
    })?;
    let client = files.client.as_ref().map(|(certificate, key)| {
        let chain = certificates("broker.client_certificate", certificate)?;
        Ok::<_, SecretError>((chain, private_key("broker.client_key", key)?))
    });
    Ok(tls::client(roots, client.transpose()?)?)
}

/// Returns everything that is wrong with the files for TLS on `http.listen`.
pub fn http_mistakes(files: &HttpTls) -> Vec<SecretError> {
    let certificate = certificates("http.tls_certificate", &files.certificate).err();
    let alone: Vec<_> = certificate.into_iter().chain(private_key("http.tls_key", &files.key).err()).collect();
    if alone.is_empty() { http_tls(files).err().into_iter().collect() } else { alone }
}

/// The certificate of `http.listen`, with those that certify it, and how to serve with it.
#[derive(Debug, Clone)]
pub struct HttpCertificate {
    pub chain: Vec<CertificateDer<'static>>,
    pub server: Arc<rustls::ServerConfig>,
}

/// TLS on `http.listen`, from the files as they are now.
pub fn http_tls(files: &HttpTls) -> Result<HttpCertificate, SecretError> {
    let chain = certificates("http.tls_certificate", &files.certificate)?;
    let key = private_key("http.tls_key", &files.key)?;
    let server = tls::server((chain.clone(), key)).map_err(|error| {
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            SecretError::Mismatch { key: files.key.clone(), certificate: files.certificate.clone() }
        } else {
            SecretError::HttpTls { error }
        }
    })?;
    Ok(HttpCertificate { chain, server })
}

/// Returns how commands on this machine reach the gateway that has the certificate in this file.
pub fn http_client(certificate: &Path) -> Result<Arc<rustls::ClientConfig>, SecretError> {
    let certificate = certificates("http.tls_certificate", certificate)?.swap_remove(0);
    tls::client_of(certificate).map_err(|error| SecretError::HttpTls { error })
}

/// Reads the password for the broker: the file's first line.
pub fn password(login: &Login) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let Some(path) = &login.password_file else { return Ok(Zeroizing::default()) };
    Ok(files::password(&read("broker.password_file", path)?))
}

/// Reads the password for the database: the file's first line.
pub fn database_password(path: &Path) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    Ok(files::password(&read("store.password_file", path)?))
}

/// Returns how to reach the database over TLS.
pub fn database_tls(ca: &Path) -> Result<Arc<rustls::ClientConfig>, SecretError> {
    let roots = tls::roots(certificates("store.ca", ca)?);
    let roots = roots.map_err(|error| SecretError::Root { key: "store.ca", path: ca.to_owned(), error })?;
    Ok(tls::client(roots, None)?)
}

/// Reads a key of the store: 64 hexadecimal digits.
pub fn store_key(path: &Path) -> Result<Zeroizing<[u8; 32]>, SecretError> {
    const KEY: &str = "store.keys";
    check_mode(KEY, path)?;
    files::digits(path).map_err(|_| SecretError::NotAStoreKey { path: path.to_owned() })
}

fn read(key: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let bytes = std::fs::read(path).map_err(|error| SecretError::Read { key, path: path.to_owned(), error })?;
    Ok(Zeroizing::new(bytes))
}

/// Reads the certificates of a file, at least one.
pub(super) fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, SecretError> {
    let text = read(key, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    let (what, label) = ("certificate", "CERTIFICATE");
    found.ok_or_else(|| SecretError::NoPem { key, path: path.to_owned(), what, label })
}

fn private_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, SecretError> {
    check_mode(key, path)?;
    let text = read(key, path)?;
    let (what, label) = ("private key", "PRIVATE KEY");
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| SecretError::NoPem { key, path: path.to_owned(), what, label })
}

fn check_mode(key: &'static str, path: &Path) -> Result<(), SecretError> {
    let mode = mode_for_everybody(path).map_err(|error| SecretError::Read { key, path: path.to_owned(), error })?;
    mode.map_or(Ok(()), |mode| Err(SecretError::Open { key, path: path.to_owned(), mode }))
}

/// Reads an Ed25519 key as PKCS#8.
fn identity_key(path: &Path) -> Result<IdentityKey, SecretError> {
    let seed = seed_of(&private_key("identity.key", path)?);
    seed.map(|seed| IdentityKey::from_seed(&seed)).ok_or_else(|| SecretError::NotEd25519 { path: path.to_owned() })
}

fn utc(seconds: u64) -> String {
    rfc3339(Timestamp::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_tls_is_told_once() {
        let error = SecretError::from(rustls::Error::General("the key is of no use".to_owned()));
        let told = format!("{:#}", anyhow::Error::from(error));
        assert_eq!(told.matches("the key is of no use").count(), 1, "{told}");
    }
}
