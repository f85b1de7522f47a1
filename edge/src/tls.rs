//! TLS: to a server, with the authorities that verify its certificate, and the client certificate; and as a server.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};

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
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    }))
}

/// Returns how to speak to the one server that has this certificate, under whatever name it is reached.
pub fn client_of(certificate: CertificateDer<'static>) -> Result<Arc<ClientConfig>, Error> {
    client_of_known(move |found| *found == certificate, None)
}

/// Returns how to speak to servers whose certificate is known by other means, under whatever name they are reached, with the
/// client's certificate if there is one.
pub fn client_of_known(
    is_known: impl Fn(&CertificateDer<'_>) -> bool + Send + Sync + 'static,
    identity: Option<Identity>,
) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let verifier = Arc::new(Pinned { is_known: Box::new(is_known), provider: provider() });
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    }))
}

/// Returns how to be a server for HTTP with this certificate and key, which must belong together.
pub fn server((chain, key): Identity) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns how to be one for clients that may have a certificate of this authority, and no other.
pub fn server_of_clients(
    (chain, key): Identity,
    authority: CertificateDer<'static>,
) -> Result<Arc<ServerConfig>, Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots([authority])?, provider());
    let verifier = verifier.allow_unauthenticated().build().map_err(|error| Error::General(error.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts certificates that are known, from a server that has the key.
struct Pinned {
    is_known: Box<dyn Fn(&CertificateDer<'_>) -> bool + Send + Sync>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        found: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if (self.is_known)(found) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
