//! GSSAPI with Kerberos 5 (RFC 4752), as ZooKeeper's servers speak it.
//!
//! The servers take it from the JDK. They confirm the last token of the client by one of their own,
//! which is null or empty.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext as _};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{
    GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_KRB5_PRINCIPAL, GSS_NT_USER_NAME, OidSet,
};

use super::{BegunExchange, Exchange, Mechanism, SaslError};
use crate::connect_string::ServerAddress;

/// The bit of the layer that neither signs nor encrypts (RFC 4752, section 3.3).
const NO_LAYER: u8 = 1;
/// How the library introduces the reason, which follows in parentheses.
const UNSPECIFIED: &str = "Unspecified GSS failure.  Minor code may provide more information (";

/// GSSAPI: a Kerberos ticket, by the system's library.
///
/// Client and server prove their identities to each other. What follows is neither signed nor
/// encrypted, because ZooKeeper's servers support no such layer: use TLS beside it. The servers store
/// the identity as `Id { scheme: "sasl", id }`, where `id` is the client's principal, such as
/// `alice@EXAMPLE.COM`. Their properties `kerberos.removeRealmFromPrincipal` and
/// `kerberos.removeHostFromPrincipal` shorten it.
///
/// The tickets are those of the process: in the cache that `KRB5CCNAME` or `/etc/krb5.conf` names,
/// where `kinit` puts them. With a keytab in `KRB5_CLIENT_KTNAME`, the library gets the tickets and
/// renews them. Each connection takes the ticket of that moment. A ticket that expires does not end a
/// connection.
///
/// The server's principal is `zookeeper/<host>`, with the host as the connection string has it. The
/// library may replace the host by the name that DNS has for it: see `dns_canonicalize_hostname` and
/// `rdns` in `krb5.conf`.
///
/// ```no_run
/// # fn example() -> Result<(), zk_session::ConnectError> {
/// use zk_session::blocking::Client;
/// use zk_session::sasl::Gssapi;
///
/// let client = Client::builder("zk1.example.com,zk2.example.com").sasl(Gssapi::new()).connect()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Gssapi {
    client: Option<String>,
    server: Option<Arc<PrincipalOf>>,
}

type PrincipalOf = dyn Fn(&ServerAddress) -> String + Send + Sync;

impl Gssapi {
    /// Makes the mechanism for the default ticket of the process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the principal whose ticket to use, such as `app/host1@EXAMPLE.COM`, for a cache or a
    /// keytab with several.
    #[must_use]
    pub fn client_principal(mut self, principal: &str) -> Self {
        self.client = Some(principal.to_string());
        self
    }

    /// Sets the principal of each server, with or without a realm. The library then takes the host as
    /// it is.
    ///
    /// ```
    /// use zk_session::sasl::Gssapi;
    ///
    /// let mechanism = Gssapi::new()
    ///     .server_principal(|server| format!("zk/{}@SERVERS.EXAMPLE.COM", server.host));
    /// # drop(mechanism);
    /// ```
    #[must_use]
    pub fn server_principal(
        mut self,
        principal: impl Fn(&ServerAddress) -> String + Send + Sync + 'static,
    ) -> Self {
        self.server = Some(Arc::new(principal));
        self
    }

    fn credentials(&self) -> Result<Cred, Error> {
        let name = |principal: &String| Name::new(principal.as_bytes(), Some(GSS_NT_USER_NAME));
        let client = self.client.as_ref().map(name).transpose()?;
        let mechanism = OidSet::singleton(GSS_MECH_KRB5)?;
        Cred::acquire(client.as_ref(), None, CredUsage::Initiate, Some(&mechanism))
    }

    fn begin_with(
        &self,
        credentials: Cred,
        server: &ServerAddress,
    ) -> Result<BegunExchange, SaslError> {
        let (principal, kind) = match &self.server {
            Some(principal) => (principal(server), GSS_NT_KRB5_PRINCIPAL),
            None => (format!("zookeeper@{}", server.host), GSS_NT_HOSTBASED_SERVICE),
        };
        let begin = || {
            let name = Name::new(principal.as_bytes(), Some(kind))?;
            let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
            let mut context = ClientCtx::new(Some(credentials), name, flags, Some(GSS_MECH_KRB5));
            let token = context.step(None, None)?;
            Ok((context, token.map(|token| token.to_vec()).unwrap_or_default()))
        };
        let (context, token) =
            begin().map_err(|error| failed(&format!("no ticket for {principal}"), error))?;
        Ok((Box::new(GssState::Establishing(context)), token))
    }
}

impl fmt::Debug for Gssapi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gssapi")
            .field("client", &self.client)
            .field("has_server_principal", &self.server.is_some())
            .finish()
    }
}

impl Mechanism for Gssapi {
    fn name(&self) -> &'static str {
        "GSSAPI"
    }

    /// Gets the ticket for the server, for which it may ask the KDC.
    fn begin(&self, server: &ServerAddress) -> Result<BegunExchange, SaslError> {
        let credentials =
            self.credentials().map_err(|error| failed("no ticket to begin with", error))?;
        self.begin_with(credentials, server)
    }
}

enum GssState {
    /// The context is not complete.
    Establishing(ClientCtx),
    /// The server has to offer its security layers.
    Established(ClientCtx),
    /// The server has to confirm the choice.
    Chosen,
    Over,
}

impl fmt::Debug for GssState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Establishing(_) => "Establishing",
            Self::Established(_) => "Established",
            Self::Chosen => "Chosen",
            Self::Over => "Over",
        })
    }
}

impl Exchange for GssState {
    fn respond(&mut self, challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, SaslError> {
        let refused = |error| failed("the server's token is refused", error);
        match core::mem::replace(self, Self::Over) {
            Self::Establishing(mut context) => {
                let challenge = challenge.ok_or(SaslError::Unsupported)?;
                let token = context.step(Some(challenge), None).map_err(refused)?;
                *self = match context.is_complete() {
                    true => Self::Established(context),
                    false => Self::Establishing(context),
                };
                Ok(Some(token.map(|token| token.to_vec()).unwrap_or_default()))
            }
            Self::Established(mut context) => {
                let offer = context.unwrap(challenge.unwrap_or_default()).map_err(refused)?;
                match *offer {
                    [layers, _, _, _] if layers & NO_LAYER != 0 => {}
                    [_, _, _, _] => {
                        return Err(SaslError::Challenge("it demands encryption by SASL"));
                    }
                    _ => return Err(SaslError::Challenge("it is no list of security layers")),
                }
                // No name follows, so the identity is that of the ticket.
                let choice = context.wrap(false, &[NO_LAYER, 0, 0, 0]).map_err(refused)?;
                *self = Self::Chosen;
                Ok(Some(choice.to_vec()))
            }
            Self::Chosen if challenge.unwrap_or_default().is_empty() => Ok(None),
            Self::Chosen | Self::Over => Err(SaslError::Challenge("the exchange is over")),
        }
    }
}

fn failed(what: &str, error: Error) -> SaslError {
    let text = error.to_string();
    let reason = text.strip_prefix(UNSPECIFIED).and_then(|reason| reason.strip_suffix(')'));
    let reason = reason.unwrap_or(&text);
    SaslError::Mechanism(format!("{what}: {reason}"))
}
