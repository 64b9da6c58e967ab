//! The settings of TLS, and what its failures mean, for both clients.

mod connection;

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::io;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

pub(crate) use self::connection::TlsConnection;
use super::TlsError;
use crate::connect_string::ServerAddress;

/// The settings of encrypted connections, for [`ClientBuilder::tls`](crate::ClientBuilder::tls).
///
/// The client speaks TLS 1.2 and 1.3 without ALPN. It checks that a trusted certificate authority
/// has signed the server's certificate, and that the certificate is valid for the server's host as
/// the connection string has it. A reconnect resumes the TLS session where the server allows it.
///
/// The cryptography is that of the process's default [`CryptoProvider`]; without one, that of the
/// feature `ring`. For anything else make a [`ClientConfig`], and hand it [over](Self::from_rustls).
///
/// ```
/// use zk_session::{TlsConfig, TlsError};
///
/// /// An ensemble with a certificate authority of its own, which asks its clients for certificates.
/// fn tls(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<TlsConfig, TlsError> {
///     TlsConfig::from_ca_pem(ca)?.client_certificate(certificate, key)
/// }
/// assert!(matches!(tls(b"", b"", b""), Err(TlsError::Settings(_))));
/// ```
#[derive(Clone)]
pub struct TlsConfig {
    config: Arc<ClientConfig>,
    server_name: Option<Arc<NameOf>>,
}

type NameOf = dyn Fn(&ServerAddress) -> String + Send + Sync;

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("has_client_certificate", &self.has_client_certificate())
            .field("has_server_name", &self.server_name.is_some())
            .finish_non_exhaustive()
    }
}

