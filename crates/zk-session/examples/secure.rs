//! TLS and SASL: an encrypted session of a user with a password, and a node that is only theirs.
//!
//! `secure host:port,... CA.PEM USER PASSWORD-FILE`

use std::error::Error;
use std::fs;

use zk_session::proto::{Acl, NodeKind};
use zk_session::sasl::DigestMd5;
use zk_session::{Client, TlsConfig};

const NODE: &str = "/example-secure";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [servers, authority, user, password] = &arguments[..] else {
        return Err("usage: secure host:port,... CA.PEM USER PASSWORD-FILE".into());
    };
    let tls = TlsConfig::from_ca_pem(&fs::read(authority)?)?;
    // Everybody on a host can read the arguments of a process, so the password is in a file.
    let password = fs::read_to_string(password)?;
    let sasl = DigestMd5::new(user, password.trim_end());
    let client = Client::builder(servers).tls(tls).sasl(sasl).connect().await?;

    for identity in client.who_am_i().await? {
        println!("{}: {}", identity.auth_scheme, identity.user);
    }
    // Everything is permitted to its creator, and nothing to others.
    let acl = &[Acl::CREATOR_ALL];
    client.create_with_acl(NODE, b"a secret", NodeKind::Ephemeral, acl).await?;
    let (data, _) = client.get_data(NODE).await?;
    println!("{}", String::from_utf8_lossy(&data));
    client.close().await;
    Ok(())
}
