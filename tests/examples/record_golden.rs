//! Records golden connections with a real ZooKeeper 3.8.0 through `zk-explain --proxy`: replies to
//! requests that no other recorded client sends (`3.8.0-zkproto-...`), and a lock that `zk-lock`
//! and Curator take in turns (`3.8.0-...-turns`).
//!
//! ```sh
//! cargo run -p zk-testkit --example record_golden -- crates/zk-proto/tests/golden
//! ```

use std::error::Error;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest,
    ConnectRequest, CreateMode, CreateRequest, CreateTtlRequest, Decode, DeleteContainerRequest,
    DeleteRequest, Encode, ExistsRequest, GetAclRequest, GetAllChildrenNumberRequest,
    GetChildrenRequest, GetDataRequest, GetEphemeralsRequest, GetSaslRequest, Id, List, Multi,
    MultiOp, MultiReadOp, OpCode, Password, Perms, ReconfigRequest, RemoveWatchesRequest,
    ReplyHeader, Request, RequestHeader, SessionId, SetAclRequest, SetDataRequest, SetWatches,
    SetWatches2, SyncRequest, WatcherType, Xid, Zxid, frame,
};
use zk_recipes::Mutex;
use zk_session::Client as Session;
use zk_testkit::explained::{Proxy, take_turns};
use zk_testkit::peers::Peer;
use zk_testkit::real::{RealEnsemble, Settings};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result {
    let directory = std::env::args().nth(1).ok_or("usage: record_golden <directory>")?;
    let directory = Path::new(&directory);

    let server = RealEnsemble::start(1)?;
    let address = server.address(0);
    record(directory, "3.8.0-zkproto-every", &address, every_operation)?;
    record(directory, "3.8.0-zkproto-multi", &address, multis)?;
    record(directory, "3.8.0-zkproto-watches", &address, watches)?;
    record(directory, "3.8.0-zkproto-limits", &address, limits)?;
    record(directory, "3.8.0-zkproto-unicode", &address, unicode)?;
    record(directory, "3.8.0-zkproto-wrong", &address, wrong)?;
    for (name, body) in [
        ("3.8.0-zkproto-wrong-auth", (OpCode::AUTH, &b"\0\0"[..])),
        ("3.8.0-zkproto-wrong-sasl", (OpCode::SASL, b"\x7f\0\0\0")),
        ("3.8.0-zkproto-null-sasl", (OpCode::SASL, b"\xff\xff\xff\xff")),
        ("3.8.0-zkproto-wrong-opcode", (OpCode::ERROR, b"")),
    ] {
        record(directory, name, &address, |client| client.raw(body.0, body.1))?;
    }
    record_lock(directory, &address)?;
    record_turns(directory)?;
    record_nulls(directory, server)?;

    let extra = "enforce.auth.enabled=true\nenforce.auth.schemes=digest\n".to_owned();
    let server = RealEnsemble::with_settings(Settings { extra, ..Settings::default() })?;
    record(directory, "3.8.0-zkproto-enforced", &server.address(0), |client| {
        client.ask(Request::Auth(digest(b"ann:secret")))?;
        client.ask(exists("/"))?;
        client.end()
    })?;
    record(directory, "3.8.0-zkproto-enforced.2", &server.address(0), |client| {
        client.ask(exists("/"))
    })
}

/// Records our own client as it waits for a lock, holds it and releases it. The protocol guide
/// shows this recording.
fn record_lock(directory: &Path, address: &str) -> Result {
    let recording = Recording::start("3.8.0-zkproto-lock", address)?;
    let through = recording.proxy.address();
    tokio::runtime::Runtime::new()?.block_on(async {
        let (other, ours) = (Session::connect(address).await?, Session::connect(through).await?);
        let held = Mutex::new(&other, "/lock")?.acquire().await?;
        let lock = Mutex::new(&ours, "/lock")?;
        let waiting = tokio::spawn(async move { lock.acquire().await });
        // So that everything that it does while it waits comes before the lock is released.
        tokio::time::sleep(Duration::from_millis(300)).await;
        held.release().await?;
        waiting.await??.release().await?;
        ours.close().await;
        other.close().await;
        Result::Ok(())
    })?;
    recording.save(directory)
}

/// Records three processes that take one lock in turns. The guide draws this recording.
fn record_turns(directory: &Path) -> Result {
    println!("3.8.0-...-turns");
    let (server, folder) = (RealEnsemble::start(1)?, TempDir::new()?);
    let curator = Peer::Curator.find()?;
    tokio::runtime::Runtime::new()?.block_on(take_turns(&server, &curator, folder.path()));
    for (number, name) in
        [(1, "3.8.0-zklock-turns"), (2, "3.8.0-curator5.4.0-turns"), (3, "3.8.0-zklock-turns.2")]
    {
        save(folder.path(), number, directory, name)?;
    }
    Ok(())
}

