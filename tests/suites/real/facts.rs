//! Facts of `docs/servers.md` that the in-memory server does not share, so that no comparison with
//! it shows them.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use zk_proto::{
    Acl, AuthPacket, ConnectRequest, ConnectResponse, CreateMode, CreateRequest, Decode, ErrorCode,
    EventType, ExistsRequest, ExistsResponse, List, OpCode, Password, Reader, ReplyHeader,
    RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};
use zk_session::Client;
use zk_session::proto::NodeKind;
use zk_testkit::peers::{Peer, Runnable};
use zk_testkit::real::{self, Settings, ensemble_or_skip};
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Version};
use zk_testkit::suite::HANG_TIMEOUT;

use crate::line::Line;

const NULL: &[u8] = &[0xff; 4];
const ZERO: &[u8] = &[0; 4];
/// The path `/`.
const ROOT: &[u8] = &[0, 0, 0, 1, b'/'];

#[test]
fn pings_are_answered_in_order_and_the_first_nodes_have_odd_counters() {
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let mut line = Line::new(&ensemble).expect("connected");
    for number in 1..=200 {
        let xid = if number % 10 == 0 { Xid::PING } else { Xid(number) };
        let opcode = if xid == Xid::PING { OpCode::PING } else { OpCode::SYNC };
        let header = RequestHeader { xid, opcode };
        match opcode {
            OpCode::PING => line.write(&header),
            _ => line.write(&(header, "/")),
        }
        .expect("the peer reads");
    }
    for number in 1..=200 {
        let payload = line.read().expect("an answer");
        let header = ReplyHeader::decode(&mut Reader::new(&payload)).expect("a header");
        assert_eq!(header.xid, if number % 10 == 0 { Xid::PING } else { Xid(number) });
    }
    for (path, counters) in
        [("/", (-1, 0)), ("/zookeeper", (-2, 0)), ("/zookeeper/config", (0, -1))]
    {
        let header = RequestHeader { xid: Xid(1), opcode: OpCode::EXISTS };
        line.write(&(header, ExistsRequest { path, watch: false })).expect("the peer reads");
        let payload = line.read().expect("an answer");
        let answer = <(ReplyHeader, ExistsResponse)>::decode_all(&payload);
        let (_, ExistsResponse { stat }) = answer.expect("the node exists");
        assert_eq!((stat.cversion, stat.aversion), counters, "{path}");
    }
}

#[test]
fn odd_records_are_accepted() {
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let mut line = Line::new(&ensemble).expect("connected");
    let (ok, refused) = (ErrorCode::OK, ErrorCode::MARSHALLING_ERROR);

    // Bytes behind a record.
    assert_eq!(line.ask_raw(OpCode::EXISTS, &[ROOT, &[0], b"more"]).0, ok);

    // Vectors: -1 is null, which these cannot be, and what is below is empty.
    for (count, expected) in [(-1_i32, refused), (-2, ok), (i32::MIN, ok)] {
        let body = [&[0; 8][..], &count.to_be_bytes(), ZERO, ZERO];
        assert_eq!(line.ask_raw(OpCode::SET_WATCHES, &body).0, expected, "{count}");
    }

    // Null paths.
    assert_eq!(line.ask_raw(OpCode::SYNC, &[NULL]), (ok, NULL.to_vec()));
    assert_eq!(line.ask_raw(OpCode::ADD_WATCH, &[NULL, ZERO]).0, ok);
    for opcode in [OpCode::EXISTS, OpCode::GET_DATA, OpCode::GET_CHILDREN] {
        assert_eq!(line.ask_raw(opcode, &[NULL, &[0]]).0, refused, "{opcode}");
    }

    // Text: a character above U+FFFF becomes two surrogates, and a stray byte U+FFFD.
    for (sent, received) in
        [(&b"\xf0\x9f\x98\x80"[..], &b"\xed\xa0\xbd\xed\xb8\x80"[..]), (b"\xff", b"\xef\xbf\xbd")]
    {
        let length = |text: &[u8]| u32::try_from(text.len()).expect("short").to_be_bytes();
        let expected = [&length(received)[..], received].concat();
        assert_eq!(line.ask_raw(OpCode::SYNC, &[&length(sent), sent]), (ok, expected));
    }

    // Everyone may read the members, and nobody may change them.
    let config = [&[0, 0, 0, 17][..], b"/zookeeper/config"].concat();
    assert_eq!(line.ask_raw(OpCode::GET_DATA, &[&config, &[0]]).0, ok);
    let write = line.ask_raw(OpCode::SET_DATA, &[&config, ZERO, NULL]).0;
    assert_eq!(write, ErrorCode::NO_AUTH);

    // The creation of a session.
    line.write_raw(OpCode::CREATE_SESSION, &[&5_000_u32.to_be_bytes()]).expect("the peer reads");
    let answer = line.read().expect("a frame");
    let answer = ConnectResponse::decode_all(&answer).expect("the answer to a handshake");
    assert!(!answer.is_expired(), "{answer:?}");
}

