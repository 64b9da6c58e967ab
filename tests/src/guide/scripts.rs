//! The scripts of the guide: what happens in each picture.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use uuid::Uuid;
use zk_proto::diagram::{Activity, Diagram, Style};
use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CreateMode, CreateRequest,
    DeleteRequest, ExistsRequest, GetChildrenRequest, GetDataRequest, List, Multi, MultiOp,
    Request, SetDataRequest, SetWatches,
};

use zk_recipes::machine::AttemptConfig;

use super::played;
use super::stage::{Client, Frame, Stage};
use crate::sim::picture::{self, View};
use crate::sim::{Bug, Call, Cut, Fault, LockKind, Options, Sim};

const MS: Duration = Duration::from_millis(1);
const OPEN: &[Acl<'static>] = &[Acl::OPEN];

/// A script with its diagram and its frames.
pub type Script = fn() -> (Diagram, Vec<Frame>);

/// All scripts: the name of a picture, and what happens in it.
pub const SCRIPTS: &[(&str, Script)] = &[
    ("frames", frames),
    ("handshake", handshake),
    ("pipelining", pipelining),
    ("zxids", zxids),
    ("modes", modes),
    ("watches", watches),
    ("session", session),
    ("unwilling", unwilling),
    ("transactions", transactions),
    ("acls", acls),
    ("queue", queue),
    ("hand-over", hand_over),
    ("lost-create", lost_create),
    ("lost-connection", lost_connection),
    ("readers", readers),
];

/// A run of the simulator, drawn by [`picture`].
pub type Timeline = fn() -> String;

/// All timelines: the names of their pictures, and their runs.
pub const TIMELINES: &[(&str, Timeline)] =
    &[("herd", herd), ("no-herd", no_herd), ("semaphore", semaphore)];

fn create<'a>(path: &'a str, data: &'a str, mode: CreateMode) -> Request<'a> {
    let data = Some(data.as_bytes());
    Request::Create(CreateRequest { path, data, acl: List::new(OPEN), mode })
}

fn create2<'a>(path: &'a str, data: &'a str, mode: CreateMode) -> Request<'a> {
    let data = Some(data.as_bytes());
    Request::Create2(CreateRequest { path, data, acl: List::new(OPEN), mode })
}

fn exists(path: &str, watch: bool) -> Request<'_> {
    Request::Exists(ExistsRequest { path, watch })
}

fn get(path: &str, watch: bool) -> Request<'_> {
    Request::GetData(GetDataRequest { path, watch })
}

fn children(path: &str, watch: bool) -> Request<'_> {
    Request::GetChildren(GetChildrenRequest { path, watch })
}

fn set<'a>(path: &'a str, data: &'a str, version: i32) -> Request<'a> {
    Request::SetData(SetDataRequest { path, data: Some(data.as_bytes()), version })
}

fn done(stage: Stage) -> (Diagram, Vec<Frame>) {
    (stage.diagram, stage.frames)
}

fn one(title: &str) -> (Stage, Client) {
    let (stage, clients) = Stage::new(title, &["client", "server"]);
    (stage, clients[0])
}

fn two(title: &str) -> (Stage, Client, Client) {
    let (stage, clients) = Stage::new(title, &["client A", "server", "client B"]);
    (stage, clients[0], clients[1])
}

fn frames() -> (Diagram, Vec<Frame>) {
    let (mut stage, client) = one("A handshake, then one request and one reply");
    stage.connect(client, 0);
    stage.ask(client, &[exists("/a", true)]);
    stage.ask(client, &[create("/a", "x", CreateMode::PERSISTENT)]);
    done(stage)
}

fn handshake() -> (Diagram, Vec<Frame>) {
    let (mut stage, client) = one("A new session, resumed on a second connection, and expired");
    stage.connect(client, 0);
    stage.ask(client, &[create("/a", "", CreateMode::EPHEMERAL)]);
    stage.cut(client);
    stage.wait(500 * MS);
    stage.connect(client, 0);
    stage.ask(client, &[exists("/a", false)]);
    stage.cut(client);
    stage.wait(20_000 * MS);
    stage.server_note(0, Style::Plain, "the session timeout passes; /a is deleted");
    stage.connect(client, 0);
    done(stage)
}

fn pipelining() -> (Diagram, Vec<Frame>) {
    let (mut stage, client) = one("Four requests in one write, and the replies in their order");
    stage.connect(client, 0);
    stage.ask(
        client,
        &[
            create("/a", "1", CreateMode::PERSISTENT),
            get("/missing", false),
            set("/a", "2", 0),
            get("/a", false),
        ],
    );
    stage.ask(client, &[Request::Ping(())]);
    done(stage)
}

