//! Failures of TLS for which no retry helps.

use alloc::string::String;
use core::fmt;

zk_proto::named! {
    /// A failure of TLS that repeats with each attempt, until settings or certificates change.
    ///
    /// A client that meets one tries the next server. If every server fails like this before the
    /// session has begun, `connect` fails at once with
    /// [`ConnectError::Tls`](crate::ConnectError::Tls).
    ///
    /// A `Connect` of your own has the same effect if it fails with an
    /// [`io::Error`](std::io::Error) that wraps one:
    ///
    /// ```
    /// use std::io;
    /// use zk_session::TlsError;
    ///
    /// fn untrusted() -> io::Error {
    ///     io::Error::new(io::ErrorKind::InvalidData, TlsError::UnknownCa)
    /// }
    /// assert!(untrusted().to_string().starts_with("unknown CA"));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TlsError {
        /// No trusted certificate authority has signed the server's certificate.
        UnknownCa,
        /// The server's certificate is valid for other names only.
        WrongName(String),
        /// The server's certificate has expired.
        Expired(String),
        /// The server's certificate is invalid for another reason, such as a date in the future.
        InvalidCertificate(String),
        /// The server requires a client certificate, and the client has none.
        CertificateRequired,
        /// The server has refused the client's certificate. Servers say little about the reason.
        CertificateRefused(String),
        /// Client and server have no version or cipher in common.
        Incompatible(String),
        /// The settings are invalid: a certificate, a key, or the name of a server.
        Settings(String),
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCa => {
                f.write_str("unknown CA: no trusted authority has signed the server's certificate")
            }
            Self::WrongName(reason) => write!(f, "wrong name: {reason}"),
            Self::Expired(reason) => write!(f, "expired: {reason}"),
            Self::InvalidCertificate(reason) => {
                write!(f, "the server's certificate is invalid: {reason}")
            }
            Self::CertificateRequired => {
                f.write_str("certificate required: the server accepts only clients that have one")
            }
            Self::CertificateRefused(reason) => {
                write!(f, "the server has refused the client's certificate: {reason}")
            }
            Self::Incompatible(reason) => {
                write!(f, "no TLS version or cipher in common with the server: {reason}")
            }
            Self::Settings(reason) => write!(f, "the TLS settings are invalid: {reason}"),
        }
    }
}

impl core::error::Error for TlsError {}
