//! Sends the same frames to the in-memory server and to a real one. The replies must be equal,
//! except for clock times and session ids.

use core::time::Duration;
use zk_proto::{
    Acl, CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest,
    ExistsRequest, GetChildrenRequest, Id, List, MultiOp, MultiRequest, Password, Perms,
    RemoveWatchesRequest, Request, SessionId, SetDataRequest, SetWatches, SetWatches2, SyncRequest,
    WatcherType, Zxid,
};
use zk_testkit::raw::{Credentials, Message, RawClient};
use zk_testkit::real;
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;

use crate::invalid;
use crate::render::compare;
use crate::script::{
    ALICE, BOB, Script, create, delete, exists, get_children, get_data, node, set_data,
};

#[test]
fn the_in_memory_server_answers_like_a_real_one() {
    let Some(real) = real::ensemble_or_skip(1) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config =
        Config::default().with_version(real.version()).with_tick(Duration::from_millis(500));
    let embedded = runtime.block_on(Embedded::with_config(config)).expect("a server");

    let expected = play(&real.address(0));
    let actual = play(&embedded.connect_string());
    if let Err(differences) = compare(&expected, &actual) {
        panic!("{differences}");
    }
}

/// Returns the transcript of the script on the server at `address`.
fn play(address: &str) -> Vec<String> {
    let mut script = Script::start(address);
    nodes(&mut script);
    creation(&mut script);
    times_to_live(&mut script);
    modes(&mut script);
    invalid::checks(&mut script);
    transactions(&mut script);
    watches(&mut script);
    watches_set_again(&mut script);
    invalid::null_lists(&mut script);
    invalid::proofs(&mut script);
    invalid::malformed(&mut script);
    handshakes(&mut script);
    endings(&mut script);
    script.transcript
}

fn nodes(script: &mut Script) {
    for path in ["/", "", "/zookeeper", "/zookeeper/config", "/missing", "/\0", "relative"] {
        script.ask(ALICE, Request::Exists(ExistsRequest { path, watch: false }));
    }
    for path in ["/", "", "/zookeeper", "/missing", "/\0", "relative"] {
        script.ask(ALICE, get_data(path, false));
        script.ask(ALICE, get_children(path, false));
        script.ask(ALICE, Request::GetChildren2(GetChildrenRequest { path, watch: false }));
    }
    script.ask(ALICE, create("/a", CreateMode::PERSISTENT));
    for (path, version) in [("/a", -1), ("/a", 1), ("/a", 1), ("/missing", -1), ("a", 0), ("/", 0)]
    {
        let data = Some(&b"changed"[..]);
        script.ask(ALICE, Request::SetData(SetDataRequest { path, data, version }));
    }
    script.ask(ALICE, Request::SetData(SetDataRequest { path: "/a", data: None, version: 2 }));
    script.ask(ALICE, get_data("/a", false));
    script.ask(BOB, create("/a/b", CreateMode::PERSISTENT));
    for (path, version) in [
        ("/", -1),
        ("/zookeeper", -1),
        ("/zookeeper/quota", -1),
        ("/zookeeper/config", -1),
        ("", -1),
        ("relative", -1),
        ("/missing", -1),
        ("/missing/child", -1),
        ("/a", 7),
        ("/a", -1),
        ("/a/", -1),
        ("/a/b", 1),
        ("/a/b", 0),
        ("/a/b", 0),
        ("/\0", -1),
    ] {
        script.ask(ALICE, Request::Delete(DeleteRequest { path, version }));
    }
    script.ask(ALICE, exists("/a", false));
    script.ask(ALICE, Request::Sync(SyncRequest { path: "/anything" }));
    script.ask(ALICE, Request::Ping(()));
}

