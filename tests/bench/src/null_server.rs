//! A server that answers with prepared bytes, as fast as it can.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{mem, thread};

use zk_proto::{
    ConnectResponse, Create2Response, Decode, Encode, ErrorCode, EventType, GetDataRequest,
    GetDataResponse, KeeperState, OpCode, Reader, ReplyHeader, RequestHeader, SessionId,
    SetDataResponse, Stat, WatcherEvent, Xid, Zxid, frame,
};

use crate::work::{DATA, PATH};

pub(crate) fn run() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?);
    let watchers = Arc::<Watchers>::default();
    for stream in listener.incoming() {
        let (stream, watchers) = (stream?, watchers.clone());
        // A client that disconnects ends only its thread.
        thread::spawn(move || serve(stream, &watchers));
    }
    Ok(())
}

/// All connections that may have set watches.
type Watchers = Mutex<Vec<Weak<Watcher>>>;

/// A connection, and the events of all nodes that it has read with a watch.
struct Watcher {
    stream: Mutex<TcpStream>,
    events: Mutex<Vec<u8>>,
}

impl Watcher {
    fn new(stream: &TcpStream, watchers: &Watchers) -> io::Result<Arc<Self>> {
        let stream = Mutex::new(stream.try_clone()?);
        let watcher = Arc::new(Self { stream, events: Mutex::default() });
        lock(watchers).push(Arc::downgrade(&watcher));
        Ok(watcher)
    }

    fn send(&self, frames: &[u8]) -> io::Result<()> {
        lock(&self.stream).write_all(frames)
    }
}

/// Sends the events of all watched nodes, for any transaction.
fn notify_all(watchers: &Watchers) {
    lock(watchers).retain(|watcher| {
        let Some(watcher) = watcher.upgrade() else {
            return false;
        };
        let events = mem::take(&mut *lock(&watcher.events));
        watcher.send(&events).is_ok()
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The position of the xid in the frame of a reply.
const XID: core::ops::Range<usize> = frame::PREFIX_LEN..frame::PREFIX_LEN + 4;

fn serve(mut stream: TcpStream, watchers: &Watchers) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let watcher = Watcher::new(&stream, watchers)?;
    let connected = ConnectResponse {
        protocol_version: 0,
        timeout: 30_000,
        session_id: SessionId(1),
        password: Some(&[1; 16]),
        read_only: Some(false),
    };
    let mut handshake = Vec::new();
    frame::encode(&connected, &mut handshake).map_err(io::Error::other)?;
    let stat = Stat { data_length: DATA.len() as i32, ..Stat::default() };
    let data = reply(Xid(0), &GetDataResponse { data: Some(&DATA), stat });
    let set = reply(Xid(0), &SetDataResponse { stat });
    let created = reply(Xid(0), &Create2Response { path: PATH, stat });
    let bare = reply(Xid(0), &());

    let (mut input, mut filled) = (vec![0; 1 << 20], 0);
    let mut output = Vec::new();
    let mut first = true;
    loop {
        let count = stream.read(&mut input[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let mut rest = &input[..filled];
        output.clear();
        while let Ok(Some((payload, behind))) = frame::split(rest, frame::DEFAULT_LIMIT) {
            rest = behind;
            if mem::take(&mut first) {
                output.extend_from_slice(&handshake);
                continue;
            }
            let mut reader = Reader::new(payload);
            let header = RequestHeader::decode(&mut reader).map_err(io::Error::other)?;
            let prepared = match header.opcode {
                OpCode::GET_DATA => {
                    if let Ok(GetDataRequest { path, watch: true }) = Decode::decode(&mut reader) {
                        lock(&watcher.events).extend(event(path));
                    }
                    &data
                }
                OpCode::SET_DATA => &set,
                OpCode::CREATE | OpCode::CREATE2 => &created,
                OpCode::MULTI => {
                    notify_all(watchers);
                    &bare
                }
                _ => &bare,
            };
            let start = output.len();
            output.extend_from_slice(prepared);
            output[start..][XID].copy_from_slice(&header.xid.0.to_be_bytes());
        }
        let left = rest.len();
        input.copy_within(filled - left..filled, 0);
        filled = left;
        watcher.send(&output)?;
    }
}

fn event(path: &str) -> Vec<u8> {
    let event_type = EventType::NODE_DATA_CHANGED;
    reply(Xid::NOTIFICATION, &WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path })
}

fn reply(xid: Xid, body: &impl Encode) -> Vec<u8> {
    let header = ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK };
    let mut frame = Vec::new();
    frame::encode(&(header, body), &mut frame).expect("a reply below 2 GiB");
    frame
}
