//! Recorded logs decode. Damaged ones are an error or an end.

use zk_proto::ErrorCode;

use super::*;

/// One-server logs, which `tests/suites/real/launcher.rs` describes. The zeros are cut off, but for
/// some.
const GOLDEN: [&[u8]; 3] = [
    include_bytes!("golden/3.6.3.log"),
    include_bytes!("golden/3.8.0.log"),
    include_bytes!("golden/3.9.5.log"),
];

/// Returns the transactions of a file, with their bodies.
fn transactions(file: &[u8]) -> io::Result<Vec<(Logged, Vec<u8>)>> {
    let (mut file, mut record, mut all) = (file, Vec::new(), Vec::new());
    if !unless_it_ends(file.read_exact(&mut [0; FILE_HEADER]))? {
        return Ok(all);
    }
    while read_record(&mut file, &mut record, true)? {
        let (logged, body) = decode_header(&record).map_err(damaged)?;
        all.push((logged, body.to_owned()));
    }
    Ok(all)
}

#[test]
fn recorded_logs_decode() {
    let create = |path, is_ephemeral| Change::Create { path, data: Some(b"data"), is_ephemeral };
    let multi = [
        Change::Check { path: "/ephemeral" },
        Change::SetData { path: "/container", data: Some(b"1 2"), version: 1 },
    ];
    let refused = Change::Failed(ErrorCode::NO_NODE);
    let expected = [
        (OpCode::CREATE_SESSION, Change::OpenSession),
        (OpCode::CREATE2, create("/persistent", false)),
        (OpCode::CREATE2, create("/ephemeral", true)),
        (OpCode::CREATE2, create("/sequential-0000000002", false)),
        (OpCode::CREATE_CONTAINER, create("/container", false)),
        (OpCode::CREATE_TTL, create("/ttl", false)),
        (OpCode::SET_DATA, Change::SetData { path: "/persistent", data: Some(b""), version: 1 }),
        (OpCode::SET_ACL, Change::SetAcl { path: "/persistent" }),
        (OpCode::DELETE, Change::Delete { path: "/ttl" }),
        (OpCode::ERROR, refused.clone()),
        (OpCode::MULTI, Change::Multi(multi.into())),
        (OpCode::MULTI, Change::Multi(vec![Change::Delete { path: "/container" }, refused])),
        (OpCode::CLOSE_SESSION, Change::CloseSession { paths: vec!["/ephemeral"] }),
    ];
    for file in GOLDEN {
        let transactions = transactions(file).expect("a log");
        assert_eq!(transactions.len(), expected.len());
        for (number, ((logged, body), (operation, change))) in
            (1..).zip(transactions.iter().zip(&expected))
        {
            assert_eq!((logged.zxid, logged.operation), (Zxid(number), *operation));
            assert_eq!(logged.session, transactions[0].0.session);
            assert_eq!(&Change::decode(logged.operation, body).expect("a change"), change);
        }
    }
}

#[test]
fn a_log_that_is_cut_off_ends_before() {
    for file in GOLDEN {
        let whole = transactions(file).expect("a log");
        let counts: Vec<_> = (0..file.len())
            .map(|end| {
                let found = transactions(&file[..end]).expect("a log");
                assert_eq!(found, whole[..found.len()]);
                found.len()
            })
            .collect();
        assert!(counts.is_sorted() && counts[0] == 0 && counts.last() == Some(&whole.len()));
        // As if the file had been filled with zeros before.
        for end in FILE_HEADER..file.len() {
            let torn = [&file[..end], &[0; 4096]].concat();
            assert_eq!(transactions(&torn).expect("a log").len(), counts[end], "at {end}");
        }
    }
}

#[test]
fn a_changed_byte_is_an_error_or_the_end() {
    for file in GOLDEN {
        let whole = transactions(file).expect("a log");
        let used = file.len() - 16;
        for at in FILE_HEADER..used {
            let mut file = file.to_owned();
            file[at] ^= 0x41;
            if let Ok(found) = transactions(&file) {
                assert!(found.len() < whole.len() && found == whole[..found.len()], "at {at}");
            }
        }
    }
}

#[test]
fn no_body_makes_the_decoder_panic() {
    for file in GOLDEN {
        for (logged, body) in transactions(file).expect("a log") {
            for at in 0..body.len() {
                let cut = Change::decode(logged.operation, &body[..at]);
                // A digest may be missing, and old servers list no paths when they close a session.
                let may_end = at + 12 == body.len()
                    || (logged.operation == OpCode::CLOSE_SESSION && [0, 12].contains(&at));
                assert!(cut.is_err() || may_end, "{cut:?} at {at} of {logged:?}");
                for change in [0x01, 0x80, 0xff] {
                    let mut body = body.clone();
                    body[at] ^= change;
                    let _ = Change::decode(logged.operation, &body);
                }
            }
        }
    }
    for operation in [OpCode::MULTI, OpCode::CREATE, OpCode(99)] {
        assert!(Change::decode(operation, &[0x7f, 0xff, 0xff, 0xff]).is_err());
    }
}

#[test]
fn old_servers_close_a_session_without_paths() {
    let digest = [0, 0, 0, 2, 9, 8, 7, 6, 5, 4, 3, 2];
    let (none, empty) = (Change::CloseSession { paths: vec![] }, [&[0; 4], &digest[..]].concat());
    for body in [&[][..], &digest, &[0; 4], &empty] {
        assert_eq!(Change::decode(OpCode::CLOSE_SESSION, body).expect("a change"), none);
    }
}