fn creation(script: &mut Script) {
    for (path, mode) in [
        ("/c", CreateMode::PERSISTENT),
        ("/c", CreateMode::PERSISTENT),
        ("/", CreateMode::PERSISTENT),
        ("", CreateMode::PERSISTENT),
        ("relative", CreateMode::PERSISTENT),
        ("/missing/n", CreateMode::PERSISTENT),
        ("/missing//n", CreateMode::PERSISTENT),
        ("/c/", CreateMode::PERSISTENT),
        ("/c//n", CreateMode::PERSISTENT),
        ("/c/.", CreateMode::PERSISTENT),
        ("/c/../n", CreateMode::PERSISTENT),
        ("/c/\0", CreateMode::PERSISTENT),
        ("/c/\u{1f}", CreateMode::PERSISTENT),
        ("/c/\u{7f}", CreateMode::PERSISTENT),
        ("/c/\u{e000}", CreateMode::PERSISTENT),
        ("/c/ü漢", CreateMode::PERSISTENT),
        ("/c/s-", CreateMode::PERSISTENT_SEQUENTIAL),
        ("/c/", CreateMode::EPHEMERAL_SEQUENTIAL),
        ("/c/.", CreateMode::EPHEMERAL_SEQUENTIAL),
        ("/c/e", CreateMode::EPHEMERAL),
        ("/c/e/child", CreateMode::PERSISTENT),
        ("/c/e/", CreateMode::PERSISTENT),
        ("/c/e", CreateMode::PERSISTENT_SEQUENTIAL),
        ("/c/unknown", CreateMode(7)),
        ("/c/unknown", CreateMode(-1)),
        ("/c/ttl", CreateMode(5)),
        ("/c/container", CreateMode::CONTAINER),
    ] {
        script.ask(ALICE, create(path, mode));
        let again = CreateRequest { data: None, ..node(path, mode) };
        script.ask(BOB, Request::Create2(again));
    }
    script.ask(ALICE, Request::CreateContainer(node("/k", CreateMode::CONTAINER)));
    script.ask(ALICE, Request::CreateContainer(node("/k", CreateMode::CONTAINER)));
    script.ask(ALICE, Request::CreateContainer(node("/k-", CreateMode::PERSISTENT_SEQUENTIAL)));
    script.ask(ALICE, create("/k/child", CreateMode::EPHEMERAL));
    script.ask(ALICE, exists("/k", false));
    script.ask(ALICE, Request::GetChildren2(GetChildrenRequest { path: "/c", watch: false }));

    let acl = |scheme, id| Acl { perms: Perms::ALL, id: Id { scheme, id: Some(id) } };
    for (number, acl) in [
        vec![],
        vec![Acl::READ, Acl::READ],
        vec![Acl::CREATOR_ALL],
        vec![acl("world", "someone")],
        vec![acl("digest", "user:hash")],
        vec![acl("digest", "nobody")],
        vec![acl("ip", "127.0.0.1")],
        vec![acl("ip", "127.0.0.0/8"), Acl::OPEN],
        vec![acl("ip", "127.0.0.0/33")],
        vec![acl("ip", "localhost")],
        vec![acl("ip", "127.1")],
        vec![acl("ip", "127.0.0.1.1")],
        vec![acl("ip", "127.0.0.256")],
        vec![acl("ip", "127.0.0.01")],
        vec![acl("ip", "127.0.0.1/")],
        vec![acl("ip", "127.0.0.1/-1")],
        vec![acl("ip", "127.0.0.1/+8")],
        vec![acl("ip", "127.0.0.1/8/8")],
        vec![acl("ip", "")],
        vec![acl("ip", "::")],
        vec![acl("ip", "::/0")],
        vec![acl("ip", "::1")],
        vec![acl("ip", "::1/128")],
        vec![acl("ip", "::1/129")],
        vec![acl("ip", "1:2:3:4:5:6:7:8")],
        vec![acl("ip", "1:2:3:4:5:6:7::")],
        vec![acl("ip", "1:2:3:4:5:6:7")],
        vec![acl("ip", "1::2:3:4:5:6:7:8")],
        vec![acl("ip", "FE80::A0/10")],
        vec![acl("ip", "fe80::1%lo")],
        vec![acl("ip", "::12345")],
        vec![acl("ip", "::g")],
        vec![acl("ip", ":::")],
        vec![acl("ip", "::1::")],
        vec![acl("ip", "[::1]")],
        vec![acl("ip", "::ffff:127.0.0.1")],
        vec![acl("sasl", "user")],
        vec![acl("unknown", "user")],
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/c/acl-{number}");
        let request = CreateRequest { acl: List::new(acl), ..node(&path, CreateMode::EPHEMERAL) };
        script.ask(ALICE, Request::Create(request));
    }
    let null = CreateRequest { acl: List::NULL, ..node("/missing/n", CreateMode::EPHEMERAL) };
    script.ask(ALICE, Request::Create(null));
}

