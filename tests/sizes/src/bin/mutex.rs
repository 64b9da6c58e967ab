//! Takes a mutex.

use zk_recipes::Mutex;
use zk_recipes::session::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("an address is needed")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(&at).await?;
        let guard = Mutex::new(&client, "/lock")?.acquire().await?;
        println!("{:?}", guard.fencing_token());
        guard.release().await?;
        client.close().await;
        Ok(())
    })
}
