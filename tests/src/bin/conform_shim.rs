//! Our clients under the conformance suite: `conform_shim async` or `conform_shim blocking`.

use std::process::ExitCode;

use zk_testkit::conform::shim;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("async") => shim::run_async(),
        Some("blocking") => shim::run_blocking(),
        _ => {
            eprintln!("usage: conform_shim async|blocking");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
