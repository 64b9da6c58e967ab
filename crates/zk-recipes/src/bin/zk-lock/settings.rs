//! How to reach the ensemble: options, environment variables and the configuration file.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Arg, Args, Command};
use zk_recipes::LockError;
use zk_recipes::session::recording::Recording;
use zk_recipes::session::sasl::DigestMd5;
use zk_recipes::session::{Client, TlsConfig};

use crate::{Failure, LOCKING, Usage, print_error};

/// The file read without `--config`, below the home directory.
const OWN_FILE: &str = ".config/zk-lock.conf";
/// The file read if the user has none.
const SYSTEM_FILE: &str = "/etc/zk-lock.conf";
const CONFIG: &str = "ZK_LOCK_CONFIG";
/// Secrets in the environment, which commands do not inherit.
const AUTH: &str = "ZK_LOCK_AUTH";
const SASL_PASSWORD: &str = "ZK_LOCK_SASL_PASSWORD";
pub(crate) const SECRETS: [&str; 3] = [AUTH, SASL_PASSWORD, CONFIG_TEXT];
/// In the environment of a keeper: the text of the configuration file that its supervisor has read.
/// A pipe can be read only once.
pub(crate) const CONFIG_TEXT: &str = "ZK_LOCK_CONFIG_TEXT";
/// The longest text, in bytes. Linux permits 128 KiB for a variable.
pub(crate) const LONGEST_TEXT: usize = 100_000;
/// In the mode of a file.
const EVERYONE_READS: u32 = 0o004;

#[derive(Args)]
#[command(next_help_heading = "Ensemble")]
pub(crate) struct Settings {
    /// The servers: host:port,host:port/chroot
    #[arg(
        long,
        global = true,
        env = "ZK_LOCK_CONNECT",
        default_value = "127.0.0.1:2181",
        value_name = "HOSTS"
    )]
    connect: String,
    /// Wait no longer than this for the first server
    #[arg(long, global = true, env = "ZK_LOCK_CONNECT_TIMEOUT", default_value = "15", value_name = "SECONDS", value_parser = positive_seconds)]
    connect_timeout: Duration,
    /// How long the ensemble keeps the locks of a process that has gone
    #[arg(long, global = true, env = "ZK_LOCK_SESSION_TIMEOUT", default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) session_timeout: Duration,
    /// A file with credentials, one `scheme:credential` a line, such as `digest:user:password`; or
    /// the same text in ZK_LOCK_AUTH
    #[arg(long, global = true, env = "ZK_LOCK_AUTH_FILE", value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Connect by TLS, and trust the authorities that the system trusts
    #[arg(long, global = true, env = "ZK_LOCK_TLS", value_parser = BoolishValueParser::new())]
    tls: bool,
    /// Connect by TLS, and trust only the authorities in this PEM file
    #[arg(long, global = true, env = "ZK_LOCK_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Present the certificate in this PEM file; needs --tls-key
    #[arg(long, global = true, env = "ZK_LOCK_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, a PEM file
    #[arg(long, global = true, env = "ZK_LOCK_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Authenticate by SASL as this user
    #[arg(long, global = true, env = "ZK_LOCK_SASL_USER", value_name = "USER")]
    sasl_user: Option<String>,
    /// A file with the password of that user; or the password in ZK_LOCK_SASL_PASSWORD
    #[arg(long, global = true, env = "ZK_LOCK_SASL_PASSWORD_FILE", value_name = "FILE")]
    sasl_password_file: Option<PathBuf>,
    /// Record the session, without credentials and node data, to this new file, for zk-explain
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Read options from this file, or pipe, instead of ~/.config/zk-lock.conf or /etc/zk-lock.conf
    #[arg(long, global = true, env = CONFIG, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The text of the configuration file, if there is one.
    #[arg(skip)]
    pub(crate) config_text: Option<String>,
}