/// Modes without a time to live accept none; in a multi it is ignored.
fn times_to_live(script: &mut Script) {
    for mode in (0..8).map(CreateMode) {
        for ttl in [-1, 0, 3_600_000] {
            let path = format!("/ttl-{}-{ttl}", mode.0);
            let CreateRequest { path, data, acl, mode } = node(&path, mode);
            let request = CreateTtlRequest { path, data, acl, mode, ttl };
            // A real server stops for good when it applies one of these.
            if mode > CreateMode::CONTAINER || ttl >= 0 {
                script.ask(ALICE, Request::CreateTtl(request));
            }
            let path = format!("{path}-in-a-multi");
            let request = CreateTtlRequest { path: &path, ..request };
            script.ask(ALICE, Request::Multi(MultiRequest::new(&[MultiOp::CreateTtl(request)])));
        }
        let paths = [1, 2, 3].map(|number| format!("/multi-{}-{number}", mode.0));
        let children = paths.each_ref().map(|path| format!("{path}/child"));
        let creates = [MultiOp::Create, MultiOp::Create2, MultiOp::CreateContainer];
        for (op, (path, child)) in creates.into_iter().zip(paths.iter().zip(&children)) {
            let (node, child) = (op(node(path, mode)), op(node(child, CreateMode::EPHEMERAL)));
            for ops in [&[node][..], &[node, child], &[child]] {
                script.ask(ALICE, Request::Multi(MultiRequest::new(ops)));
            }
            script.ask(ALICE, exists(path, false));
        }
    }
}

/// Modes that a multi refuses, alone and behind a part that fails.
fn modes(script: &mut Script) {
    let acl = List::new(&[Acl::OPEN]);
    for mode in [-1, 5, 6, 7, 8, 127, i32::MIN].map(CreateMode) {
        let path = "/unknown";
        let request = node(path, mode);
        let with_ttl = CreateTtlRequest { path, data: None, acl, mode, ttl: 1_000 };
        for op in [
            MultiOp::Create(request),
            MultiOp::Create2(request),
            MultiOp::CreateContainer(request),
            MultiOp::CreateTtl(with_ttl),
        ] {
            let failing = MultiOp::Check(CheckVersionRequest { path: "/missing", version: -1 });
            let create = MultiOp::Create(node("/new", CreateMode::PERSISTENT));
            for ops in [&[op][..], &[failing, op], &[create, op], &[op, failing]] {
                script.ask(ALICE, Request::Multi(MultiRequest::new(ops)));
            }
        }
        for request in
            [Request::Create(request), Request::Create2(request), Request::CreateContainer(request)]
        {
            script.ask(ALICE, request);
        }
        for path in ["/unknown", "/new"] {
            script.ask(ALICE, delete(path));
        }
    }
}

fn transactions(script: &mut Script) {
    let sequential = MultiOp::Create(node("/t/n-", CreateMode::PERSISTENT_SEQUENTIAL));
    let delete = |path| MultiOp::Delete(DeleteRequest { path, version: -1 });
    let check = |path, version| MultiOp::Check(CheckVersionRequest { path, version });
    let set_data = |path, version| {
        MultiOp::SetData(SetDataRequest { path, data: Some(b"in a multi"), version })
    };
    let create = |path| MultiOp::Create(node(path, CreateMode::PERSISTENT));
    // Without `create2`, which servers before 3.8.2 answer like `create`.
    for ops in [
        &[][..],
        &[create("/t"), sequential, check("/t", 0), set_data("/t", 0), delete("/t/n-0000000000")],
        &[sequential, sequential, check("/t", 9), sequential],
        &[check("/missing", -1)],
        &[check("relative", -1), sequential],
        &[sequential, create("/t/n-0000000001")],
        &[create("/t/x"), delete("/t/x"), create("/t/x"), set_data("/t/x", 0)],
        &[delete("/t"), create("/u")],
        &[delete("/zookeeper"), create("/u")],
        &[MultiOp::CreateContainer(node("/t/k", CreateMode::CONTAINER)), delete("/t/k")],
    ] {
        script.ask(ALICE, Request::Multi(MultiRequest::new(ops)));
    }
    script.ask(ALICE, Request::GetChildren2(GetChildrenRequest { path: "/t", watch: false }));
}

fn watches(script: &mut Script) {
    script.ask(BOB, exists("/w", true));
    script.ask(ALICE, create("/w", CreateMode::PERSISTENT));
    script.ask(BOB, get_data("/w", true));
    script.ask(BOB, exists("/w", true));
    script.ask(BOB, get_children("/w", true));
    script.ask(BOB, get_data("/missing", true));
    script.ask(BOB, get_children("/missing", true));
    script.ask(ALICE, set_data("/w"));
    script.ask(ALICE, set_data("/w"));
    script.ask(ALICE, create("/w/child", CreateMode::PERSISTENT));
    script.ask(ALICE, create("/missing", CreateMode::PERSISTENT));
    script.ask(BOB, get_children("/w", true));
    script.ask(BOB, set_data("/w/child"));
    script.ask(BOB, delete("/w/child"));
    for request in [get_data("/w", true), get_children("/w", true), get_children("/", true)] {
        script.ask(BOB, request);
        script.ask(ALICE, request);
    }
    script.ask(ALICE, delete("/w"));

    script.ask(ALICE, create("/w", CreateMode::PERSISTENT));
    let remove =
        |path, watcher_type| Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type });
    script.ask(BOB, remove("/w", WatcherType::ANY));
    script.ask(BOB, get_data("/w", true));
    script.ask(BOB, remove("/w", WatcherType::CHILDREN));
    script.ask(BOB, remove("/w", WatcherType::DATA));
    script.ask(BOB, remove("/w", WatcherType::DATA));
    script.ask(BOB, get_data("/w", true));
    script.ask(BOB, get_children("/w", true));
    script.ask(BOB, remove("/w", WatcherType::ANY));
    script.ask(BOB, remove("/w", WatcherType(9)));
    script.ask(ALICE, delete("/w"));

    script.ask(BOB, exists("/m", true));
    script.ask(BOB, get_children("/", true));
    let ops = [
        MultiOp::Create(node("/m", CreateMode::PERSISTENT)),
        MultiOp::Delete(DeleteRequest { path: "/m", version: 0 }),
        MultiOp::Create(node("/m", CreateMode::PERSISTENT)),
    ];
    script.ask(ALICE, Request::Multi(MultiRequest::new(&ops)));
}

