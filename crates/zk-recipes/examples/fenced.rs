//! A lock with fencing: a holder that is late changes nothing.
//!
//! `fenced [host:port,...]`. Without an address it starts its own ensemble.

use std::error::Error;

use zk_recipes::Mutex;
use zk_recipes::session::{Client, proto::NodeKind};
use zk_test_server::serve::Embedded;

const LOCK: &str = "/example/fenced/lock";
const PAGES: &str = "/example/fenced/pages";

/// What the lock protects. It knows nothing of ZooKeeper.
#[derive(Default)]
struct Printer {
    greatest_token: i64,
}

impl Printer {
    /// Prints, unless a later holder of the lock has printed already.
    fn print(&mut self, token: i64, page: &str) -> Result<(), String> {
        if token < self.greatest_token {
            return Err(format!("token {token} is older than {}", self.greatest_token));
        }
        self.greatest_token = token;
        println!("{page} is printed");
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ensemble = Embedded::start(3).await?;
    let servers = std::env::args().nth(1).unwrap_or_else(|| ensemble.connect_string());
    let (first, second) = (Client::connect(&servers).await?, Client::connect(&servers).await?);
    first.create_all(PAGES, b"0", NodeKind::Persistent).await?;
    let mut printer = Printer::default();

    let late = Mutex::new(&first, LOCK)?.acquire().await?;
    printer.print(late.fencing_token().0, "page 1")?;
    // A write to ZooKeeper itself needs no token: the transaction checks the lock node.
    late.transaction().set_data(PAGES, b"1", None).commit().await?;

    // The lock changes hands while its holder does not look, as when a process is stopped for
    // longer than its session timeout. Here, somebody deletes the lock node.
    second.delete(&late.node_path(), None).await?;
    let guard = Mutex::new(&second, LOCK)?.acquire().await?;
    printer.print(guard.fencing_token().0, "page 2")?;
    guard.transaction().set_data(PAGES, b"2", None).commit().await?;

    let refused = printer.print(late.fencing_token().0, "page 3").expect_err("a smaller token");
    println!("page 3 is refused: {refused}");
    let write = late.transaction().set_data(PAGES, b"3", None).commit().await;
    println!("page 3 is not counted: {}", write.expect_err("the lock node is gone"));
    println!("the first holder stops: {}", late.lost().await);

    guard.release().await?;
    let (pages, _) = second.get_data(PAGES).await?;
    println!("{} pages", String::from_utf8_lossy(&pages));
    second.delete_all("/example/fenced").await?;
    first.close().await;
    second.close().await;
    Ok(())
}
