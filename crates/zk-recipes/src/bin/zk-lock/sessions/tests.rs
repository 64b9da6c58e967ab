//! Tests of the answers of servers.

use super::*;

#[test]
fn a_dump_lists_sessions_with_the_time_of_their_end_or_their_timeout() {
    let of_leader = "SessionTracker dump:\nSession Sets (2)/(2):\n\
                     1 expire at Mon Nov 23 06:41:49 UTC 2026:\n\t0x100000123\n\
                     1 expire at \u{1b}[2J:\n\t0xff00000000000001\n\
                     ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x77:\n\t/locks/a\n";
    let life = |until: &str| Life { until: Some(until.to_owned()), timeout: None };
    let expected = [
        (0x1_0000_0123, life("Mon Nov 23 06:41:49 UTC 2026")),
        (0xff00_0000_0000_0001_u64.cast_signed(), life("\\u{1b}[2J")),
    ];
    assert_eq!(lives(of_leader), expected.into());
    let of_follower = "SessionTracker dump:\nGlobal Sessions(1):\n0x100000123\t4000ms\n\
                       ephemeral nodes dump:\nSessions with Ephemerals (0):\n";
    let life = Life { until: None, timeout: Some(Duration::from_secs(4)) };
    assert_eq!(lives(of_follower), [(0x1_0000_0123, life)].into());
    assert_eq!(lives("0xnothing\n\n0x\n"), BTreeMap::new());
}

#[test]
fn a_line_of_cons_describes_a_session() {
    let line = " /127.0.0.1:39204[1](queued=0,recved=4,sent=4,sid=0xff00000000000001,lop=PING,\
                est=1700000000123,to=4000,lcxid=0x2,lzxid=0x5,lresp=77,llat=0,minlat=0)";
    let id = 0xff00_0000_0000_0001_u64.cast_signed();
    let connection = Connection {
        address: "127.0.0.1:39204".to_owned(),
        established: Some(1_700_000_000_123),
        timeout: Some(Duration::from_secs(4)),
        last_reply: Some(77),
        server: 2,
    };
    assert_eq!(session(line, 2), Some((id, connection)));
    for (shown, address) in [
        ("/[0:0:0:0:0:0:0:1]:39204", "[::1]:39204"),
        ("/0:0:0:0:0:0:0:1:39204", "[::1]:39204"),
        ("/[2001:db8:0:0:0:0:0:7]:1", "[2001:db8::7]:1"),
        ("/[fe80:0:0:0:0:0:0:1%eth0]:9", "[fe80:0:0:0:0:0:0:1%eth0]:9"),
        ("printer.example/10.0.0.7:80", "10.0.0.7:80"),
        ("/\u{202e}hostile", r"\u{202e}hostile"),
    ] {
        let line = format!(" {shown}[1](queued=0,recved=4,sent=4,sid=0x1f,lop=PING,est=1)");
        let (id, connection) = session(&line, 0).expect("a session");
        assert_eq!((id, &*connection.address), (0x1f, address));
    }
    assert_eq!(session(" /127.0.0.1:39204[0](queued=0,recved=1,sent=0)", 0), None);
    assert_eq!(session("cons is not executed because it is not in the whitelist.", 0), None);
}
