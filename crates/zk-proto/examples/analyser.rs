//! Counts what a recorded connection did: `analyser FILE.c2s FILE.s2c`.
//!
//! The files have the bytes of each direction. `zk-explain --record` writes them, and
//! `crates/zk-proto/tests/golden` has some.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;

use zk_proto::ErrorCode;
use zk_proto::conversation::{self, End, Kind};

#[derive(Default)]
struct Count {
    requests: usize,
    replies: usize,
    errors: usize,
    bytes: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [to_server, to_client] = &arguments[..] else {
        return Err("usage: analyser FILE.c2s FILE.s2c".into());
    };
    let (sent, received) = (fs::read(to_server)?, fs::read(to_client)?);
    let transcript = conversation::transcript(&sent, &received);

    let mut operations: BTreeMap<_, Count> = BTreeMap::new();
    let mut paths = BTreeSet::new();
    let (mut events, mut malformed) = (0, 0);
    for message in &transcript.messages {
        // The bytes of a reply do not say what it answers. The conversation knows it.
        if let Some(opcode) = message.opcode() {
            let count = operations.entry(opcode).or_default();
            count.bytes += message.bytes.len();
            match message.kind {
                Kind::Reply { header, .. } => {
                    count.replies += 1;
                    count.errors += usize::from(header.err != ErrorCode::OK);
                }
                _ => count.requests += 1,
            }
        }
        events += usize::from(matches!(message.kind, Kind::Notification(_)));
        paths.extend(message.path());
        malformed += usize::from(message.explain(&mut |_| {}).is_err());
    }
    println!("{:<24}{:>9}{:>9}{:>9}{:>9}", "operation", "requests", "replies", "errors", "bytes");
    for (opcode, Count { requests, replies, errors, bytes }) in &operations {
        println!("{:<24}{requests:>9}{replies:>9}{errors:>9}{bytes:>9}", opcode.to_string());
    }
    println!("{events} watch events, {} paths, {malformed} malformed messages", paths.len());
    if (transcript.to_server, transcript.to_client) != (End::Whole, End::Whole) {
        println!("the recording ends within a message");
    }
    Ok(())
}
