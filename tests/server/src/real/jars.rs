//! Where ZooKeeper is, in the version that a test asks for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of the Debian package.
const PACKAGED: &str = "3.8.0";
/// The manifest of this jar names the others.
const SERVER_JAR: &str = "/usr/share/java/zookeeper.jar";
/// Sends the server's log to its standard error.
const LOG_JAR: &str = "/usr/share/java/slf4j-simple.jar";
/// What TLS needs of Netty, and the manifest of ZooKeeper's jar does not name.
const CODEC_JAR: &str = "/usr/share/java/netty-codec.jar";

/// Returns the folder with the jars of the version in `ZK_VERSIONS`, or `None` for the packaged one.
///
/// # Errors
///
/// If the folder does not exist.
///
/// # Panics
///
/// If `ZK_VERSIONS` lists several versions: a process tests one.
pub fn fetched_jars() -> Result<Option<PathBuf>, String> {
    let versions = env::var("ZK_VERSIONS").unwrap_or_else(|_| PACKAGED.into());
    assert!(!versions.contains(','), "a process tests one version: ZK_VERSIONS={versions}");
    jars_of(&versions)
}

/// Returns whether the jars of a version are here.
pub fn has_version(version: &str) -> bool {
    of_version(version).is_ok()
}

/// Returns the class path of a version, or of the one that the environment selects.
pub(super) fn find(version: Option<&str>) -> Result<String, String> {
    let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
    if !java.is_ok_and(|status| status.success()) {
        return Err("`java` does not run".into());
    }
    match (version, env::var("ZK_CLASSPATH")) {
        (Some(version), _) => of_version(version),
        (None, Ok(class_path)) => Ok(class_path),
        (None, Err(_)) => class_path(fetched_jars()?),
    }
}

/// Returns the class path of a version.
pub(super) fn of_version(version: &str) -> Result<String, String> {
    jars_of(version).and_then(class_path)
}

/// Returns the class path of the jars in a folder, or of the packaged ones.
fn class_path(jars: Option<PathBuf>) -> Result<String, String> {
    match jars {
        Some(jars) => Ok(format!("{}/*", jars.display())),
        None if Path::new(SERVER_JAR).exists() => Ok(format!("{SERVER_JAR}:{LOG_JAR}:{CODEC_JAR}")),
        None => Err(format!("{SERVER_JAR} does not exist, and ZK_CLASSPATH is not set")),
    }
}

/// Returns the folder with the jars of a version, or `None` for the packaged one.
fn jars_of(version: &str) -> Result<Option<PathBuf>, String> {
    if version == PACKAGED {
        return Ok(None);
    }
    let here = env::current_dir().map_err(|error| error.to_string())?;
    let jars = Path::new("target").join(format!("zookeeper-{version}"));
    match here.ancestors().map(|folder| folder.join(&jars)).find(|found| found.is_dir()) {
        Some(found) => Ok(Some(found)),
        None => Err(format!("{} does not exist, here or above", jars.display())),
    }
}