fn zxids() -> (Diagram, Vec<Frame>) {
    let (mut stage, a, b) = two("Every write has a zxid, and every reply shows the newest one");
    stage.connect(a, 0);
    stage.connect(b, 0);
    stage.ask(a, &[create("/a", "1", CreateMode::PERSISTENT)]);
    stage.ask(b, &[exists("/a", false)]);
    stage.ask(b, &[set("/a", "2", 0)]);
    stage.ask(a, &[set("/a", "3", 0)]);
    stage.ask(a, &[create2("/a/b", "", CreateMode::PERSISTENT)]);
    stage.ask(a, &[get("/a", false)]);
    done(stage)
}

fn modes() -> (Diagram, Vec<Frame>) {
    let (mut stage, a, b) = two("Sequential and ephemeral nodes");
    stage.connect(a, 0);
    stage.connect(b, 0);
    stage.ask(a, &[create("/q", "", CreateMode::PERSISTENT)]);
    stage.ask(a, &[create("/q/n-", "", CreateMode::EPHEMERAL_SEQUENTIAL)]);
    stage.ask(b, &[create("/q/n-", "", CreateMode::EPHEMERAL_SEQUENTIAL)]);
    stage.ask(b, &[create("/q/m-", "", CreateMode::PERSISTENT_SEQUENTIAL)]);
    stage.ask(b, &[children("/q", false)]);
    stage.ask(a, &[Request::CloseSession(())]);
    stage.ask(b, &[children("/q", false)]);
    done(stage)
}

fn watches() -> (Diagram, Vec<Frame>) {
    let (mut stage, a, b) = two("One watch fires once; a persistent one stays");
    stage.connect(a, 0);
    stage.connect(b, 0);
    stage.ask(a, &[exists("/a", true)]);
    stage.ask(b, &[create("/a", "1", CreateMode::PERSISTENT)]);
    stage.ask(b, &[set("/a", "2", -1)]);
    stage.note(a, Style::Plain, "no event: the watch has fired already");
    stage.ask(a, &[get("/a", true)]);
    stage.ask(b, &[set("/a", "3", -1), set("/a", "4", -1)]);
    let request = AddWatchRequest { path: "/a", mode: AddWatchMode::PERSISTENT };
    stage.ask(a, &[Request::AddWatch(request)]);
    stage.ask(b, &[set("/a", "5", -1)]);
    stage.ask(b, &[set("/a", "6", -1)]);
    done(stage)
}

fn session() -> (Diagram, Vec<Frame>) {
    let (mut stage, a, b) = two("What a connection loses, and what the session keeps");
    stage.connect(a, 0);
    stage.connect(b, 0);
    stage.ask(a, &[create("/a", "", CreateMode::EPHEMERAL)]);
    stage.ask(b, &[create("/b", "1", CreateMode::PERSISTENT)]);
    stage.ask(a, &[get("/b", true)]);
    let seen = stage.last_zxid(a);
    stage.cut(a);
    stage.note(a, Style::Error, "lost: replies in flight, the watch, credentials");
    stage.ask(b, &[set("/b", "2", -1)]);
    stage.ask(b, &[exists("/a", false)]);
    stage.server_note(0, Style::Plain, "kept: the session and its ephemeral node /a");
    stage.connect(a, 0);
    let data = &["/b"];
    let request = SetWatches {
        relative_zxid: seen,
        data_watches: List::new(data),
        exist_watches: List::new(&[]),
        child_watches: List::new(&[]),
    };
    stage.ask(a, &[Request::SetWatches(request)]);
    stage.note(a, Style::Plain, "the event that was missed comes at once");
    done(stage)
}

fn unwilling() -> (Diagram, Vec<Frame>) {
    let lanes = ["client A", "server 0", "server 1", "client B"];
    let (mut stage, clients) = Stage::new("A server that is behind refuses the session", &lanes);
    let (a, b) = (clients[0], clients[1]);
    let leader = stage.ensemble.leader().unwrap_or_default();
    let behind = 1 - leader;
    stage.connect(a, leader);
    stage.connect(b, leader);
    stage.ensemble.hold(behind);
    stage.server_note(behind, Style::Error, "falls behind");
    stage.ask(b, &[create("/config", "1", CreateMode::PERSISTENT)]);
    stage.ask(a, &[get("/config", false)]);
    stage.cut(a);
    stage.connect(a, behind);
    stage.note(a, Style::Plain, "no error code: try the next server");
    stage.connect(a, leader);
    stage.cut(a);
    let now = stage.now();
    stage.ensemble.release(now, behind);
    stage.server_note(behind, Style::Plain, "has caught up");
    stage.connect(a, behind);
    done(stage)
}