impl Settings {
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        let recording = self.record.as_deref().map(|file| {
            let unusable = |error| Usage::new(format!("{}: {error}", file.display()));
            Recording::to_file(file).map_err(unusable)
        });
        self.connect_to(&self.connect, recording.transpose()?).await
    }

    /// Connects, and checks that the chroot exists: without it, every lock would seem to be free.
    pub(crate) async fn connect_to_look(&self) -> Result<Client, Failure> {
        let client = self.connect().await?;
        let chroot = client.chroot().apply("/").into_owned();
        if chroot != "/" && matches!(client.exists("/").await, Ok(None)) {
            return Err(LockError::NoChroot { chroot }.into());
        }
        Ok(client)
    }

    /// Connects to these servers.
    pub(crate) async fn connect_to(
        &self,
        servers: &str,
        recording: Option<Recording>,
    ) -> Result<Client, Failure> {
        let mut builder = Client::builder(servers)
            .session_timeout(self.session_timeout)
            .connect_timeout(self.connect_timeout)
            // Who waits for a lock, or watches one, goes on after an outage.
            .renew(true);
        if let Some(recording) = recording {
            builder = builder.record(recording);
        }
        if let Some(user) = &self.sasl_user {
            let password = secret(self.sasl_password_file.as_deref(), SASL_PASSWORD)?;
            let password = password.ok_or_else(|| {
                Usage::new("--sasl-user needs --sasl-password-file or ZK_LOCK_SASL_PASSWORD")
            })?;
            builder = builder.sasl(DigestMd5::new(user, password.trim_end_matches(['\r', '\n'])));
        }
        let credentials = secret(self.auth_file.as_deref(), AUTH)?.unwrap_or_default();
        let credentials = credentials.lines().filter(|line| !line.is_empty());
        // The text is not repeated in errors: it is secret.
        let split = |line: &'_ str| line.split_once(':').map(|(s, c)| (s.to_owned(), c.to_owned()));
        let credentials: Option<Vec<_>> = credentials.map(split).collect();
        let credentials = credentials
            .ok_or_else(|| Usage::new("each credential must have the form `scheme:credential`"))?;
        let client = match self.tls()? {
            Some(tls) => builder.tls(tls).connect().await?,
            None => builder.connect().await?,
        };
        for (scheme, credential) in credentials {
            client.add_auth(&scheme, credential.as_bytes()).await?;
        }
        Ok(client)
    }

    fn tls(&self) -> Result<Option<TlsConfig>, Failure> {
        let tls = match &self.tls_ca {
            Some(ca) => TlsConfig::from_ca_pem(&read(ca)?)?,
            None if self.tls || self.tls_cert.is_some() || self.tls_key.is_some() => {
                TlsConfig::from_system_roots()?
            }
            None => return Ok(None),
        };
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Ok(Some(tls.client_certificate(&read(certificate)?, &read_secret(key)?)?))
            }
            (None, None) => Ok(Some(tls)),
            _ => Err(Usage::new("--tls-cert and --tls-key need each other").into()),
        }
    }

    /// Reads the configuration file, once. A keeper takes the text that its supervisor has read.
    ///
    /// Returns `command` with the values of the file as defaults, and the text.
    pub(crate) fn with_file(
        &self,
        mut command: Command,
        is_keeper: bool,
    ) -> Result<(Command, Option<String>), Failure> {
        let path = self.config.clone().or_else(|| default_file(std::env::var_os("HOME")));
        let text = match (std::env::var(CONFIG_TEXT), &path) {
            (Ok(handed_over), _) if is_keeper => handed_over,
            (_, Some(path)) if !is_keeper => String::from_utf8_lossy(&read(path)?).into_owned(),
            _ => return Ok((command, None)),
        };
        let path = path.unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let known = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let set = known.and_then(|(name, value)| set_default(&mut command, name, value));
            set.ok_or_else(|| {
                let place = format!("{}, line {}", path.display(), number + 1);
                // The text is not repeated: it may be a secret.
                Usage::new(format!("{place}: expected `name = value` with a known name"))
            })?;
        }
        Ok((command, Some(text)))
    }
}

/// Sets the default of an option. The options with an environment variable can be set so.
fn set_default(command: &mut Command, name: &str, value: &str) -> Option<()> {
    let has = |command: &Command| {
        let is_named = |arg: &&Arg| {
            arg.get_long() == Some(name) && arg.get_env().is_some_and(|env| env != CONFIG)
        };
        command.get_arguments().find(is_named).map(|arg| arg.get_id().clone())
    };
    let owned = std::mem::take(command);
    let value = value.to_owned();
    let (changed, found) = if let Some(id) = has(&owned) {
        (owned.mut_arg(id, |arg| arg.default_value(value)), Some(()))
    } else {
        let ids = LOCKING.map(|name| Some((name, owned.find_subcommand(name).and_then(has)?)));
        let found = ids.iter().flatten().next().map(|_| ());
        let set = |command: Command, (name, id)| {
            let set = |command: Command| command.mut_arg(id, |arg| arg.default_value(&value));
            command.mut_subcommand(name, set)
        };
        (ids.into_iter().flatten().fold(owned, set), found)
    };
    *command = changed;
    found
}

fn default_file(home: Option<OsString>) -> Option<PathBuf> {
    // Not below the current directory, which may be another user's.
    let home = home.map(PathBuf::from).filter(|home| home.is_absolute());
    let files = [home.map(|home| home.join(OWN_FILE)), Some(SYSTEM_FILE.into())];
    files.into_iter().flatten().find(|file| file.exists())
}

/// Reads a secret from its file, or else from an environment variable. Arguments would show it to
/// everyone on this machine.
fn secret(file: Option<&Path>, variable: &str) -> Result<Option<String>, Failure> {
    match file {
        Some(file) => Ok(Some(String::from_utf8(read_secret(file)?)?)),
        None => match std::env::var(variable) {
            Ok(text) => Ok(Some(text)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(Usage::new(format!("{variable}: {error}")).into()),
        },
    }
}

/// Reads a file, and warns if every user can.
fn read_secret(file: &Path) -> Result<Vec<u8>, Failure> {
    let text = read(file)?;
    // Not of a pipe, such as `<(pass show zookeeper)`.
    let metadata = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file);
    if metadata.is_some_and(|metadata| metadata.permissions().mode() & EVERYONE_READS != 0) {
        let name = file.display();
        print_error(&format_args!("every user can read the secret in {name}: chmod o-r {name}"));
    }
    Ok(text)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Usage::new(format!("{}: {error}", file.display())).into())
}

/// Parses a time: a number of seconds, or of a unit, as 10m.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    const UNITS: [(char, f64); 4] = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86_400.0)];
    let in_unit = |(unit, seconds)| Some((text.strip_suffix(unit)?, seconds));
    let (number, unit) = UNITS.into_iter().find_map(in_unit).unwrap_or((text, 1.0));
    let number: f64 = number.parse().map_err(|_| "not a time, such as 2.5 or 10m".to_string())?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("must be greater than 0".to_string()),
        seconds => Ok(seconds),
    }
}
