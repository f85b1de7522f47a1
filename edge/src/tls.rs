//! TLS to a server: the authorities that verify its certificate, and the client certificate.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, Error, RootCertStore};

/// A client's certificate with those that certify it, and its key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the authorities that verify a server's certificate.
pub fn roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

/// Returns how to speak to servers that these authorities certify, with the client's certificate if there is one.
pub fn client(roots: Arc<RootCertStore>, identity: Option<Identity>) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    }))
}
