//! Other people's locks, each in a process of its own: Apache Curator and kazoo.
//!
//! The programs are in `tests/peers`. Curator is the Debian package `libcurator-recipes-java`, or
//! whatever `ZK_CURATOR_CLASSPATH` names; kazoo is what the Python that `ZK_PYTHON` names can
//! import, by default that of the virtual environment `target/kazoo`. `tests/setup-real.sh`
//! installs both.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use tempfile::TempDir;

use crate::real;

/// Its manifest names the other jars that it needs.
const CURATOR_JAR: &str = "/usr/share/java/curator-recipes.jar";
/// The lock that comes with ZooKeeper; on Debian, with the jar of ZooKeeper.
const WRITE_LOCK_JAR: &str = "/usr/share/java/zookeeper-recipes-lock.jar";
/// Keeps the log of the Java client quiet.
const LOG_JAR: &str = "/usr/share/java/slf4j-nop.jar";

/// An implementation of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Apache Curator, Java.
    Curator,
    /// kazoo, Python.
    Kazoo,
}

/// A program of `tests/peers`, which there is for each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Takes turns with a lock.
    Contend,
    /// Measures a lock.
    Measure,
}

impl Peer {
    /// Makes ready to run the programs of this peer.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn find(self) -> Result<Runnable, String> {
        match self {
            Self::Curator => curator(),
            Self::Kazoo => kazoo(),
        }
    }

    /// As [`find`](Self::find), but if something is missing says loudly that the test is skipped.
    ///
    /// # Panics
    ///
    /// When something is missing and `ZK_REAL=require`.
    pub fn find_or_skip(self) -> Option<Runnable> {
        real::or_skip(|| self.find())
    }
}

/// How to run the programs of a peer.
#[derive(Debug)]
pub enum Runnable {
    /// With `java`.
    Java {
        /// Where its libraries are, as `java -cp` takes it.
        class_path: String,
        /// The programs, compiled; removed with this.
        classes: TempDir,
    },
    /// With Python.
    Python {
        /// The interpreter.
        interpreter: PathBuf,
    },
}

impl Runnable {
    /// The command that runs a program; arguments and pipes are up to the caller.
    pub fn command(&self, program: Program) -> Command {
        match self {
            Self::Java { class_path, classes } => {
                let mut command = Command::new("java");
                command.args(["-Xmx512m", "-XX:+UseSerialGC", "-cp"]);
                command.arg(format!("{class_path}:{}", classes.path().display()));
                command.arg(match program {
                    Program::Contend => "Contend",
                    Program::Measure => "Measure",
                });
                command
            }
            Self::Python { interpreter } => {
                let mut command = Command::new(interpreter);
                command.arg(sources("kazoo").join(match program {
                    Program::Contend => "contend.py",
                    Program::Measure => "measure.py",
                }));
                command
            }
        }
    }
}

fn sources(peer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(peer)
}

fn curator() -> Result<Runnable, String> {
    let class_path = match env::var("ZK_CURATOR_CLASSPATH") {
        Ok(class_path) => class_path,
        Err(_) if Path::new(CURATOR_JAR).exists() => {
            format!("{CURATOR_JAR}:{WRITE_LOCK_JAR}:{LOG_JAR}")
        }
        Err(_) => return Err(format!("there is no {CURATOR_JAR}, nor a ZK_CURATOR_CLASSPATH")),
    };
    let classes = TempDir::with_prefix("peers-").map_err(|error| error.to_string())?;
    let mut compiler = Command::new("javac");
    compiler.args(["-cp", &class_path, "-d"]).arg(classes.path());
    let sources = fs::read_dir(sources("curator")).map_err(|error| error.to_string())?;
    compiler.args(sources.flatten().map(|source| source.path()));
    let output = compiler.output().map_err(|error| format!("there is no `javac`: {error}"))?;
    if !output.status.success() {
        return Err(format!("javac fails: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(Runnable::Java { class_path, classes })
}

fn kazoo() -> Result<Runnable, String> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kazoo/bin/python");
    let interpreter = env::var_os("ZK_PYTHON").map_or(installed, PathBuf::from);
    let mut import = Command::new(&interpreter);
    import.args(["-c", "import kazoo"]).stderr(Stdio::null());
    match import.status() {
        Ok(status) if status.success() => Ok(Runnable::Python { interpreter }),
        _ => Err(format!("{} has no kazoo", interpreter.display())),
    }
}
