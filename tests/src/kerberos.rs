//! A private Kerberos realm: a KDC of MIT Kerberos on a free port of the loopback interface.

use core::time::Duration;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use tempfile::TempDir;

use crate::ports::Port;
use crate::real::or_skip;

/// The realm of the KDC.
pub const REALM: &str = "ZK.TEST";
/// How long the KDC may take until it serves, and a ticket until it expires.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(50);
/// The programs, which Debian keeps out of the path of users.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A KDC with its database. Dropping it ends the process and removes all files.
#[derive(Debug)]
pub struct Kdc {
    directory: TempDir,
    process: Child,
    _port: Port,
}

/// Starts a KDC with these principals, each of which has a [keytab](Kdc::keytab), or prints that the
/// test is skipped.
///
/// # Panics
///
/// If `ZK_REAL=require` and Kerberos is missing, or if the KDC does not start.
pub fn kdc_or_skip(principals: &[&str]) -> Option<Kdc> {
    or_skip(|| match run(Command::new("krb5kdc").env("PATH", PATH).arg("-?")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("`krb5kdc` does not run".into())
        }
        _ => Ok(()),
    })?;
    Some(Kdc::start(principals).unwrap_or_else(|error| panic!("the KDC does not start: {error}")))
}

impl Kdc {
    fn start(principals: &[&str]) -> io::Result<Self> {
        let directory = TempDir::with_prefix("kerberos-")?;
        let at = directory.path();
        let port = Port::reserve()?;
        fs::write(at.join("krb5.conf"), client_settings(&port))?;
        fs::write(at.join("kdc.conf"), kdc_settings(at, &port))?;
        run(in_realm("kdb5_util", at).args(["create", "-s", "-r", REALM, "-P", "master"]))?;
        for principal in principals {
            let keytab = keytab(at, principal);
            let ask = |question: &str| run(in_realm("kadmin.local", at).args(["-q", question]));
            ask(&format!("addprinc -randkey {principal}"))?;
            ask(&format!("ktadd -k {} {principal}", keytab.display()))?;
            if !keytab.exists() {
                return Err(io::Error::other(format!("no keytab for {principal}")));
            }
        }
        let process = in_realm("krb5kdc", at).arg("-n").spawn()?;
        let at = port.address();
        let kdc = Self { directory, process, _port: port };
        wait_until("the KDC serves", || TcpStream::connect(at).is_ok());
        Ok(kdc)
    }

    /// Returns the `krb5.conf` of the realm.
    pub fn config(&self) -> PathBuf {
        self.directory.path().join("krb5.conf")
    }

    /// Returns the keytab of a principal.
    pub fn keytab(&self, principal: &str) -> PathBuf {
        keytab(self.directory.path(), principal)
    }

    /// Returns the file of a ticket cache, which may not exist.
    pub fn cache(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.cache"))
    }

    /// Gets a ticket with a life of this number of seconds into a cache.
    ///
    /// # Panics
    ///
    /// If the KDC refuses.
    pub fn kinit(&self, principal: &str, cache: &str, seconds: u32) {
        let mut kinit = self.command("kinit", cache);
        kinit.arg("-l").arg(format!("{seconds}s")).arg("-k").arg("-t").arg(self.keytab(principal));
        run(kinit.arg(principal)).unwrap_or_else(|error| panic!("kinit {principal}: {error}"));
    }

    /// Waits until the ticket in a cache has expired.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait_until_expired(&self, cache: &str) {
        wait_until("the ticket expires", || run(self.command("klist", cache).arg("-s")).is_err());
        // Until here it may still be the second in which it expires.
        thread::sleep(Duration::from_secs(1));
    }

    /// Returns a command in this realm, with the tickets in a cache.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, cache: &str) -> Command {
        let mut command = in_realm(program, self.directory.path());
        command.env("KRB5CCNAME", format!("FILE:{}", self.cache(cache).display()));
        command
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn keytab(directory: &Path, principal: &str) -> PathBuf {
    directory.join(format!("{}.keytab", principal.replace('/', "_")))
}

fn in_realm(program: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("PATH", PATH)
        .env("KRB5_CONFIG", directory.join("krb5.conf"))
        .env("KRB5_KDC_PROFILE", directory.join("kdc.conf"))
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let deadline = Instant::now() + HANG_TIMEOUT;
    while !is_done() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        thread::sleep(INTERVAL);
    }
}

/// Java and MIT Kerberos read the same file.
fn client_settings(port: &Port) -> String {
    let at = port.address();
    format!(
        "[libdefaults]\n\
         default_realm = {REALM}\n\
         dns_lookup_kdc = false\n\
         dns_canonicalize_hostname = false\n\
         rdns = false\n\
         qualify_shortname = \"\"\n\
         [realms]\n\
         {REALM} = {{\n\
         kdc = {at}\n\
         }}\n"
    )
}

fn kdc_settings(directory: &Path, port: &Port) -> String {
    let at = port.address();
    let directory = directory.display();
    format!(
        "[kdcdefaults]\n\
         kdc_listen = {at}\n\
         kdc_tcp_listen = {at}\n\
         [realms]\n\
         {REALM} = {{\n\
         database_name = {directory}/principal\n\
         key_stash_file = {directory}/stash\n\
         acl_file = {directory}/acl\n\
         }}\n\
         [logging]\n\
         kdc = FILE:{directory}/kdc.log\n"
    )
}