/// A server keeps a connection with a watch on a null path open until the server itself ends.
fn record_nulls(directory: &Path, server: RealEnsemble) -> Result {
    let recording = Recording::start("3.8.0-zkproto-null", &server.address(0))?;
    nulls(&mut Client::connect(recording.proxy.address())?)?;
    drop(server);
    recording.save(directory)
}

// ---- The scripts -------------------------------------------------------------------------------

fn every_operation(client: &mut Client) -> Result {
    let acl = List::new(&[Acl::OPEN]);
    client.ask(create("/every", CreateMode::PERSISTENT))?;
    client.ask(Request::Create2(new("/every/e", CreateMode::EPHEMERAL)))?;
    client.ask(Request::CreateContainer(new("/every/c", CreateMode::CONTAINER)))?;
    client.ask(Request::CreateTtl(lasting("/every/t", CreateMode::PERSISTENT_WITH_TTL, 60_000)))?;
    client.ask(exists("/every"))?;
    client.ask(get_data("/every"))?;
    let data = Some(&b"changed"[..]);
    client.ask(Request::SetData(SetDataRequest { path: "/every", data, version: 0 }))?;
    client.ask(Request::GetAcl(GetAclRequest { path: "/every" }))?;
    client.ask(Request::SetAcl(SetAclRequest { path: "/every", acl, version: 0 }))?;
    let list = GetChildrenRequest { path: "/every", watch: false };
    client.ask(Request::GetChildren(list))?;
    client.ask(Request::GetChildren2(list))?;
    client.ask(Request::Sync(SyncRequest { path: "/every" }))?;
    client.ask(Request::Ping(()))?;
    // A check that succeeds would not be answered.
    client.ask(Request::Check(CheckVersionRequest { path: "/every", version: 7 }))?;
    client.ask(Request::Check(CheckVersionRequest { path: "/missing", version: -1 }))?;
    client.ask(Request::Multi(Multi::new(&[MultiOp::Check(CheckVersionRequest {
        path: "/every",
        version: 1,
    })])))?;
    client.ask(Request::MultiRead(Multi::new(&[MultiReadOp::GetData(GetDataRequest {
        path: "/every",
        watch: false,
    })])))?;
    let change = ReconfigRequest {
        joining_servers: Some("server.9=127.0.0.1:1:2:participant;3"),
        leaving_servers: None,
        new_members: None,
        cur_config_id: -1,
    };
    client.ask(Request::Reconfig(change))?;
    let (path, mode) = ("/every", AddWatchMode::PERSISTENT);
    client.ask(Request::AddWatch(AddWatchRequest { path, mode }))?;
    let watcher_type = WatcherType::ANY;
    client.ask(Request::CheckWatches(CheckWatchesRequest { path, watcher_type }))?;
    client.ask(Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type }))?;
    client.ask(Request::CheckWatches(CheckWatchesRequest { path, watcher_type }))?;
    client.ask(Request::SetWatches(SetWatches {
        relative_zxid: Zxid(1),
        data_watches: List::new(&["/every"]),
        exist_watches: List::default(),
        child_watches: List::new(&["/every/c"]),
    }))?;
    client.ask(Request::SetWatches2(SetWatches2 {
        relative_zxid: Zxid(i64::MAX),
        data_watches: List::new(&["/every"]),
        exist_watches: List::new(&["/missing"]),
        child_watches: List::new(&["/every/c"]),
        persistent_watches: List::new(&["/every/t"]),
        persistent_recursive_watches: List::new(&["/every/e", "/elsewhere"]),
    }))?;
    client.ask(Request::DeleteContainer(DeleteContainerRequest { path: "/every/c" }))?;
    client.ask(Request::Auth(digest(b"ann:secret")))?;
    client.ask(Request::WhoAmI(()))?;
    client.ask(Request::Sasl(GetSaslRequest { token: Some(b"") }))?;
    for prefix_path in [None, Some(""), Some("/"), Some("/every"), Some("/ev"), Some("/other")] {
        client.ask(Request::GetEphemerals(GetEphemeralsRequest { prefix_path }))?;
    }
    for path in ["/", "/every", "/every/e", "/missing"] {
        client.ask(Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path }))?;
    }
    client.ask(delete("/every/t"))?;
    client.end()
}