fn transactions() -> (Diagram, Vec<Frame>) {
    let (mut stage, a, b) = two("All operations of a multi, or none");
    stage.connect(a, 0);
    stage.connect(b, 0);
    stage.ask(a, &[create("/from", "10", CreateMode::PERSISTENT)]);
    stage.ask(a, &[create("/to", "0", CreateMode::PERSISTENT)]);
    let change = |path, data: &'static str, version| {
        MultiOp::SetData(SetDataRequest { path, data: Some(data.as_bytes()), version })
    };
    let ops = [change("/from", "7", 0), change("/to", "3", 0)];
    stage.ask(a, &[Request::Multi(Multi::new(&ops))]);
    let check = MultiOp::Check(CheckVersionRequest { path: "/from", version: 0 });
    let ops = [change("/to", "5", 1), check, change("/from", "5", 1)];
    stage.ask(b, &[Request::Multi(Multi::new(&ops))]);
    stage.ask(b, &[get("/to", false)]);
    done(stage)
}

fn acls() -> (Diagram, Vec<Frame>) {
    let (mut stage, a, b) = two("Credentials belong to the connection");
    stage.connect(a, 0);
    stage.connect(b, 0);
    let auth = AuthPacket { auth_type: 0, scheme: "digest", auth: Some(b"ann:secret") };
    stage.ask(a, &[Request::Auth(auth)]);
    let acl = &[Acl::CREATOR_ALL];
    let data = Some(&b"1"[..]);
    let mode = CreateMode::PERSISTENT;
    let request = CreateRequest { path: "/mine", data, acl: List::new(acl), mode };
    stage.ask(a, &[Request::Create(request)]);
    stage.ask(b, &[get("/mine", false)]);
    stage.ask(b, &[Request::Auth(auth)]);
    stage.ask(b, &[get("/mine", false)]);
    stage.cut(b);
    stage.connect(b, 0);
    stage.ask(b, &[get("/mine", false)]);
    done(stage)
}

/// A run of real clients that are connected, with the lock path in place.
fn connected(clients: usize, servers: usize, bug: Option<Bug>) -> Sim {
    let mut sim =
        Sim::new(Options { clients, servers, bug, record: true, seed: 5, ..Options::default() });
    sim.advance(1_000 * MS);
    let mode = CreateMode::PERSISTENT;
    sim.with(0, |now, client| client.call(now, Call::Create { path: "/lock".into(), mode }));
    sim.advance(1_000 * MS);
    sim
}

fn contend(sim: &mut Sim, client: usize, kind: LockKind) -> u64 {
    let digit = client as u128 + 1;
    let node = Uuid::from_u128(digit * (u128::MAX / 15));
    let began = sim.with(client, |now, client| {
        // Mixed with the session once more, it is the one of the node.
        let guid = AttemptConfig::node_guid(node, client.id());
        client.contend(now, "/lock", kind, guid)
    });
    began.unwrap_or_default()
}

fn release(sim: &mut Sim, client: usize, attempt: u64) {
    sim.with(client, |now, client| client.release(now, attempt));
}

fn played(sim: &Sim, title: &str, lanes: &[&str]) -> (Diagram, Vec<Frame>) {
    (played::diagram(sim, title, lanes, 2_000 * MS), Vec::new())
}

fn queue() -> (Diagram, Vec<Frame>) {
    let mut sim = connected(2, 1, None);
    let first = contend(&mut sim, 0, LockKind::Mutex);
    sim.advance(30 * MS);
    let second = contend(&mut sim, 1, LockKind::Mutex);
    sim.advance(70 * MS);
    release(&mut sim, 0, first);
    sim.advance(50 * MS);
    release(&mut sim, 1, second);
    sim.advance(50 * MS);
    played(&sim, "Two clients take turns", &["client A", "server", "client B"])
}

