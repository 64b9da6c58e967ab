//! Takes a mutex.

use zk_recipes::Mutex;
use zk_recipes::session::blocking::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("an address is needed")?;
    let client = Client::connect(&at)?;
    let guard = Mutex::new(&client, "/lock")?.acquire().wait()?;
    println!("{:?}", guard.fencing_token());
    guard.release().wait()?;
    client.close();
    Ok(())
}