fn multis(client: &mut Client) -> Result {
    client.ask(Request::Multi(Multi::new(&[
        MultiOp::Create(new("/multi", CreateMode::PERSISTENT)),
        MultiOp::Create(new("/multi/s-", CreateMode::PERSISTENT_SEQUENTIAL)),
        MultiOp::Create2(new("/multi/e", CreateMode::EPHEMERAL)),
        MultiOp::CreateContainer(new("/multi/c", CreateMode::CONTAINER)),
        MultiOp::CreateTtl(lasting("/multi/t", CreateMode::PERSISTENT_WITH_TTL, 1)),
        MultiOp::CreateTtl(lasting("/multi/t", CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL, 1)),
        MultiOp::SetData(SetDataRequest { path: "/multi", data: None, version: 0 }),
        MultiOp::Check(CheckVersionRequest { path: "/multi", version: 1 }),
        MultiOp::Delete(DeleteRequest { path: "/multi/e", version: -1 }),
    ])))?;
    let keeps = MultiOp::Check(CheckVersionRequest { path: "/multi", version: 1 });
    client.ask(Request::Multi(Multi::new(&[
        keeps,
        MultiOp::SetData(SetDataRequest { path: "/multi", data: None, version: 9 }),
        keeps,
    ])))?;
    client.ask(Request::Multi(Multi::new(&[])))?;
    client.ask(Request::MultiRead(Multi::new(&[
        MultiReadOp::GetData(GetDataRequest { path: "/multi", watch: false }),
        MultiReadOp::GetData(GetDataRequest { path: "/missing", watch: true }),
        MultiReadOp::GetChildren(GetChildrenRequest { path: "/multi", watch: true }),
        MultiReadOp::GetChildren(GetChildrenRequest { path: "/missing", watch: false }),
    ])))?;
    client.ask(Request::MultiRead(Multi::new(&[])))?;
    client.end()
}

fn watches(client: &mut Client) -> Result {
    for (path, mode) in
        [("/watched", AddWatchMode::PERSISTENT), ("/", AddWatchMode::PERSISTENT_RECURSIVE)]
    {
        client.ask(Request::AddWatch(AddWatchRequest { path, mode }))?;
    }
    client.ask(create("/watched", CreateMode::PERSISTENT))?;
    client.ask(create("/watched/a", CreateMode::PERSISTENT))?;
    client.ask(delete("/watched/a"))?;
    client.ask(delete("/watched"))?;
    for watcher_type in (1..=6).chain([0, -1]).map(WatcherType) {
        let path = "/watched";
        client.ask(Request::CheckWatches(CheckWatchesRequest { path, watcher_type }))?;
        client.ask(Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type }))?;
    }
    for mode in [2, -1].map(AddWatchMode) {
        client.ask(Request::AddWatch(AddWatchRequest { path: "/watched", mode }))?;
    }
    client.end()
}

fn limits(client: &mut Client) -> Result {
    for (mode, ttl) in [
        (CreateMode::PERSISTENT_WITH_TTL, 0),
        (CreateMode::PERSISTENT_WITH_TTL, -1),
        (CreateMode::PERSISTENT_WITH_TTL, 0xff_ffff_ffff),
        (CreateMode::PERSISTENT_WITH_TTL, 0x100_0000_0000),
        (CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL, 1),
        (CreateMode::PERSISTENT, -1),
        (CreateMode::PERSISTENT, 0),
        (CreateMode::EPHEMERAL, 1),
        (CreateMode::CONTAINER, -1),
        (CreateMode(7), 1),
    ] {
        client.ask(Request::CreateTtl(lasting("/limit", mode, ttl)))?;
    }
    for mode in (0..=7).map(CreateMode) {
        for request in [
            create("/mode-", mode),
            Request::Create2(new("/mode-2-", mode)),
            Request::CreateContainer(new("/mode-c-", mode)),
        ] {
            client.ask(request)?;
        }
    }
    client.end()
}

