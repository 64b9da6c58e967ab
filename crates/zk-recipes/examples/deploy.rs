//! A command that blocks, without tokio: only one deployment at a time, on whatever host.
//!
//! `deploy host:port,... VERSION`

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::{blocking::Client, proto::NodeKind};
use zk_recipes::{LockError, Options, QueueEntry};

const LOCK: &str = "/example/deploy/lock";
const VERSION: &str = "/example/deploy/version";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [servers, version] = &arguments[..] else {
        eprintln!("usage: deploy host:port,... VERSION");
        return ExitCode::from(64);
    };
    match deploy(servers, version) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("deploy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn deploy(servers: &str, version: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(servers).connect_timeout(Duration::from_secs(5)).connect()?;
    // Others see who holds the lock.
    let name = format!("process {}", std::process::id());
    let mutex = Mutex::with(&client, LOCK, Options::new().data(name))?;
    let guard = match mutex.try_acquire().wait() {
        Err(error) if error.reason == LockError::Busy => {
            let holder = mutex.contenders().wait()?.into_iter().find(QueueEntry::is_holder);
            let name = holder.and_then(|holder| holder.data).unwrap_or_default();
            return Err(format!("busy: {}", String::from_utf8_lossy(&name)).into());
        }
        guard => guard?,
    };
    // The work below must not go on without the lock.
    guard.on_lost(|loss| {
        eprintln!("deploy: {loss}");
        std::process::exit(1);
    });
    if client.exists(VERSION).wait()?.is_none() {
        client.create_all(VERSION, b"", NodeKind::Persistent).wait()?;
    }
    // This is applied only if the lock is still held.
    guard.transaction().set_data(VERSION, version.as_bytes(), None).commit().wait()?;
    println!("deployed {version}");
    guard.release().wait()?;
    client.close();
    Ok(())
}
