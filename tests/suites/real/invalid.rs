//! Invalid requests, and how servers answer them.

use zk_proto::{
    AuthPacket, CheckVersionRequest, CheckWatchesRequest, GetEphemeralsRequest, GetSaslRequest,
    List, OpCode, RemoveWatchesRequest, Request, SetWatches2, WatcherType, Zxid,
};
use zk_testkit::raw::RawClient;

use crate::script::{ALICE, BOB, Script, exists, set_data};

/// Abandoned sessions must not expire during the script: that would use a zxid.
const LONG: i32 = 10_000;

/// Null lists. The parts of the request before them take effect.
pub(crate) fn null_lists(script: &mut Script) {
    let (some, none) = (List::new(&["/s", "/nowhere"]), List::NULL);
    for lists in [
        [some, none, some, some, some],
        [some, some, none, some, some],
        [some, some, some, none, some],
        [some, some, some, some, none],
    ] {
        let [data_watches, exist_watches, child_watches, persistent, recursive] = lists;
        let request = SetWatches2 {
            relative_zxid: Zxid(script.last_zxid.0 - 20),
            data_watches,
            exist_watches,
            child_watches,
            persistent_watches: persistent,
            persistent_recursive_watches: recursive,
        };
        script.send(BOB, Request::SetWatches2(request));
        script.ask(BOB, set_data("/s"));
    }
    let everything = GetEphemeralsRequest { prefix_path: None };
    script.ask(BOB, Request::GetEphemerals(everything));
    for watcher_type in (0..7).map(WatcherType) {
        let request = CheckWatchesRequest { path: "/s", watcher_type };
        script.ask(ALICE, Request::CheckWatches(request));
        let request = RemoveWatchesRequest { path: "/s", watcher_type };
        script.ask(BOB, Request::RemoveWatches(request));
    }
    script.ask(
        BOB,
        Request::RemoveWatches(RemoveWatchesRequest {
            path: "/nowhere",
            watcher_type: WatcherType::ANY,
        }),
    );
}

pub(crate) fn proofs(script: &mut Script) {
    let auth = |scheme, auth| Request::Auth(AuthPacket { auth_type: 7, scheme, auth });
    for (request, closes) in [
        (auth("digest", Some(&b"u:p"[..])), false),
        (auth("digest", Some(b"u")), false),
        (auth("digest", Some(b"")), false),
        (auth("digest", Some(b"\xff:p")), false),
        (auth("ip", None), false),
        (auth("digest", None), true),
        (auth("super", Some(b"u:p")), true),
        (Request::Sasl(GetSaslRequest { token: Some(b"") }), false),
        (Request::Sasl(GetSaslRequest { token: None }), true),
    ] {
        let mut peer = script.newcomer(&RawClient::connect(LONG));
        script.note("proof", &mut peer);
        peer.ask(&request);
        script.note("proof", &mut peer);
        if !closes {
            peer.ask(&Request::WhoAmI(()));
        }
        script.note("proof", &mut peer);
        script.last_zxid = Zxid(script.last_zxid.0 + 1);
    }
}

pub(crate) fn malformed(script: &mut Script) {
    for opcode in [
        OpCode::CREATE,
        OpCode::CREATE2,
        OpCode::DELETE,
        OpCode::SET_DATA,
        OpCode::MULTI,
        OpCode::EXISTS,
        OpCode::GET_DATA,
        OpCode::GET_CHILDREN,
        OpCode::GET_CHILDREN2,
        OpCode::SET_WATCHES,
        OpCode::REMOVE_WATCHES,
        OpCode::GET_ACL,
        OpCode::SET_ACL,
        OpCode::SYNC,
        OpCode::CHECK,
        OpCode::RECONFIG,
        OpCode::CHECK_WATCHES,
        OpCode::CREATE_CONTAINER,
        OpCode::DELETE_CONTAINER,
        OpCode::CREATE_TTL,
        OpCode::MULTI_READ,
        OpCode::GET_EPHEMERALS,
        OpCode::GET_ALL_CHILDREN_NUMBER,
        OpCode::SET_WATCHES2,
        OpCode::ADD_WATCH,
    ] {
        script.ask_raw(ALICE, opcode, &100i32);
    }
    for opcode in [OpCode::AUTH, OpCode::SASL] {
        let mut peer = script.newcomer(&RawClient::connect(LONG));
        script.note("bad proof", &mut peer);
        peer.ask_raw(opcode, &100i32);
        script.note("bad proof", &mut peer);
        script.last_zxid = Zxid(script.last_zxid.0 + 1);
    }
    // All numbers that are or may become operations, except for the creation and the end of a
    // session.
    for opcode in (-9..=120).map(OpCode).filter(|opcode| *opcode != OpCode::PING) {
        script.send_raw(ALICE, opcode, &());
    }
    script.ask(ALICE, exists("/", false));
    for opcode in [OpCode(999), OpCode(-1), OpCode::NOTIFICATION] {
        let mut peer = script.newcomer(&RawClient::connect(LONG));
        script.note("unknown", &mut peer);
        peer.ask_raw(opcode, &());
        script.note("unknown", &mut peer);
        script.note("unknown", &mut peer);
        script.last_zxid = Zxid(script.last_zxid.0 + 1);
    }
    for bytes in [&[0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7][..], &[255; 4], &[0, 0x10, 0, 0]] {
        let mut peer = script.newcomer(&RawClient::connect(LONG));
        script.note("bad frame", &mut peer);
        peer.send(bytes);
        script.note("bad frame", &mut peer);
    }
}

/// Sends checks outside a multi, which are answered only if they fail.
pub(crate) fn checks(script: &mut Script) {
    for (path, version) in [("/", -1), ("/", 7), ("/missing", -1), ("relative", -1)] {
        script.send(ALICE, Request::Check(CheckVersionRequest { path, version }));
    }
    script.ask(ALICE, exists("/", false));
}