#[test]
fn a_read_only_server_without_local_sessions_sends_a_bare_reply_header_and_no_more() {
    let properties = vec!["readonlymode.enabled=true".into()];
    let settings = Settings { servers: 3, properties, ..Settings::default() };
    let Some(mut ensemble) = real::ensemble_with_or_skip(settings) else { return };
    let version = ensemble.version();
    for server in [1, 2] {
        ensemble.kill(server).expect("a process");
    }
    let until = Instant::now() + HANG_TIMEOUT;
    while !ensemble.four_letter(0, "isro").is_ok_and(|answer| answer == "ro") {
        assert!(Instant::now() < until, "it does not become read-only");
        thread::sleep(Duration::from_millis(50));
    }
    let mut stream = TcpStream::connect(ensemble.address(0)).expect("it listens");
    stream.set_read_timeout(Some(HANG_TIMEOUT)).expect("a socket");
    let handshake = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout: 1,
        session_id: SessionId::NONE,
        password: Some(&Password::NONE.0),
        read_only: Some(true),
    };
    let mut bytes = Vec::new();
    frame::encode(&handshake, &mut bytes).expect("short");
    let ping = RequestHeader { xid: Xid::PING, opcode: OpCode::PING };
    frame::encode(&ping, &mut bytes).expect("short");
    let read = RequestHeader { xid: Xid(1), opcode: OpCode::EXISTS };
    frame::encode(&(read, ExistsRequest { path: "/", watch: false }), &mut bytes).expect("short");
    stream.write_all(&bytes).expect("it reads");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    if version < Version::V3_8 {
        let answer = ConnectResponse::decode_all(&answer).expect("a session");
        assert!(!answer.is_expired(), "{answer:?}");
    } else {
        let header = ReplyHeader::decode_all(&answer).expect("a bare header");
        assert_eq!((header.xid, header.err), (Xid(0), ErrorCode::NOT_READ_ONLY));
        // There is no session. So the requests are dropped, and the connection is closed later.
        let closed = stream.read_exact(&mut length).map_err(|error| error.kind());
        assert_eq!(closed, Err(ErrorKind::UnexpectedEof));
    }
}

