//! An in-memory ZooKeeper ensemble for your tests, and the test tools of this workspace.
//!
//! # For your tests
//!
//! Without default features, this crate is an ensemble that serves over TCP and has few
//! dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! zk-testkit = { path = "../zk/tests", default-features = false }
//! ```
//!
//! [`Embedded`](serve::Embedded) starts and stops it, and expires sessions. Its method
//! [`command`](serve::Embedded::command) reaches every fault of an
//! [`Ensemble`](server::Ensemble), and [`with`](serve::Embedded::with) every getter:
//!
//! ```
//! # #[cfg(feature = "tools")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_session::proto::NodeKind;
//! use zk_session::Client;
//! use zk_testkit::serve::Embedded;
//!
//! let ensemble = Embedded::start(3).await?;
//! let client = Client::connect(&ensemble.connect_string()).await?;
//! client.create("/a", b"data", NodeKind::Ephemeral).await?;
//!
//! // The tree.
//! ensemble.with(|ensemble| {
//!     assert!(ensemble.paths().any(|path| path == "/a"));
//!     assert_eq!(ensemble.node("/a").and_then(|node| node.data()), Some(&b"data"[..]));
//! });
//!
//! // A partition: the leader loses the others, which elect another.
//! let leader = ensemble.with(|ensemble| ensemble.leader()).expect("a quorum");
//! ensemble.command(|ensemble, now| ensemble.cut_off(now, leader));
//! assert_ne!(ensemble.with(|ensemble| ensemble.leader()), Some(leader));
//! ensemble.command(|ensemble, now| ensemble.reunite(now, leader));
//!
//! // A server that crashes and comes back on its port.
//! ensemble.kill(0);
//! ensemble.restart(0).await?;
//!
//! // The end of a session, which deletes its ephemeral nodes.
//! let session = ensemble.with(|ensemble| ensemble.sessions().next()).expect("a session");
//! assert!(ensemble.expire_session(session));
//! assert!(ensemble.with(|ensemble| ensemble.node("/a").is_none()));
//!
//! // Everything stops when it is dropped.
//! drop(ensemble);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tools"))]
//! # fn main() {}
//! ```
//!
//! # For this workspace
//!
//! Use the cheapest tool that can show the bug:
//!
//! | tool | tests | costs |
//! |---|---|---|
//! | [`fuzz`] | the decoder, with arbitrary bytes | microseconds |
//! | [`server`] | the replies of a server, with a virtual clock and injected failures | microseconds |
//! | [`sim`] | whole clients under random faults, from a seed | milliseconds |
//! | [`linearizable`] | a history of concurrent operations on a register or a lock | microseconds |
//! | [`serve`] | a client over TCP, against the in-memory server | milliseconds |
//! | [`real`] | a real ZooKeeper | seconds, and Java |

extern crate alloc;

#[cfg(feature = "tools")]
pub mod contention;
#[cfg(feature = "tools")]
pub mod fuzz;
#[cfg(feature = "tools")]
pub mod fuzz_machine;
#[cfg(feature = "tools")]
pub mod fuzz_server;
#[cfg(feature = "tools")]
pub mod fuzz_session;
#[cfg(feature = "tools")]
pub mod fuzz_text;
#[cfg(feature = "tools")]
pub mod guide;
#[cfg(feature = "tools")]
pub mod herd;
#[cfg(feature = "tools")]
pub mod kerberos;
#[cfg(feature = "tools")]
pub mod linearizable;
#[cfg(feature = "tools")]
pub mod oracle;
#[cfg(feature = "tools")]
pub mod paced;
#[cfg(feature = "tools")]
pub mod peers;
#[cfg(feature = "tools")]
pub mod raw;
#[cfg(feature = "tools")]
pub mod real;
#[cfg(feature = "tools")]
pub mod scenarios;
#[cfg(feature = "tools")]
pub mod scripted;
pub mod serve;
pub mod server;
#[cfg(feature = "tools")]
pub mod sim;
#[cfg(feature = "tools")]
pub mod suite;
#[cfg(feature = "tools")]
pub mod tls;
#[cfg(feature = "tools")]
pub mod turns;
#[cfg(feature = "tools")]
pub mod watchdog;
#[cfg(feature = "tools")]
pub mod watchers;
#[cfg(feature = "tools")]
pub mod wire;

/// The examples in the README of the repository compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
