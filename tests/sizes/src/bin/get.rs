//! Reads one node.

use zk_recipes::session::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("an address is needed")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(&at).await?;
        let (data, _) = client.get_data("/node").await?;
        println!("{data:?}");
        client.close().await;
        Ok(())
    })
}
