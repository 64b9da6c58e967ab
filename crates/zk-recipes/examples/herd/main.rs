//! What the release of a lock costs, by the kind of lock: `cargo run --release -p zk-recipes
//! --example herd`, and perhaps how many are to wait.

mod measure;

use std::process::ExitCode;

use measure::{Kind, measure};

#[tokio::main]
async fn main() -> ExitCode {
    let Ok(waiters) = std::env::args().nth(1).map_or(Ok(100), |count| count.parse()) else {
        eprintln!("usage: herd [number of waiters]");
        return ExitCode::from(2);
    };
    println!("One release, with {waiters} waiters, until those who are left wait again:\n");
    println!("{:<12}{:>15}{:>10}{:>18}", "", "notifications", "requests", "bytes to clients");
    for kind in [Kind::Simple, Kind::Herd, Kind::Mutex] {
        match measure(kind, waiters).await {
            Ok(cost) => println!(
                "{:<12}{:>15}{:>10}{:>18}",
                kind.to_string(),
                cost.notifications,
                cost.requests,
                cost.bytes
            ),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