/// Its own watch may fire for its own node before the server closes the connection.
#[test]
fn a_session_that_expires_gets_the_event_of_its_own_node_or_none() {
    const SESSIONS: usize = 40;
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let timeout = Duration::from_secs(1);
    let mut lines = Vec::new();
    for number in 0..SESSIONS {
        let mut line = Line::with_timeouts(&ensemble, timeout, HANG_TIMEOUT).expect("connected");
        let path = format!("/{number}");
        let acl = List::new(&[Acl::OPEN]);
        let mode = CreateMode::EPHEMERAL;
        let create = CreateRequest { path: &path, data: None, acl, mode };
        let header = RequestHeader { xid: Xid(1), opcode: OpCode::CREATE };
        line.write(&(header, create)).expect("the peer reads");
        let exists = ExistsRequest { path: &path, watch: true };
        let header = RequestHeader { xid: Xid(2), opcode: OpCode::EXISTS };
        line.write(&(header, exists)).expect("the peer reads");
        for _ in 0..2 {
            assert_eq!(line.reply().expect("a reply").0.err, ErrorCode::OK);
        }
        lines.push((path, line));
    }
    let mut events = 0;
    for (path, mut line) in lines {
        let end = match line.read() {
            Ok(payload) => {
                let event = <(ReplyHeader, WatcherEvent<'_>)>::decode_all(&payload);
                let (_, event) = event.expect("an event");
                assert_eq!((event.event_type, event.path), (EventType::NODE_DELETED, &*path));
                events += 1;
                line.read()
            }
            end => end,
        };
        let end = end.expect_err("the connection ends").kind();
        assert!(matches!(end, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{end}");
    }
    println!("{events} of {SESSIONS} sessions got an event");
}

#[test]
fn a_watch_on_a_null_path_keeps_the_socket_of_3_8_open() {
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    if ensemble.version() != Version::V3_8 {
        return;
    }
    let mut odd = Line::new(&ensemble).expect("connected");
    assert_eq!(odd.ask_raw(OpCode::ADD_WATCH, &[NULL, ZERO]).0, ErrorCode::OK);
    odd.end().expect("a socket");
    let mut plain = Line::with_timeouts(&ensemble, HANG_TIMEOUT, HANG_TIMEOUT).expect("connected");
    assert_eq!(plain.ask_raw(OpCode::ADD_WATCH, &[ROOT, ZERO]).0, ErrorCode::OK);
    plain.end().expect("a socket");
    assert_eq!(plain.read().expect_err("the end").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(odd.read().expect_err("no frame").kind(), ErrorKind::WouldBlock);
}

/// The bytes of kazoo 2.11.0, which a server accepts.
#[test]
fn kazoo_sends_null_ids() {
    let Some(kazoo) = Peer::Kazoo.find_or_skip() else { return };
    let Runnable::Python { interpreter } = kazoo else { panic!("{kazoo:?} is not Python") };
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let script = "import sys\n\
        from kazoo.protocol.serialization import Create\n\
        from kazoo.security import CREATOR_ALL_ACL\n\
        sys.stdout.buffer.write(Create('/a', b'', CREATOR_ALL_ACL, 0).serialize())";
    let output = Command::new(interpreter).args(["-c", script]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let create = CreateRequest::decode_all(&output.stdout).expect("a record");
    let ids: Vec<_> = create.acl.iter().map(|acl| (acl.id.scheme, acl.id.id)).collect();
    assert_eq!(ids, [("auth", None)]);

    let mut line = Line::new(&ensemble).expect("connected");
    let auth = AuthPacket { auth_type: 0, scheme: "digest", auth: Some(b"ann:secret") };
    line.write(&(RequestHeader { xid: Xid::AUTH, opcode: OpCode::AUTH }, auth)).expect("it reads");
    assert_eq!(line.reply().expect("a reply").0.err, ErrorCode::OK);
    assert_eq!(line.ask_raw(OpCode::CREATE, &[&output.stdout]).0, ErrorCode::OK);
}

/// The first row of findings in `docs/fuzzing.md`.
#[test]
fn generated_replies_silence_kazoo() {
    let Some(kazoo) = Peer::Kazoo.find_or_skip() else { return };
    let Runnable::Python { interpreter } = kazoo else { panic!("{kazoo:?} is not Python") };
    let script = "import sys\n\
        from kazoo.client import KazooClient\n\
        client = KazooClient(sys.argv[1])\n\
        client.start()\n\
        while True:\n    \
            try: client.get('/a')\n    \
            except Exception: pass";
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let at = listener.local_addr().expect("bound").to_string();
    let mut client = Command::new(interpreter);
    let mut client = client.args(["-c", script, &at]).spawn().expect("it starts");
    let found = crate::fuzz_client::fuzz(&listener, false, 1, 10_000, &mut || None);
    client.kill().expect("it runs");
    client.wait().expect("it was killed");
    let found = found.expect("readable requests").expect("a finding");
    assert!(found.starts_with("the client is silent"), "{found}");
}

/// Without this order, a recipe that forgets to sort would pass all tests and fail in production.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_server_lists_children_in_the_order_of_a_real_one() {
    let Some(real) = ensemble_or_skip(1) else { return };
    let embedded = Embedded::with_config(Config::default().with_version(real.version())).await;
    let embedded = embedded.expect("loopback");
    let clients = [real.address(0), embedded.connect_string()];
    let [first, second] = clients.map(|at| async move { Client::connect(&at).await });
    let clients = [first.await.expect("connected"), second.await.expect("connected")];
    for client in &clients {
        client.create("/order", b"", NodeKind::Persistent).await.expect("created");
    }
    let (mut unsorted, mut largest) = (0, 0);
    // From 8 places to 256, and down to no name and up again with the places that stay.
    for round in 0..2 {
        for number in 0..140_u32 {
            let random = u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced);
            let (path, kind) = match number % 6 {
                0 => (format!("/order/_c_{random:032x}-lock-"), NodeKind::EphemeralSequential),
                1 => (format!("/order/{random:032x}__lock__"), NodeKind::PersistentSequential),
                2 => ("/order/n_".into(), NodeKind::PersistentSequential),
                3 => (format!("/order/\u{fc}\u{65e5}{number}"), NodeKind::Persistent),
                4 => (format!("/order/{}{}", ["Aa", "BB"][round], number), NodeKind::Persistent),
                // The hashes of these are equal: those of `Aa` and `BB` are.
                _ => {
                    let letters =
                        (0..3).map(|bit| ["Aa", "BB"][(((number / 6) >> bit) & 1) as usize]);
                    let name: String = letters.collect();
                    (format!("/order/{name}{}", number / 48), NodeKind::Persistent)
                }
            };
            for client in &clients {
                client.create(&path, b"", kind).await.expect("created");
            }
            let listed = same_children(&clients).await;
            (unsorted, largest) =
                (unsorted + usize::from(!listed.is_sorted()), largest.max(listed.len()));
            // Every fifth step, one from the middle goes.
            if number % 5 == 0 {
                let path = format!("/order/{}", listed[listed.len() / 2]);
                for client in &clients {
                    client.delete(&path, None).await.expect("deleted");
                }
                same_children(&clients).await;
            }
        }
        for name in same_children(&clients).await {
            for client in &clients {
                client.delete(&format!("/order/{name}"), None).await.expect("deleted");
            }
        }
    }
    assert!(unsorted > 250 && largest > 96, "{unsorted} unsorted, of at most {largest}");
}

/// Returns the children of `/order`, in an order that both servers agree on.
async fn same_children([real, embedded]: &[Client; 2]) -> Vec<String> {
    let (expected, _) = real.get_children("/order").await.expect("listed");
    let (listed, _) = embedded.get_children("/order").await.expect("listed");
    assert_eq!(listed, expected);
    expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_ensemble_lists_its_members_like_a_real_one() {
    for servers in [1, 3] {
        let Some(real) = ensemble_or_skip(servers) else { return };
        let config = Config { servers, version: real.version(), ..Config::default() };
        let embedded = Embedded::with_config(config).await.expect("loopback");
        let mut texts = Vec::new();
        for at in [real.address(servers - 1), embedded.connect_string()] {
            let client = Client::connect(&at).await.expect("connected");
            let (text, stat) = client.get_config().await.expect("readable by anyone");
            let text = String::from_utf8(text.to_vec()).expect("text");
            let zxids = (stat.czxid, stat.mzxid, stat.pzxid);
            texts.push((members(&text), zxids, stat.version, stat.aversion));
        }
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0].0.len(), if servers == 1 { 0 } else { servers + 1 });
    }
}

/// Returns the lines without addresses and ports. The real servers have a static configuration,
/// which does not name the ports for clients.
fn members(text: &str) -> Vec<String> {
    let line = |line: &str| match line.split_once(';').map_or(line, |(peers, _)| peers).split(':') {
        parts if line.starts_with("server.") => {
            let parts: Vec<_> = parts.collect();
            let server = parts[0].split('=').next().unwrap_or_default();
            format!("{server} of {} parts: {}", parts.len(), parts[parts.len() - 1])
        }
        _ => line.into(),
    };
    text.split('\n').filter(|line| !line.is_empty()).map(line).collect()
}