fn nulls(client: &mut Client) -> Result {
    client.ask(Request::Create(CreateRequest {
        data: None,
        ..new("/null", CreateMode::PERSISTENT)
    }))?;
    client.ask(get_data("/null"))?;
    client.ask(Request::SetData(SetDataRequest { path: "/null", data: None, version: -1 }))?;
    let null = |scheme| Acl { perms: Perms::ALL, id: Id { scheme, id: None } };
    for acl in [&[null("world")][..], &[null("auth")], &[null("digest")], &[null("ip")], &[]] {
        let (path, acl) = ("/null", List::new(acl));
        client.ask(Request::SetAcl(SetAclRequest { path, acl, version: -1 }))?;
    }
    let (path, acl) = ("/null", List::NULL);
    client.ask(Request::SetAcl(SetAclRequest { path, acl, version: -1 }))?;
    client.ask(Request::SetWatches(SetWatches {
        relative_zxid: Zxid::ZERO,
        data_watches: List::NULL,
        exist_watches: List::NULL,
        child_watches: List::NULL,
    }))?;
    client.ask(Request::Reconfig(ReconfigRequest {
        joining_servers: None,
        leaving_servers: None,
        new_members: None,
        cur_config_id: 0,
    }))?;
    // Strings that may not be null in our records.
    let null = (-1i32).to_be_bytes();
    for opcode in [OpCode::GET_ACL, OpCode::SYNC, OpCode::GET_ALL_CHILDREN_NUMBER] {
        client.raw(opcode, &null)?;
    }
    for opcode in [OpCode::EXISTS, OpCode::GET_DATA, OpCode::GET_CHILDREN] {
        client.raw(opcode, &[&null[..], &[0]].concat())?;
    }
    for opcode in [OpCode::DELETE, OpCode::ADD_WATCH, OpCode::REMOVE_WATCHES] {
        client.raw(opcode, &[null, [0; 4]].concat())?;
    }
    client.end()
}

/// Java writes characters beyond the first plane as two surrogates of three bytes each.
fn unicode(client: &mut Client) -> Result {
    client.ask(create("/ünï-漢", CreateMode::PERSISTENT))?;
    client.ask(create("/smile-😀", CreateMode::PERSISTENT))?;
    let path = "/ünï-漢";
    let id = Id { scheme: "digest", id: Some("😀:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=") };
    let acl = [Acl::OPEN, Acl { perms: Perms::READ, id }];
    let acl = List::new(&acl);
    client.ask(Request::SetAcl(SetAclRequest { path, acl, version: -1 }))?;
    client.ask(Request::GetAcl(GetAclRequest { path }))?;
    client.ask(Request::Sync(SyncRequest { path: "😀" }))?;
    client.ask(Request::Auth(digest("ünï-漢:secret".as_bytes())))?;
    client.ask(Request::WhoAmI(()))?;
    client.ask(Request::Auth(digest("😀:secret".as_bytes())))?;
    client.ask(Request::WhoAmI(()))?;
    client.end()
}

/// Sends bodies that are not the record of their operation. The server keeps the connection.
fn wrong(client: &mut Client) -> Result {
    for opcode in OpCode::REQUESTS {
        let is_bodiless =
            matches!(*opcode, OpCode::PING | OpCode::WHO_AM_I | OpCode::CLOSE_SESSION);
        let costs_the_connection = matches!(*opcode, OpCode::AUTH | OpCode::SASL);
        if !is_bodiless && !costs_the_connection {
            client.raw(*opcode, b"\x7f\xff\xff\xff")?;
        }
    }
    // Bytes behind the record, which servers ignore.
    client.raw(OpCode::SYNC, b"\0\0\0\x01/and more")?;
    client.raw(OpCode::PING, b"and more")?;
    // Not UTF-8, which Java replaces.
    client.raw(OpCode::SYNC, b"\0\0\0\x02/\xff")?;
    client.raw(OpCode::SYNC, b"\0\0\0\x07/\xed\xa0\xbd\xed\xb8\x80")?;
    // A read in a multi, a write in a multiRead, a multi in a multi, and an unknown operation.
    for (outer, inner) in
        [(OpCode::MULTI, 4), (OpCode::MULTI_READ, 2), (OpCode::MULTI, 14), (OpCode::MULTI, 99)]
    {
        let header = [&i32::to_be_bytes(inner)[..], b"\0\xff\xff\xff\xff"].concat();
        let record = b"\0\0\0\x02/a\0\0\0\0";
        let end = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff";
        client.raw(outer, &[&header[..], record, end].concat())?;
    }
    // A multi without an end.
    client.raw(OpCode::MULTI, b"\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\x01/\xff\xff\xff\xff")?;
    client.end()
}

// ---- What they ask for -------------------------------------------------------------------------

fn new(path: &str, mode: CreateMode) -> CreateRequest<'_> {
    CreateRequest { path, data: Some(b"data"), acl: List::new(&[Acl::OPEN]), mode }
}

fn lasting(path: &str, mode: CreateMode, ttl: i64) -> CreateTtlRequest<'_> {
    CreateTtlRequest { path, data: Some(b"data"), acl: List::new(&[Acl::OPEN]), mode, ttl }
}

