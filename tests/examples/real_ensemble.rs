//! Starts a real ZooKeeper ensemble on free ports for manual tests:
//! `cargo run -p zk-testkit --example real_ensemble -- [servers] [kill-leader-after-ms]`
//!
//! The first line of output is the connect string. The second argument sets a delay after the first
//! lock node; then the leader is killed with SIGKILL. The end of standard input stops the ensemble.

use std::io::{self, Read, Write};
use std::thread;
use std::time::Duration;

use zk_testkit::real::RealEnsemble;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().and_then(|argument| argument.parse::<u64>().ok());
    let servers = usize::try_from(number().unwrap_or(3)).unwrap_or(3);
    let mut ensemble = RealEnsemble::start(servers)?;
    println!("{}", ensemble.connect_string());
    io::stdout().flush()?;
    if let Some(delay) = number() {
        let locks = |ensemble: &RealEnsemble| {
            let dump = ensemble.four_letter(0, "dump").unwrap_or_default();
            dump.contains("-lock-")
        };
        while !locks(&ensemble) {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(delay));
        if let Some(leader) = ensemble.leader() {
            ensemble.kill(leader)?;
            eprintln!("killed the leader, {}", ensemble.address(leader));
        }
    }
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
