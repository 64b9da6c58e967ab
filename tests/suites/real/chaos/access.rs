//! How the sessions reach the ensemble.

use std::env;
use std::path::Path;

use zk_session::sasl::DigestMd5;
use zk_session::{Client, ClientBuilder, TlsConfig};
use zk_testkit::proxy::Proxy;
use zk_testkit::real::{self, RealEnsemble, Settings};
use zk_testkit::tls::Authority;

use super::contender::Contender;
use crate::{sasl, tls};

#[derive(Clone)]
pub(super) struct Access {
    pub(super) at: String,
    /// With TLS, also SASL.
    pub(super) tls: Option<TlsConfig>,
}

/// Starts the servers, with TLS and SASL if `ZK_CHAOS_SECURE` is set, isolated if
/// `ZK_CHAOS_ISOLATED` is, and with the lines of `ZK_CHAOS_CONFIG` in their configuration. Or prints
/// that the test is skipped.
pub(super) fn start(servers: usize, directory: &Path) -> Option<(RealEnsemble, Access)> {
    let (mut settings, tls) = match env::var_os("ZK_CHAOS_SECURE") {
        None => (Settings::default(), None),
        Some(_) => {
            let authority = Authority::new("chaos");
            let extra = format!("{}{}", tls::NETTY, tls::lines_for_both(directory, &authority));
            let settings = Settings { extra, ..sasl::settings(directory) };
            (settings, Some(tls::trusting(&authority)))
        }
    };
    for line in env::var("ZK_CHAOS_CONFIG").iter().flat_map(|lines| lines.split(',')) {
        settings.extra.push_str(line);
        settings.extra.push('\n');
    }
    let versions = versions();
    for version in &versions {
        assert!(
            real::has_version(version),
            "no ZooKeeper {version}: tests/setup-real.sh fetches it"
        );
    }
    let version = versions.first().cloned();
    let is_isolated = is_isolated();
    let ensemble =
        real::ensemble_with_or_skip(Settings { servers, version, is_isolated, ..settings })?;
    let access = Access { at: ensemble.connect_string(), tls };
    Some((ensemble, access))
}

/// Returns the versions in `ZK_CHAOS_VERSIONS`, in the order of upgrades.
pub(super) fn versions() -> Vec<String> {
    let versions = env::var("ZK_CHAOS_VERSIONS").unwrap_or_default();
    versions.split(',').filter(|version| !version.is_empty()).map(String::from).collect()
}

pub(super) fn is_isolated() -> bool {
    env::var_os("ZK_CHAOS_ISOLATED").is_some()
}

impl Access {
    pub(super) async fn connect(&self) -> Client {
        self.builder().connect().await.expect("a server answers")
    }

    /// Returns the access to one server.
    pub(super) fn at(&self, server: &str) -> Self {
        Self { at: server.to_owned(), tls: self.tls.clone() }
    }

    /// Starts a proxy. Returns the access through it, which is this one with TLS.
    pub(super) fn through_a_proxy(&self) -> (Self, Option<Proxy>) {
        match &self.tls {
            Some(_) => (self.clone(), None),
            None => {
                let proxy = Proxy::start(&self.at).expect("a free port for each server");
                (self.at(&proxy.connect_string()), Some(proxy))
            }
        }
    }

    pub(super) fn builder(&self) -> ClientBuilder<Client> {
        <Client as Contender>::builder(self)
    }

    /// With TLS.
    pub(super) fn credentials(&self) -> DigestMd5 {
        DigestMd5::new("alice", "secret")
    }
}
