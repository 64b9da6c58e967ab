//! Serves an ensemble in memory, to try programs with: `zk-test-server [SERVERS]`.

use std::convert::Infallible;
use std::env;
use std::future::pending;
use std::io::{self, Write as _};
use std::num::NonZeroU8;
use std::process::ExitCode;

use zk_test_server::serve::Embedded;
use zk_test_server::server::Config;

/// The port that examples name.
const FIRST_PORT: u16 = 2181;

const USAGE: &str = "\
usage: zk-test-server [SERVERS]

Serves an ensemble of 1 to 255 servers in memory, by default 3. They listen on 127.0.0.1, at port
2181 and the next ones, or at free ports if one of those is in use. Prints their addresses, and
serves until it is interrupted.
";

fn main() -> ExitCode {
    // That nobody reads what is printed is no error.
    if env::args_os().nth(1).is_some_and(|first| first == "-h" || first == "--help") {
        let _ = io::stdout().write_all(USAGE.as_bytes());
        return ExitCode::SUCCESS;
    }
    let Some(servers) = servers() else {
        let _ = io::stderr().write_all(USAGE.as_bytes());
        return ExitCode::from(2);
    };
    let Err(error) = serve(servers.get().into());
    eprintln!("zk-test-server: {error}");
    ExitCode::FAILURE
}

/// Reads the number of servers from the arguments. `None` if they are something else.
fn servers() -> Option<NonZeroU8> {
    let mut arguments = env::args_os().skip(1);
    let servers = match arguments.next() {
        Some(servers) => servers.to_str()?.parse().ok()?,
        None => NonZeroU8::new(3)?,
    };
    arguments.next().is_none().then_some(servers)
}

/// Serves until the process ends. Servers in memory need no shutdown.
fn serve(servers: usize) -> io::Result<Infallible> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let ensemble = match Embedded::at(FIRST_PORT, Config::servers(servers)).await {
            Ok(ensemble) => ensemble,
            Err(_) => Embedded::start(servers).await?,
        };
        writeln!(io::stdout(), "{}", ensemble.connect_string())?;
        pending().await
    })
}
