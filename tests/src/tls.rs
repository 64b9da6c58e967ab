//! Certificates, a TLS acceptor before a plain server, and what both clients do over TLS.

use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_rustls::TlsAcceptor;
use zk_session::proto::{Acl, ErrorCode, NodeKind};
use zk_session::rustls::pki_types::pem::PemObject as _;
use zk_session::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zk_session::rustls::server::WebPkiClientVerifier;
use zk_session::rustls::{
    ALL_VERSIONS, HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
};
use zk_session::{AnyClient, Client, ConnectError, Outcome, TlsConfig, blocking};

use crate::suite::{HANG_TIMEOUT, SESSION_TIMEOUT};

const OPEN: &[Acl<'static>] = &[Acl::OPEN];

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key, both as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key, as PKCS#8.
    pub key: String,
}

impl core::fmt::Debug for Authority {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes an authority with this name. Two of one name have different keys.
    ///
    /// # Panics
    ///
    /// When no key can be made.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Returns its certificate, as PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for these hosts.
    pub fn issue(&self, hosts: &[&str]) -> Identity {
        self.issue_until(hosts, 2100)
    }

    /// Issues a certificate that was valid in the past.
    pub fn issue_expired(&self, hosts: &[&str]) -> Identity {
        self.issue_until(hosts, 2001)
    }

    fn issue_until(&self, hosts: &[&str], year: i32) -> Identity {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("names of hosts");
        params.distinguished_name = named("zk-testkit");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    distinguished_name
}

/// Returns the settings of a server with a certificate, which requires one of its clients if it has
/// `clients` to trust.
///
/// # Panics
///
/// When the certificate is invalid.
pub fn server_config(
    identity: &Identity,
    clients: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("versions of the provider");
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.0.der().clone()).expect("an authority");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.expect("one authority"))
        }
    };
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let chain = chain.collect::<Result<_, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
    Arc::new(config.with_single_cert(chain, key).expect("the key of the certificate"))
}

/// Accepts TLS connections, and passes on what they carry to a plain server.
///
/// It runs on the tokio runtime that it was started on, until it is dropped.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    config: Mutex<Arc<ServerConfig>>,
    accepted: AtomicUsize,
    handshakes: Mutex<Vec<HandshakeKind>>,
    /// How each connection has ended after its handshake: whether the client has said so in TLS.
    ends: watch::Sender<Vec<bool>>,
    /// Counts the times that all connections were cut.
    cuts: watch::Sender<usize>,
}

impl TlsFront {
    /// Starts to accept connections for `server`, on a free port.
    ///
    /// # Errors
    ///
    /// When no port can be listened on.
    pub async fn start(server: SocketAddr, config: Arc<ServerConfig>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Arc::new(Shared {
            server,
            config: Mutex::new(config),
            accepted: AtomicUsize::new(0),
            handshakes: Mutex::default(),
            ends: watch::Sender::default(),
            cuts: watch::Sender::new(0),
        });
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(Arc::clone(&shared), listener));
        Ok(Self { address, shared, accepting })
    }

    /// Starts one with a good certificate, for all versions of TLS.
    ///
    /// # Errors
    ///
    /// When no port can be listened on.
    pub async fn trusted(server: SocketAddr, authority: &Authority) -> io::Result<Self> {
        let identity = authority.issue(&["127.0.0.1"]);
        Self::start(server, server_config(&identity, None, ALL_VERSIONS)).await
    }

    /// Returns where it accepts connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the certificate of the connections to come.
    pub fn set_config(&self, config: Arc<ServerConfig>) {
        *lock(&self.shared.config) = config;
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Returns how many connections it has accepted, whatever became of them.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Waits until this number of connections have ended, other than by [`cut`](Self::cut). Returns for
    /// each whether the client has announced its end in TLS.
    ///
    /// # Panics
    ///
    /// If that takes too long.
    pub async fn ends(&self, count: usize) -> Vec<bool> {
        let mut ends = self.shared.ends.subscribe();
        let ended = tokio::time::timeout(HANG_TIMEOUT, ends.wait_for(|ends| ends.len() >= count));
        ended.await.expect("in time").expect("the sender lives").clone()
    }

    /// Returns how each successful handshake was made.
    pub fn handshakes(&self) -> Vec<HandshakeKind> {
        lock(&self.shared.handshakes).clone()
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        let mut cuts = shared.cuts.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                _ = pass_on(&shared, client) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

async fn pass_on(shared: &Shared, client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let acceptor = TlsAcceptor::from(Arc::clone(&lock(&shared.config)));
    let mut client = acceptor.accept(client).await?;
    lock(&shared.handshakes).extend(client.get_ref().1.handshake_kind());
    let mut server = TcpStream::connect(shared.server).await?;
    server.set_nodelay(true)?;
    let passed = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    shared.ends.send_modify(|ends| ends.push(passed.is_ok()));
    passed.map(drop)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects the blocking client, on a thread that may block.
///
/// # Errors
///
/// Those of the client.
///
/// # Panics
///
/// If the client does.
pub async fn connect_blocking(
    at: String,
    tls: TlsConfig,
) -> Result<blocking::Client, ConnectError> {
    let builder = blocking::Client::builder(&at).session_timeout(SESSION_TIMEOUT).tls(tls);
    spawn_blocking(|| builder.connect()).await.expect("it does not panic")
}

/// Has both clients fail, and returns the error of each and the time it took.
///
/// # Panics
///
/// If one connects.
pub async fn connect_failures(at: &str, tls: &TlsConfig) -> [(ConnectError, Duration); 2] {
    let start = Instant::now();
    let failed = Client::builder(at).tls(tls.clone()).connect().await.map(drop);
    let first = (failed.expect_err("it must not connect"), start.elapsed());
    let start = Instant::now();
    let failed = connect_blocking(at.to_string(), tls.clone()).await.map(drop);
    [first, (failed.expect_err("it must not connect"), start.elapsed())]
}

/// Writes and reads nodes of up to 900 kB, whose names begin with `name`.
///
/// # Panics
///
/// If a request fails, or reads what was not written.
pub async fn write_and_read<C: AnyClient>(client: &C, name: &str) {
    for length in [0, 1, 20_000, 900_000] {
        let path = format!("/{name}-{length}");
        let data: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[at as usize % 4]).collect();
        let created = client.create_with_acl(&path, b"", NodeKind::Persistent, OPEN);
        // Both are under way at once.
        let (set, got) = (client.set_data(&path, &data, None), client.get_data(&path));
        created.await.expect("it is new");
        set.await.expect("it is there");
        assert!(got.await.expect("it is there").0 == data, "{length} bytes");
    }
}

/// Writes and reads, across as many connections as it takes. Returns how many requests were lost with
/// a connection; all others must succeed.
///
/// # Panics
///
/// If a request fails for another reason.
pub async fn load<C: AnyClient>(client: &C, path: &str) -> usize {
    let mut lost = 0;
    while let Err(failed) = client.create_with_acl(path, b"", NodeKind::Ephemeral, OPEN).await {
        if failed.code() == Some(ErrorCode::NODE_EXISTS) {
            break;
        }
        assert_eq!(failed.outcome(), Outcome::Unknown, "{failed}");
        lost += 1;
    }
    for _ in 0..100 {
        let (set, got) = (client.set_data(path, &[7; 50_000], None), client.get_data(path));
        for failed in [set.await.err(), got.await.err()].into_iter().flatten() {
            assert_eq!(failed.reason.outcome(), Outcome::Unknown, "{failed}");
            lost += 1;
        }
    }
    lost
}