fn watches_set_again(script: &mut Script) {
    for path in ["/s", "/s/same", "/s/changed", "/s/gone", "/s/children"] {
        script.ask(ALICE, create(path, CreateMode::PERSISTENT));
    }
    let seen = script.last_zxid;
    script.ask(ALICE, set_data("/s/changed"));
    script.ask(ALICE, delete("/s/gone"));
    script.ask(ALICE, create("/s/children/x", CreateMode::PERSISTENT));
    script.ask(ALICE, create("/s/created", CreateMode::PERSISTENT));
    let data_watches = List::new(&["/s/same", "/s/changed", "/s/gone"]);
    let exist_watches = List::new(&["/s/created", "/s/missing"]);
    let child_watches = List::new(&["/s/same", "/s/children", "/s/gone"]);
    let request = SetWatches { relative_zxid: seen, data_watches, exist_watches, child_watches };
    script.ask(BOB, Request::SetWatches(request));
    script.ask(ALICE, set_data("/s/same"));
    script.ask(ALICE, create("/s/missing", CreateMode::PERSISTENT));
    script.ask(ALICE, create("/s/same/x", CreateMode::PERSISTENT));
    let request = SetWatches2 {
        relative_zxid: script.last_zxid,
        data_watches,
        exist_watches,
        child_watches,
        persistent_watches: List::default(),
        persistent_recursive_watches: List::default(),
    };
    script.ask(BOB, Request::SetWatches2(request));
    script.ask(ALICE, set_data("/s/same"));
    let null = SetWatches {
        relative_zxid: Zxid::ZERO,
        data_watches: List::NULL,
        exist_watches: List::default(),
        child_watches: List::default(),
    };
    script.ask(BOB, Request::SetWatches(null));
}

fn handshakes(script: &mut Script) {
    for timeout in [-1, 0, 5_000, i32::MAX] {
        let mut peer = script.newcomer(&RawClient::connect(timeout));
        script.note("new", &mut peer);
    }
    let mut owner = script.newcomer(&RawClient::connect(5_000));
    let Some(Message::Connected(session)) = owner.next_message() else { panic!("no session") };
    let ahead = RawClient::resume(Zxid(i64::MAX), &session);
    let mut peer = script.newcomer(&ahead);
    script.note("ahead", &mut peer);
    owner.ask(&Request::Ping(()));
    script.note("owner", &mut owner);

    let mut peer = script.newcomer(&RawClient::resume(Zxid::ZERO, &session));
    script.note("moved", &mut peer);
    script.note("owner", &mut owner);
    let unknown = Credentials { id: SessionId(77), ..session };
    let mut stranger = script.newcomer(&RawClient::resume(Zxid::ZERO, &unknown));
    script.note("unknown session", &mut stranger);
    script.note("unknown session", &mut stranger);
    let wrong = Credentials { password: Password([7; 16]), ..session };
    let mut thief = script.newcomer(&RawClient::resume(Zxid::ZERO, &wrong));
    script.note("wrong password", &mut thief);
    script.note("wrong password", &mut thief);
    script.note("moved", &mut peer);
}

fn endings(script: &mut Script) {
    script.ask(ALICE, create("/end", CreateMode::EPHEMERAL));
    // The order in which the ephemerals are deleted is unspecified, so each client watches one of
    // them.
    script.ask(BOB, get_data("/end", true));
    script.ask(ALICE, get_children("/k", true));
    script.ask(ALICE, Request::CloseSession(()));
    script.barrier(BOB);
    script.ask(BOB, exists("/end", false));
    script.ask(BOB, exists("/", false));
}
