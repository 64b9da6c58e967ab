//! Reads one node.

use zk_recipes::session::blocking::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("an address is needed")?;
    let client = Client::connect(&at)?;
    let (data, _) = client.get_data("/node").wait()?;
    println!("{data:?}");
    client.close();
    Ok(())
}
