//! Locks of other implementations, each in a process of its own: Apache Curator and kazoo.
//!
//! The programs are in `tests/peers`. `tests/setup-real.sh` installs what they need:
//! - Curator: the Debian package `libcurator-recipes-java`, the Curator that was fetched with the
//!   ZooKeeper in `ZK_VERSIONS`, or the class path in `ZK_CURATOR_CLASSPATH`.
//! - kazoo: a module of the Python interpreter in `ZK_PYTHON`, by default that of the virtual
//!   environment `target/kazoo`.
//! - ClickHouse, which is no lock: the module `chdb` of the Python interpreter in `ZK_CHDB_PYTHON`, by
//!   default that of the virtual environment `target/chdb`. `tests/setup-real.sh chdb` installs it.

mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use tempfile::TempDir;

pub use self::process::Process;
use crate::real;
use crate::skipped::skip;

/// The manifest of this jar names the others.
const CURATOR_JAR: &str = "/usr/share/java/curator-recipes.jar";
/// The lock recipe of ZooKeeper, which Debian ships with its jar.
const WRITE_LOCK_JAR: &str = "/usr/share/java/zookeeper-recipes-lock.jar";
/// Silences the log of the Java client.
const LOG_JAR: &str = "/usr/share/java/slf4j-nop.jar";

/// Another implementation of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Apache Curator, Java.
    Curator,
    /// kazoo, Python.
    Kazoo,
}

/// A program in `tests/peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Contends for a lock.
    Contend,
    /// Holds a lock again and again, while servers fail.
    Hold,
    /// Measures a lock.
    Measure,
    /// Uses a recipe once, step by step.
    Meet,
}

impl Peer {
    /// Prepares the programs of this peer.
    ///
    /// # Errors
    ///
    /// Returns what is missing.
    pub fn find(self) -> Result<Runnable, String> {
        match self {
            Self::Curator => curator(),
            Self::Kazoo => kazoo(),
        }
    }

    /// Calls [`find`](Self::find). If something is missing, prints that the test is skipped.
    ///
    /// # Panics
    ///
    /// If something is missing and `ZK_REAL=require`.
    pub fn find_or_skip(self) -> Option<Runnable> {
        real::or_skip(|| self.find())
    }
}

/// How to run the programs of a peer.
#[derive(Debug)]
pub enum Runnable {
    /// By `java`.
    Java {
        /// The class path of its libraries.
        class_path: String,
        /// The compiled programs; removed when dropped.
        classes: TempDir,
    },
    /// By Python.
    Python {
        /// The path of the interpreter.
        interpreter: PathBuf,
    },
}

impl Runnable {
    /// Returns the command that runs a program, without arguments and pipes.
    pub fn command(&self, program: Program) -> Command {
        match self {
            Self::Java { class_path, classes } => {
                let mut command = Command::new("java");
                command.args(["-Xmx512m", "-XX:+UseSerialGC"]);
                // It would log between the lines that the programs print.
                command.args(["-Dorg.apache.logging.log4j.level=OFF", "-cp"]);
                command.arg(format!("{class_path}:{}", classes.path().display()));
                command.arg(format!("{program:?}"));
                command
            }
            Self::Python { interpreter } => {
                let mut command = Command::new(interpreter);
                let script = format!("{program:?}.py").to_lowercase();
                command.arg(sources("kazoo").join(script));
                command
            }
        }
    }
}

fn sources(peer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(peer)
}

fn curator() -> Result<Runnable, String> {
    let class_path = match (env::var("ZK_CURATOR_CLASSPATH"), real::fetched_jars()?) {
        (Ok(class_path), _) => class_path,
        // At the end, since the recipe's manifest names the packaged jars.
        (Err(_), Some(jars)) => format!("{}/*:{WRITE_LOCK_JAR}", jars.display()),
        (Err(_), None) if Path::new(CURATOR_JAR).exists() => {
            format!("{CURATOR_JAR}:{WRITE_LOCK_JAR}:{LOG_JAR}")
        }
        (Err(_), None) => {
            return Err(format!(
                "{CURATOR_JAR} does not exist, and ZK_CURATOR_CLASSPATH is not set"
            ));
        }
    };
    let classes = TempDir::with_prefix("peers-").map_err(|error| error.to_string())?;
    let mut compiler = Command::new("javac");
    compiler.args(["-cp", &class_path, "-d"]).arg(classes.path());
    let sources = fs::read_dir(sources("curator")).map_err(|error| error.to_string())?;
    compiler.args(sources.flatten().map(|source| source.path()));
    let output = compiler.output().map_err(|error| format!("`javac` does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("javac fails: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(Runnable::Java { class_path, classes })
}

fn kazoo() -> Result<Runnable, String> {
    python("ZK_PYTHON", "kazoo").map(|interpreter| Runnable::Python { interpreter })
}

/// Returns the command that lets ClickHouse use ZooKeeper, without arguments. If it is not installed,
/// prints that the test is skipped.
///
/// # Panics
///
/// If it is not installed and `ZK_CHDB=require`.
pub fn clickhouse_or_skip() -> Option<Command> {
    match python("ZK_CHDB_PYTHON", "chdb") {
        Ok(interpreter) => {
            let mut command = Command::new(interpreter);
            command.arg(sources("clickhouse").join("replicate.py"));
            Some(command)
        }
        Err(reason) => {
            let is_required = env::var("ZK_CHDB").is_ok_and(|wish| wish == "require");
            assert!(!is_required, "ZK_CHDB=require, but {reason}; run `tests/setup-real.sh chdb`");
            skip(reason);
            None
        }
    }
}

/// Returns the path of a Python interpreter that has a module.
fn python(variable: &str, module: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../target").join(module).join("bin/python");
    let interpreter = env::var_os(variable).map_or(installed, PathBuf::from);
    let mut import = Command::new(&interpreter);
    import.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
    match import.status() {
        Ok(status) if status.success() => Ok(interpreter),
        _ => Err(format!("{} cannot import {module}", interpreter.display())),
    }
}