fn create(path: &str, mode: CreateMode) -> Request<'_> {
    Request::Create(new(path, mode))
}

fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version: -1 })
}

fn exists(path: &str) -> Request<'_> {
    Request::Exists(ExistsRequest { path, watch: false })
}

fn get_data(path: &str) -> Request<'_> {
    Request::GetData(GetDataRequest { path, watch: false })
}

fn digest(auth: &[u8]) -> AuthPacket<'_> {
    AuthPacket { auth_type: 0, scheme: "digest", auth: Some(auth) }
}

// ---- The recording -----------------------------------------------------------------------------

fn record(
    directory: &Path,
    name: &str,
    address: &str,
    script: impl FnOnce(&mut Client) -> Result,
) -> Result {
    let recording = Recording::start(name, address)?;
    script(&mut Client::connect(recording.proxy.address())?)?;
    recording.save(directory)
}

/// One connection through `zk-explain`.
struct Recording<'n> {
    name: &'n str,
    proxy: Proxy,
    folder: TempDir,
}

impl<'n> Recording<'n> {
    fn start(name: &'n str, address: &str) -> Result<Self> {
        println!("{name}");
        let folder = TempDir::new()?;
        Ok(Self { name, proxy: Proxy::start(address, 1, folder.path()), folder })
    }

    /// Waits for the end of the connection, and saves it.
    fn save(self, directory: &Path) -> Result {
        self.proxy.end();
        save(self.folder.path(), 1, directory, self.name)
    }
}

/// Copies the files of a connection to `directory`.
fn save(folder: &Path, connection: usize, directory: &Path, name: &str) -> Result {
    for ending in ["c2s", "s2c", "seq"] {
        let recorded = folder.join(format!("{connection:04}.{ending}"));
        fs::copy(recorded, directory.join(format!("{name}.{ending}")))?;
    }
    Ok(())
}

/// A connection that sends one request at a time.
struct Client {
    stream: TcpStream,
    xid: Xid,
}

impl Client {
    fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut client = Self { stream, xid: Xid(0) };
        client.send(&ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout: 10_000,
            session_id: SessionId::NONE,
            password: Some(&Password::NONE.0),
            read_only: Some(false),
        })?;
        client.receive()?;
        Ok(client)
    }

    fn ask(&mut self, request: Request<'_>) -> Result {
        let xid = match request {
            Request::Ping(()) => Xid::PING,
            Request::Auth(_) => Xid::AUTH,
            _ => {
                self.xid = self.xid.next();
                self.xid
            }
        };
        self.send(&(RequestHeader { xid, opcode: request.opcode() }, request))?;
        self.receive_reply(xid)
    }

    /// Sends a request with an arbitrary body.
    fn raw(&mut self, opcode: OpCode, body: &[u8]) -> Result {
        self.xid = self.xid.next();
        let xid = if opcode == OpCode::PING { Xid::PING } else { self.xid };
        let payload = [&xid.0.to_be_bytes()[..], &opcode.0.to_be_bytes(), body].concat();
        self.write(&[&u32::try_from(payload.len())?.to_be_bytes()[..], &payload].concat())?;
        self.receive_reply(xid)
    }

    fn end(&mut self) -> Result {
        self.ask(Request::CloseSession(()))
    }

    fn send(&mut self, message: &impl Encode) -> Result {
        let mut frame = vec![0; frame::PREFIX_LEN + message.encoded_len()];
        frame::encode_to_slice(message, &mut frame)?;
        self.write(&frame)
    }

    fn write(&mut self, frame: &[u8]) -> Result {
        Ok(self.stream.write_all(frame)?)
    }

    /// Receives frames up to the reply to `xid`, or to the end of the connection.
    fn receive_reply(&mut self, xid: Xid) -> Result {
        while let Some(payload) = self.receive()? {
            let mut payload = zk_proto::Reader::new(&payload);
            let header = ReplyHeader::decode(&mut payload)?;
            if header.xid == xid {
                let is_bare = payload.rest().is_empty();
                println!("  {xid}: {}{}", header.err, if is_bare { "" } else { " and a body" });
                return Ok(());
            }
        }
        println!("  {xid}: the end");
        Ok(())
    }

    /// Receives one frame. Returns its payload.
    fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let mut prefix = [0; frame::PREFIX_LEN];
        match self.stream.read_exact(&mut prefix) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes(prefix))?];
        self.stream.read_exact(&mut payload)?;
        Ok(Some(payload))
    }
}
