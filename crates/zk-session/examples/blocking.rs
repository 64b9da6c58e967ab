//! The blocking client: workers register themselves, and the main thread counts them.
//!
//! `blocking [host:port,...]`. Without an address it starts its own ensemble, which needs a runtime
//! on threads of its own.

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use zk_session::ClientBuilder;
use zk_session::blocking::Client;
use zk_session::proto::NodeKind;
use zk_test_server::serve::Embedded;

const WORKERS: &str = "/example/blocking/workers";

fn main() -> ExitCode {
    match run(std::env::args().nth(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) fn run(address: Option<String>) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let embedded = match address {
        Some(_) => None,
        None => Some(runtime.block_on(Embedded::start(3))?),
    };
    let at = address.or_else(|| embedded.as_ref().map(Embedded::connect_string));
    let builder: ClientBuilder<Client> =
        Client::builder(&at.unwrap_or_default()).connect_timeout(Duration::from_secs(3));

    let client = builder.clone().connect()?;
    client.ensure_path(WORKERS).wait()?;
    let workers: Vec<_> = (1..=3)
        .map(|number| {
            let builder = builder.clone();
            thread::spawn(move || work(number, builder).map_err(|error| error.to_string()))
        })
        .collect();

    // The loop sees the latest state, but not each one in between.
    let mut had_workers = false;
    loop {
        let (names, _, mut changed) = client.get_children_and_watch(WORKERS).wait()?;
        println!("{} workers: {names:?}", names.len());
        if had_workers && names.is_empty() {
            break;
        }
        had_workers |= !names.is_empty();
        if changed.wait_timeout(Duration::from_secs(10))?.is_none() {
            return Err("no change for 10 seconds".into());
        }
    }
    for worker in workers {
        worker.join().map_err(|_| "a worker has panicked")??;
    }
    client.delete_all("/example/blocking").wait()?;
    client.close();
    Ok(())
}

/// Registers a worker, whose node lives as long as its session.
fn work(number: u64, builder: ClientBuilder<Client>) -> Result<(), Box<dyn Error>> {
    let client = builder.connect()?;
    client.create(&format!("{WORKERS}/{number}"), b"", NodeKind::Ephemeral).wait()?;
    thread::sleep(Duration::from_millis(100 * number));
    client.close();
    Ok(())
}