impl TlsConfig {
    /// Trusts the certificate authorities in a PEM file, and no others.
    ///
    /// # Errors
    ///
    /// [`TlsError::Settings`] if there is no certificate in it, or one that is invalid.
    pub fn from_ca_pem(ca: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca, "CA certificate")? {
            roots.add(certificate).map_err(|error| invalid("CA certificate", error))?;
        }
        Self::from_roots(roots)
    }

    /// Trusts the certificate authorities that the system trusts. Reads them from its files, or
    /// those named by `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Settings`] if the system has none.
    pub fn from_system_roots() -> Result<Self, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // A system may have some that are of no use.
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            let reason = format!("the system has no CA certificates: {:?}", found.errors);
            return Err(TlsError::Settings(reason));
        }
        Self::from_roots(roots)
    }

    /// Takes the settings as they are: provider, verifier, versions, resumption, and all else.
    ///
    /// ```
    /// use zk_session::rustls::{ClientConfig, RootCertStore};
    /// use zk_session::rustls::crypto::ring;
    /// use zk_session::rustls::version::TLS13;
    /// use zk_session::TlsConfig;
    ///
    /// let config = ClientConfig::builder_with_provider(ring::default_provider().into())
    ///     .with_protocol_versions(&[&TLS13])?
    ///     .with_root_certificates(RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let tls = TlsConfig::from_rustls(config);
    /// # drop(tls);
    /// # Ok::<(), zk_session::rustls::Error>(())
    /// ```
    pub fn from_rustls(config: impl Into<Arc<ClientConfig>>) -> Self {
        Self { config: config.into(), server_name: None }
    }

    /// Sets the certificate that the client shows to servers that ask for one, as PEM: the
    /// certificate, those between it and the authority if there are any, and its private key
    /// (PKCS#8, PKCS#1 or SEC1, not encrypted).
    ///
    /// # Errors
    ///
    /// [`TlsError::Settings`] if one of them is missing or invalid, or they do not match.
    pub fn client_certificate(mut self, chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        const KEY: &str = "key of the client";
        let chain = certificates(chain, "certificate of the client")?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match is_encrypted(key) {
            true => invalid(KEY, "it is encrypted; `openssl pkey -in <file>` decrypts it"),
            false => invalid(KEY, error),
        })?;
        let config = Arc::make_mut(&mut self.config);
        let certified = CertifiedKey::from_der(chain, key, config.crypto_provider())
            .map_err(|error| invalid(KEY, error))?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Ok(self)
    }

    /// Sets which name the certificate of each server must have; by default the server's host in
    /// the connection string.
    ///
    /// ```
    /// # fn named(tls: zk_session::TlsConfig) -> zk_session::TlsConfig {
    /// // Reached by its address, known by its name.
    /// tls.server_name(|server| match server.host.as_str() {
    ///     "10.0.0.1" => "zk1.example.com".into(),
    ///     host => host.into(),
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn server_name(
        mut self,
        name: impl Fn(&ServerAddress) -> String + Send + Sync + 'static,
    ) -> Self {
        self.server_name = Some(Arc::new(name));
        self
    }

    fn from_roots(roots: RootCertStore) -> Result<Self, TlsError> {
        let config = ClientConfig::builder_with_provider(provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid("crypto provider", error))?;
        Ok(Self::from_rustls(config.with_root_certificates(roots).with_no_client_auth()))
    }

    /// Returns the name that the server's certificate must have.
    pub(crate) fn name_of(&self, server: &ServerAddress) -> io::Result<ServerName<'static>> {
        let name =
            self.server_name.as_ref().map_or_else(|| server.host.clone(), |name| name(server));
        ServerName::try_from(name.clone()).map_err(|_| {
            let reason = format!("{name:?} is not a name that a certificate can have");
            io::Error::new(io::ErrorKind::InvalidInput, TlsError::Settings(reason))
        })
    }

    /// Replaces the error of a handshake by one that says what failed.
    fn explain_handshake(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let reason = "the server closed the connection during the TLS handshake";
            return io::Error::new(io::ErrorKind::UnexpectedEof, reason);
        }
        self.explain(error)
    }

    /// Takes a connection that the server has closed as ended, also if it has not said so in TLS:
    /// the length of a frame shows whether something is missing.
    ///
    /// # Errors
    ///
    /// Other errors, as [`explain`](Self::explain) has them.
    fn explain_end(&self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(()),
            _ => Err(self.explain(error)),
        }
    }

    /// Replaces the error of a connection by one that says what failed. With TLS 1.3 a server
    /// refuses the client's certificate only after the handshake.
    fn explain(&self, error: io::Error) -> io::Error {
        let reason = error.get_ref().and_then(|reason| reason.downcast_ref());
        match reason.and_then(|reason| self.meaning(reason)) {
            Some(meaning) => io::Error::new(error.kind(), meaning),
            None => error,
        }
    }

    /// Returns what failed, if it will fail again.
    fn meaning(&self, error: &rustls::Error) -> Option<TlsError> {
        use AlertDescription as Alert;
        Some(match error {
            rustls::Error::InvalidCertificate(reason) => match reason {
                // An authority may have the name of a trusted one, but not its key.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    TlsError::UnknownCa
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => {
                    TlsError::WrongName(reason.to_string())
                }
                CertificateError::Expired => TlsError::Expired(reason.to_string()),
                CertificateError::ExpiredContext { time, not_after } => {
                    let days = time.as_secs().saturating_sub(not_after.as_secs()) / (24 * 60 * 60);
                    TlsError::Expired(format!("the server's certificate ended {days} days ago"))
                }
                _ => TlsError::InvalidCertificate(reason.to_string()),
            },
            rustls::Error::AlertReceived(alert) => match alert {
                Alert::CertificateRequired => TlsError::CertificateRequired,
                // Java sends other alerts than that one.
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied => match self.has_client_certificate() {
                    true => TlsError::CertificateRefused(error.to_string()),
                    false => TlsError::CertificateRequired,
                },
                // The client's authority has the name of one that the server trusts, but not its key.
                Alert::DecryptError if self.has_client_certificate() => {
                    TlsError::CertificateRefused(error.to_string())
                }
                Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity => {
                    TlsError::Incompatible(error.to_string())
                }
                _ => return None,
            },
            rustls::Error::PeerIncompatible(_) => TlsError::Incompatible(error.to_string()),
            _ => return None,
        })
    }

    fn has_client_certificate(&self) -> bool {
        self.config.client_auth_cert_resolver.has_certs()
    }
}

fn provider() -> Result<Arc<CryptoProvider>, TlsError> {
    let provider = CryptoProvider::get_default().cloned();
    #[cfg(feature = "ring")]
    let provider = provider.or_else(|| Some(rustls::crypto::ring::default_provider().into()));
    provider.ok_or_else(|| invalid("crypto provider", "none is installed, and `ring` is off"))
}

/// Returns whether a key is PKCS#8 with a password, or has the older header for one.
fn is_encrypted(key: &[u8]) -> bool {
    const MARK: &[u8] = b"ENCRYPTED";
    key.windows(MARK.len()).any(|text| text == MARK)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| invalid(what, error))?;
    match found.is_empty() {
        true => Err(TlsError::Settings(format!("{what}: none found"))),
        false => Ok(found),
    }
}

fn invalid(what: &str, error: impl fmt::Display) -> TlsError {
    TlsError::Settings(format!("{what}: {error}"))
}