fn hand_over() -> (Diagram, Vec<Frame>) {
    let (mut stage, clients) = Stage::new(
        "Three tasks of a client share a node, while another client waits",
        &["tasks of A", "server", "client B"],
    );
    let (a, b) = (clients[0], clients[1]);
    stage.connect(a, 0);
    stage.connect(b, 0);
    let enter =
        [create2("/lock/node-", "", CreateMode::EPHEMERAL_SEQUENTIAL), children("/lock", false)];
    stage.ask(a, &[create("/lock", "", CreateMode::PERSISTENT)]);
    stage.ask(a, &enter);
    stage.activity(a, Activity::Holding);
    let czxid = stage.last_zxid(a).0;
    let turn = |stage: &mut Stage, task: u32| {
        let text = format!("task {task} holds: token ({czxid}, {})", task - 1);
        stage.note(a, Style::Plain, &text);
        stage.wait(20 * MS);
    };
    turn(&mut stage, 1);
    stage.ask(b, &enter);
    stage.ask(b, &[children("/lock/node-0000000000", true)]);
    stage.activity(b, Activity::Waiting);
    turn(&mut stage, 2);
    turn(&mut stage, 3);
    stage.note(a, Style::Plain, "the last turn: the node goes");
    stage.activity(a, Activity::Idle);
    let node = DeleteRequest { path: "/lock/node-0000000000", version: -1 };
    stage.ask(a, &[Request::Delete(node)]);
    stage.activity(b, Activity::Holding);
    stage.note(b, Style::Plain, &format!("holds: token ({}, 0)", czxid + 1));
    stage.wait(20 * MS);
    done(stage)
}

fn lost_create() -> (Diagram, Vec<Frame>) {
    let mut sim = connected(1, 1, None);
    let attempt = contend(&mut sim, 0, LockKind::Mutex);
    sim.inject(Fault::Cut(0, Cut::AFTER_APPLIED));
    sim.advance(1_500 * MS);
    release(&mut sim, 0, attempt);
    sim.advance(50 * MS);
    played(&sim, "The reply to a create is lost", &["client", "server"])
}

fn lost_connection() -> (Diagram, Vec<Frame>) {
    let mut sim = connected(2, 2, None);
    let first = contend(&mut sim, 0, LockKind::Mutex);
    sim.advance(30 * MS);
    contend(&mut sim, 1, LockKind::Mutex);
    sim.advance(50 * MS);
    sim.inject(Fault::Cut(0, Cut::BEFORE_RECEIVED));
    sim.advance(1_500 * MS);
    release(&mut sim, 0, first);
    sim.advance(100 * MS);
    let lanes = ["client A", "server 0", "server 1", "client B"];
    played(&sim, "A holder loses its connection and keeps the lock", &lanes)
}

fn readers() -> (Diagram, Vec<Frame>) {
    let mut sim = connected(3, 1, None);
    let first = contend(&mut sim, 0, LockKind::Read);
    sim.advance(30 * MS);
    let second = contend(&mut sim, 1, LockKind::Read);
    sim.advance(30 * MS);
    let writer = contend(&mut sim, 2, LockKind::Write);
    sim.advance(30 * MS);
    release(&mut sim, 0, first);
    sim.advance(30 * MS);
    release(&mut sim, 1, second);
    sim.advance(50 * MS);
    release(&mut sim, 2, writer);
    sim.advance(50 * MS);
    let lanes = ["reader A", "reader B", "server", "writer C"];
    played(&sim, "Readers share, a writer waits for both", &lanes)
}

/// Eight clients take turns, each for 40 ms.
fn turns(bug: Option<Bug>) -> String {
    let mut sim = connected(8, 1, bug);
    let attempts: Vec<_> =
        (0..8).map(|client| contend(&mut sim, client, LockKind::Mutex)).collect();
    for _ in 0..8 {
        let is_held = |sim: &Sim| sim.holder("/lock").is_some();
        if !sim.run_until(1_000 * MS, is_held) {
            break;
        }
        sim.advance(40 * MS);
        if let Some(client) = sim.holder("/lock") {
            release(&mut sim, client, attempts[client]);
        }
        sim.advance(2 * MS);
    }
    sim.advance(50 * MS);
    timeline(&sim)
}

fn timeline(sim: &Sim) -> String {
    let view = View { from: 1_990 * MS, to: None, lock: None };
    picture::svg(sim, &view)
}

fn herd() -> String {
    turns(Some(Bug::WatchesParent))
}

fn no_herd() -> String {
    turns(None)
}

fn semaphore() -> String {
    let mut sim = connected(4, 1, None);
    let kind = |count| LockKind::Permits { count, of: 3 };
    let attempts: Vec<_> = [2, 1, 2, 1]
        .into_iter()
        .enumerate()
        .map(|(client, count)| {
            let attempt = contend(&mut sim, client, kind(count));
            sim.advance(20 * MS);
            attempt
        })
        .collect();
    for (client, attempt) in attempts.into_iter().enumerate() {
        sim.advance(80 * MS);
        release(&mut sim, client, attempt);
    }
    sim.advance(80 * MS);
    timeline(&sim)
}
