//! The fuzz targets `server` and `stream`: the in-memory ensemble under hostile clients and faults.

use alloc::vec::Vec;
use core::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use zk_proto::conversation::{Conversation, Direction, Kind};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, RequestHeader, SessionId, Xid, Zxid, frame, owned,
};

use crate::server::{Config, ConnId, Ensemble, Output, Version};

/// The maximum number of steps in a run.
const STEPS: usize = 400;
/// The maximum number of connections at a time.
const CONNECTIONS: usize = 4;
const VERSIONS: [Version; 5] =
    [Version::V3_4, Version::V3_5, Version::V3_6, Version::V3_8, Version::V3_9];

struct Peer {
    conn: ConnId,
    conversation: Conversation,
    next_xid: i32,
    /// Whether it has sent bytes that are no frames of this target.
    is_hostile: bool,
}

struct World {
    ensemble: Ensemble,
    now: Duration,
    peers: Vec<Peer>,
    /// Sessions with their passwords.
    sessions: Vec<(SessionId, Vec<u8>)>,
    zxid: Zxid,
}

/// Runs an ensemble whose clients, clock and faults follow `data`.
///
/// Every frame of the ensemble is valid, and is a reply to a request or a watch event. Zxids never
/// go back.
pub fn server(data: &[u8]) {
    let mut input = Unstructured::new(data);
    // The end of the input is the end of the run.
    let _ = run(&mut input);
}

/// Runs an ensemble whose only client sends `data`, as recordings have it.
///
/// The ensemble does not panic, and sends whole frames only.
pub fn stream(data: &[u8]) {
    let config = Config { seed: 1, frame_limit: 4_096, ..Config::servers(1) };
    let mut ensemble = Ensemble::new(config);
    let Some(conn) = ensemble.handle_connect(0) else { return };
    ensemble.handle_bytes(Duration::ZERO, conn, data);
    while let Some(output) = ensemble.poll_output() {
        if let Output::Send { frame, .. } = output {
            assert!(matches!(frame::split(&frame, frame.len()), Ok(Some((_, [])))), "{frame:?}");
        }
    }
}

fn run(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let config = Config {
        seed: 1,
        version: *input.choose(&VERSIONS)?,
        read_only_mode: input.arbitrary()?,
        local_sessions: input.arbitrary()?,
        frame_limit: 4_096,
        ..Config::servers(input.int_in_range(1..=3)?)
    };
    let mut world = World {
        ensemble: Ensemble::new(config),
        now: Duration::ZERO,
        peers: Vec::new(),
        sessions: Vec::new(),
        zxid: Zxid::ZERO,
    };
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        world.step(input)?;
        world.receive();
        assert!(world.ensemble.zxid() >= world.zxid, "a zxid went back");
        world.zxid = world.ensemble.zxid();
    }
    Ok(())
}

impl World {
    fn step(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let server = input.int_in_range(0..=2)?;
        match input.int_in_range(0..=15_u8)? {
            0 | 1 if self.peers.len() < CONNECTIONS => self.connect(server, input)?,
            2..=9 if !self.peers.is_empty() => {
                let peer = input.choose_index(self.peers.len())?;
                // Several in one piece, as a client that pipelines sends them.
                let mut bytes = Vec::new();
                for _ in 0..input.int_in_range(1..=3)? {
                    let request = owned::Request::arbitrary(input)?;
                    let xid = self.peers[peer].next_xid;
                    self.peers[peer].next_xid += 1;
                    let header = RequestHeader { xid: Xid(xid), opcode: request.opcode() };
                    let _ = frame::encode(&(header, request), &mut bytes);
                }
                self.send(peer, &bytes);
            }
            10 if !self.peers.is_empty() => {
                let peer = input.choose_index(self.peers.len())?;
                let length = input.int_in_range(0..=40)?;
                let bytes = input.bytes(length)?;
                self.peers[peer].is_hostile = true;
                self.send(peer, bytes);
            }
            11 if !self.peers.is_empty() => {
                let peer = self.peers.swap_remove(input.choose_index(self.peers.len())?);
                self.ensemble.handle_disconnect(peer.conn);
            }
            12 => {
                self.now += Duration::from_millis(input.int_in_range(0..=30_000)?);
                self.ensemble.handle_timeout(self.now);
            }
            13 => self.ensemble.kill(self.now, server),
            14 => self.ensemble.restart(self.now, server),
            _ => match input.int_in_range(0..=4)? {
                0 => self.ensemble.hold(server),
                1 => {
                    self.ensemble.step(self.now, server);
                }
                2 => self.ensemble.release(self.now, server),
                3 => self.ensemble.cut_off(self.now, server),
                _ => self.ensemble.reunite(self.now, server),
            },
        }
        Ok(())
    }

    /// Opens a connection, for a new session or an old one.
    fn connect(&mut self, server: usize, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let Some(conn) = self.ensemble.handle_connect(server) else { return Ok(()) };
        let conversation = Conversation::new(frame::DEFAULT_LIMIT);
        self.peers.push(Peer { conn, conversation, next_xid: 1, is_hostile: false });
        let (session_id, password) = match self.sessions.is_empty() || input.arbitrary()? {
            true => (SessionId::NONE, alloc::vec![0; 16]),
            false => input.choose(&self.sessions)?.clone(),
        };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(input.int_in_range(0..=8)?),
            timeout: input.int_in_range(0..=60_000)?,
            session_id,
            password: Some(&password),
            read_only: *input.choose(&[None, Some(false), Some(true)])?,
        };
        let mut bytes = Vec::new();
        let _ = frame::encode(&request, &mut bytes);
        self.send(self.peers.len() - 1, &bytes);
        Ok(())
    }

    fn send(&mut self, peer: usize, bytes: &[u8]) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        let mut rest = bytes;
        while !peer.is_hostile
            && let Ok(Some((_, behind))) = peer.conversation.read(Direction::ToServer, rest)
        {
            rest = behind;
        }
        self.ensemble.handle_bytes(self.now, peer.conn, bytes);
    }

    /// Checks everything that the ensemble sends.
    fn receive(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Close { conn } => self.peers.retain(|peer| peer.conn != conn),
                Output::Send { conn, frame } => {
                    let Some(peer) = self.peers.iter_mut().find(|peer| peer.conn == conn) else {
                        continue;
                    };
                    if peer.is_hostile {
                        continue;
                    }
                    let read = peer.conversation.read(Direction::ToClient, &frame);
                    let Ok(Some((message, []))) = read else {
                        panic!("not one frame: {frame:?}");
                    };
                    let explained = message.explain(&mut |_| {});
                    assert!(explained.is_ok(), "{explained:?}: {message:?}");
                    match message.kind {
                        Kind::Reply { .. } | Kind::Notification(_) | Kind::Refusal(_) => {}
                        Kind::ConnectResponse => {
                            let response = ConnectResponse::decode_all(message.payload());
                            if let Ok(response) = response.as_ref()
                                && !response.is_expired()
                            {
                                let password = response.password.unwrap_or_default().to_vec();
                                self.sessions.push((response.session_id, password));
                            }
                        }
                        kind => panic!("nobody asked for {kind:?}"),
                    }
                }
            }
        }
    }
}
