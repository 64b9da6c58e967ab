//! Connections found in a packet capture.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use zk_proto::conversation::Direction;
use zk_proto::{ConnectRequest, ConnectResponse, Decode, frame};

use crate::Failure;
use crate::output::{Output, complain};
use crate::packet::{Other, Packets, Segment};
use crate::pcap_writer::PORT;

/// The longest block of a capture that is read. Packets are shorter than 256 KiB.
const LONGEST_BLOCK: usize = 1 << 24;
/// The packets that are read ahead, because a capture may have a packet behind its reply.
const AHEAD: usize = 256;
/// The bytes of one direction that may wait for a packet that has not been captured, including
/// [`OVERHEAD`] for each packet that waits.
const WAITING: usize = 1 << 20;
/// What a waiting packet counts in addition to its bytes.
const OVERHEAD: usize = 256;
/// The lengths that the frame of a handshake may have, with a password of up to 16 bytes.
const HANDSHAKE: RangeInclusive<u32> = 28..=45;

/// Opens a capture, which may be compressed, or the standard input if the name is `-`.
fn open(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    let input: Box<dyn Read + Send> = match file.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(file).map_err(|error| format!("{}: {error}", file.display()))?),
    };
    let mut input = BufReader::with_capacity(1 << 16, input);
    let start = input.fill_buf().map_err(|error| format!("{}: {error}", file.display()))?;
    if start.is_empty() {
        return Err(format!("{} is empty", file.display()).into());
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Err(format!("{} is compressed: use `zstd -dc` first", file.display()).into());
    }
    let is_compressed = start.starts_with(&[0x1f, 0x8b]);
    Ok(if is_compressed { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) })
}

/// Shows the connections of a capture.
pub(crate) fn read(file: &Path, port: Option<u16>, output: &mut Output) -> Result<(), Failure> {
    let broken = |error: &dyn std::fmt::Debug| format!("{}: {error:?}", file.display());
    let mut buffer = 1 << 16;
    let mut reader = create_reader(buffer, open(file)?)
        .map_err(|_| format!("{} is not a packet capture", file.display()))?;
    let mut flows = Flows { port, ..Flows::default() };
    let (mut link, mut is_nano) = (Linktype::ETHERNET, false);
    // The link types and the time units of the interfaces of a pcapng file.
    let mut interfaces = Vec::new();
    // Packets without a time have that of the one before them.
    let mut time = Duration::ZERO;
    loop {
        let (length, block) = match reader.next() {
            Ok(next) => next,
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => {
                let before = reader.data().len();
                let grows = buffer < LONGEST_BLOCK && reader.grow(2 * buffer);
                buffer *= 1 + usize::from(grows);
                if reader.refill().is_ok() && reader.data().len() > before {
                    continue;
                }
                if before > 0 {
                    complain("note", "the capture ends within a packet");
                }
                break;
            }
            Err(PcapError::UnexpectedEof) => {
                complain("note", "the capture ends within a packet");
                break;
            }
            Err(error) => return Err(broken(&error).into()),
        };
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                link = header.network;
                is_nano = header.is_nanosecond_precision();
            }
            PcapBlockOwned::Legacy(packet) => {
                let unit = if is_nano { 1 } else { 1000 };
                let nanos = u64::from(packet.ts_usec) * unit;
                time = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(nanos);
                flows.cut += usize::from(packet.caplen < packet.origlen);
                flows.packet(link, packet.data, time, output)?;
            }
            // Several captures, one behind the other.
            PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let per_second = interface.ts_resolution().unwrap_or(1_000_000);
                interfaces.push((interface.linktype, per_second, interface.ts_offset()));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some((link, per_second, offset)) = interfaces.get(packet.if_id as usize) else {
                    return Err(broken(&"a packet of an unknown interface").into());
                };
                let since = packet.decode_ts_f64(0, *per_second);
                let since = Duration::try_from_secs_f64(since).unwrap_or_default();
                let shift = Duration::from_secs(offset.unsigned_abs());
                time = match offset {
                    0.. => since.saturating_add(shift),
                    _ => since.saturating_sub(shift),
                };
                flows.cut += usize::from(packet.caplen < packet.origlen);
                flows.packet(*link, packet.packet_data(), time, output)?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let Some((link, ..)) = interfaces.first() else {
                    return Err(broken(&"a packet of an unknown interface").into());
                };
                let data = packet.packet_data();
                flows.cut += usize::from(data.len() < packet.origlen as usize);
                flows.untimed += 1;
                flows.packet(*link, data, time, output)?;
            }
            PcapBlockOwned::NG(_) => {}
        }
        reader.consume(length);
    }
    flows.finish(output)
}

type Ends = (SocketAddr, SocketAddr);

#[derive(Default)]
struct Flows {
    port: Option<u16>,
    packets: Packets,
    /// The segments that were read ahead.
    ahead: VecDeque<Captured>,
    /// The connections by their client and their server.
    flows: HashMap<Ends, Flow>,
    count: usize,
    /// The connections that were shown.
    shown: usize,
    /// The connections left out.
    others: usize,
    /// The packets that were not captured to their end.
    cut: usize,
    /// The packets without a time.
    untimed: usize,
    /// The packets without a segment of TCP.
    left_out: BTreeMap<Other, usize>,
}

/// A segment, with when it was captured.
struct Captured {
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    acknowledged: Option<u32>,
    is_syn: bool,
    is_fin: bool,
    is_rst: bool,
    payload: Vec<u8>,
    time: Duration,
}

#[derive(Default)]
struct Flow {
    /// The number of the connection, once it is known to be one of ZooKeeper.
    connection: Option<usize>,
    is_other: bool,
    /// The first bytes of the client, until they show whether this is a handshake.
    undecided: Vec<u8>,
    /// What was not captured before that.
    lost: Vec<(Direction, u64)>,
    sent: Stream,
    received: Stream,
}

/// One direction of TCP.
#[derive(Default)]
struct Stream {
    next: Option<u32>,
    /// Whether it was captured from its first packet on.
    is_whole: bool,
    /// Where the other side knows that it ends.
    end: Option<u32>,
    /// Segments that arrived early, by their distance to `next` when they did.
    early: BTreeMap<u32, Vec<u8>>,
    waiting: usize,
}

/// What continues a stream.
enum Piece {
    Bytes(Vec<u8>),
    /// So many bytes were not captured.
    Gap(u32),
}

impl Flows {
    fn packet(
        &mut self,
        link: Linktype,
        bytes: &[u8],
        time: Duration,
        output: &mut Output,
    ) -> Result<(), Failure> {
        self.count += 1;
        let captured = self.packets.read(link.0, bytes, |segment| Captured::of(&segment, time));
        match captured {
            Ok(Some(captured)) => self.ahead.push_back(captured),
            Ok(None) => {}
            Err(other) => *self.left_out.entry(other).or_default() += 1,
        }
        if self.ahead.len() > AHEAD { self.next(output) } else { Ok(()) }
    }

    /// Takes the next segment. What it acknowledges comes first.
    fn next(&mut self, output: &mut Output) -> Result<(), Failure> {
        let Some(segment) = self.ahead.pop_front() else { return Ok(()) };
        let back = (segment.to, segment.from);
        let acknowledged = segment.acknowledged.filter(|_| !segment.is_rst && !segment.is_syn);
        let Some(acknowledged) = acknowledged else { return self.segment(segment, output) };
        let Some((ends, direction)) = self.known(back) else {
            return self.segment(segment, output);
        };
        if self.lacks(ends, direction, acknowledged) {
            let (late, ahead) = self.ahead.drain(..).partition(|it: &Captured| {
                let distance = acknowledged.wrapping_sub(it.sequence);
                (it.from, it.to) == back && !it.is_syn && (1..1 << 30).contains(&distance)
            });
            self.ahead = ahead;
            let late: VecDeque<_> = late;
            late.into_iter().try_for_each(|it| self.segment(it, output))?;
            while self.lacks(ends, direction, acknowledged) {
                let Some(flow) = self.flows.get_mut(&ends) else { break };
                let pieces = flow.stream(direction).pass(acknowledged);
                self.pieces(ends, direction, pieces, segment.time, output)?;
            }
        }
        self.segment(segment, output)
    }

    /// Returns the connection of packets with this source and destination, and their direction.
    fn known(&self, (from, to): Ends) -> Option<(Ends, Direction)> {
        if self.flows.contains_key(&(from, to)) {
            return Some(((from, to), Direction::ToServer));
        }
        self.flows.contains_key(&(to, from)).then_some(((to, from), Direction::ToClient))
    }

    /// Returns whether bytes in front of this place are not there.
    fn lacks(&mut self, ends: Ends, direction: Direction, place: u32) -> bool {
        let Some(flow) = self.flows.get_mut(&ends) else { return false };
        let stream = flow.stream(direction);
        let Some(next) = stream.next else { return false };
        // The end of a stream counts as a byte.
        let shortest = if stream.early.is_empty() { 2 } else { 1 };
        let place = if stream.end == Some(place.wrapping_sub(1)) { next } else { place };
        (shortest..1 << 30).contains(&place.wrapping_sub(next))
    }

    fn segment(&mut self, segment: Captured, output: &mut Output) -> Result<(), Failure> {
        let Captured { from, to, is_syn, .. } = segment;
        let (ends, direction) = match self.known((from, to)) {
            _ if is_syn && segment.acknowledged.is_some() => ((to, from), Direction::ToClient),
            // The same ports again are another connection.
            known if is_syn => {
                let first = segment.sequence.wrapping_add(1);
                let flow = known.and_then(|(ends, _)| self.flows.get(&ends));
                let next = flow.and_then(|flow| flow.sent.next);
                if next.is_some_and(|next| next != first) {
                    self.close((from, to), output)?;
                }
                ((from, to), Direction::ToServer)
            }
            Some(known) => known,
            None if self.is_server(from, to) => ((to, from), Direction::ToClient),
            None => ((from, to), Direction::ToServer),
        };
        let stream = self.flows.entry(ends).or_default().stream(direction);
        let sequence = segment.sequence.wrapping_add(u32::from(is_syn));
        if is_syn {
            stream.is_whole = true;
            stream.next.get_or_insert(sequence);
        }
        if segment.is_fin {
            stream.end = Some(sequence.wrapping_add(segment.payload.len() as u32));
        }
        let mut pieces = vec![Piece::Bytes(stream.take(sequence, &segment.payload))];
        while stream.waiting + stream.early.len() * OVERHEAD > WAITING {
            pieces.extend(stream.pass_all());
        }
        self.pieces(ends, direction, pieces, segment.time, output)?;
        if segment.is_rst { self.close(ends, output) } else { Ok(()) }
    }

    /// Takes what continues a stream.
    fn pieces(
        &mut self,
        ends: Ends,
        direction: Direction,
        pieces: Vec<Piece>,
        time: Duration,
        output: &mut Output,
    ) -> Result<(), Failure> {
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => self.bytes(ends, direction, bytes, time, output)?,
                Piece::Gap(length) => {
                    let Some(flow) = self.flows.get_mut(&ends) else { return Ok(()) };
                    flow.stream(direction).is_whole = false;
                    match flow.connection {
                        Some(connection) => {
                            output.gap(connection, direction, length.into(), time)?;
                        }
                        None => flow.lost.push((direction, length.into())),
                    }
                }
            }
        }
        Ok(())
    }

    fn bytes(
        &mut self,
        ends: Ends,
        direction: Direction,
        mut data: Vec<u8>,
        time: Duration,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let Some(flow) = self.flows.get_mut(&ends) else { return Ok(()) };
        if data.is_empty() || flow.is_other {
            return Ok(());
        }
        if flow.connection.is_none() {
            let (client, server) = ends;
            let is_answer = direction == Direction::ToClient && is_answer(&data);
            if direction == Direction::ToServer {
                flow.undecided.append(&mut data);
            }
            let is_known = match (self.port, direction) {
                (Some(port), _) => Some(port == server.port()),
                (None, _) if server.port() == PORT => Some(true),
                (None, Direction::ToServer) => is_handshake(&flow.undecided),
                (None, Direction::ToClient) => Some(is_answer),
            };
            match is_known {
                Some(true) => {
                    let is_whole = flow.sent.is_whole && (flow.received.is_whole || is_answer);
                    let [client, server] = [client, server].map(|it| it.to_string());
                    let connection = output.open_captured(&client, &server, is_whole)?;
                    flow.connection = Some(connection);
                    self.shown += 1;
                    for (direction, length) in core::mem::take(&mut flow.lost) {
                        output.gap(connection, direction, length, time)?;
                    }
                    let undecided = core::mem::take(&mut flow.undecided);
                    output.bytes(connection, Direction::ToServer, &undecided, Some(time))?;
                }
                Some(false) => {
                    flow.is_other = true;
                    flow.undecided = Vec::new();
                    self.others += 1;
                }
                None => {}
            }
        }
        match flow.connection {
            Some(connection) if !data.is_empty() => {
                output.bytes(connection, direction, &data, Some(time))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the first address is that of the server, where no SYN was captured.
    fn is_server(&self, first: SocketAddr, second: SocketAddr) -> bool {
        let port = self.port.unwrap_or(PORT);
        match (first.port() == port, second.port() == port) {
            (true, _) => true,
            (_, true) => false,
            _ => first.port() < second.port(),
        }
    }

    /// Ends a connection. What waits for bytes that were not captured is shown.
    fn close(&mut self, ends: Ends, output: &mut Output) -> Result<(), Failure> {
        for direction in [Direction::ToServer, Direction::ToClient] {
            loop {
                let Some(flow) = self.flows.get_mut(&ends) else { return Ok(()) };
                let stream = flow.stream(direction);
                if stream.early.is_empty() {
                    break;
                }
                let pieces = stream.pass_all();
                self.pieces(ends, direction, pieces, output.last_time(), output)?;
            }
        }
        let Some(flow) = self.flows.remove(&ends) else { return Ok(()) };
        self.others += usize::from(!flow.undecided.is_empty());
        flow.connection.map_or(Ok(()), |connection| output.close(connection))
    }

    fn finish(mut self, output: &mut Output) -> Result<(), Failure> {
        while !self.ahead.is_empty() {
            self.next(output)?;
        }
        let mut ends: Vec<_> = self.flows.keys().copied().collect();
        ends.sort_unstable();
        ends.into_iter().try_for_each(|ends| self.close(ends, output))?;
        for (other, count) in &self.left_out {
            complain("note", format!("{count} packets {other} are left out"));
        }
        match self.packets.incomplete() {
            0 => {}
            count => complain("note", format!("{count} packets lack a fragment")),
        }
        if self.untimed > 0 {
            complain("note", format!("{} packets have no time", self.untimed));
        }
        if self.cut > 0 {
            let what = "packets are cut; capture them whole, with `tcpdump -s 0`";
            complain("note", format!("{} {what}", self.cut));
        }
        if self.others > 0 {
            let what = "other connections are left out; --port reads those of a port";
            complain("note", format!("{} {what}", self.others));
        }
        if self.count == 0 {
            complain("note", "the capture has no packets");
        } else if self.shown == 0 {
            let port = self.port.unwrap_or(PORT);
            complain("note", format!("no connection of ZooKeeper, at port {port}, was found"));
        }
        Ok(())
    }
}

impl Captured {
    fn of(segment: &Segment<'_>, time: Duration) -> Self {
        let Segment { from, to, sequence, acknowledged, is_syn, is_fin, is_rst, payload } =
            *segment;
        let payload = payload.to_vec();
        Self { from, to, sequence, acknowledged, is_syn, is_fin, is_rst, payload, time }
    }
}

impl Flow {
    fn stream(&mut self, direction: Direction) -> &mut Stream {
        match direction {
            Direction::ToServer => &mut self.sent,
            Direction::ToClient => &mut self.received,
        }
    }
}

impl Stream {
    /// Takes a segment, and returns the bytes that continue the stream.
    fn take(&mut self, sequence: u32, payload: &[u8]) -> Vec<u8> {
        if payload.is_empty() {
            return Vec::new();
        }
        self.next.get_or_insert(sequence);
        let waiting = self.early.entry(sequence).or_default();
        if waiting.len() < payload.len() {
            self.waiting += payload.len() - waiting.len();
            *waiting = payload.to_vec();
        }
        self.ready()
    }

    /// Returns the bytes that continue the stream, of the segments that wait.
    fn ready(&mut self) -> Vec<u8> {
        let (Some(mut next), mut out) = (self.next, Vec::new()) else { return Vec::new() };
        loop {
            // Sequence numbers wrap, so a distance is behind in the upper half.
            let ready = self.early.iter().find_map(|(start, bytes)| {
                let behind = next.wrapping_sub(*start) as usize;
                (behind < 1 << 31).then_some((*start, behind.min(bytes.len())))
            });
            let Some((start, known)) = ready else { break };
            let bytes = self.early.remove(&start).unwrap_or_default();
            self.waiting -= bytes.len();
            out.extend_from_slice(&bytes[known..]);
            next = next.wrapping_add((bytes.len() - known) as u32);
        }
        self.next = Some(next);
        out
    }

    /// Passes over the missing bytes in front of this place, up to the first segment that waits.
    fn pass(&mut self, place: u32) -> Vec<Piece> {
        let Some(next) = self.next else { return Vec::new() };
        let early = self.early.keys().map(|start| start.wrapping_sub(next));
        let gap = early.chain([place.wrapping_sub(next)]).min().unwrap_or_default();
        self.next = Some(next.wrapping_add(gap));
        vec![Piece::Gap(gap), Piece::Bytes(self.ready())]
    }

    /// Passes over the missing bytes in front of the first segment that waits.
    fn pass_all(&mut self) -> Vec<Piece> {
        let last = self.next.unwrap_or_default().wrapping_sub(1);
        self.pass(last)
    }
}

/// Returns whether this begins with a handshake of a server.
fn is_answer(data: &[u8]) -> bool {
    let split = frame::split(data, frame::DEFAULT_LIMIT);
    let payload = split.ok().flatten().map(|(payload, _)| payload);
    payload.is_some_and(|payload| {
        let response = ConnectResponse::decode_all(payload);
        response.is_ok_and(|it| {
            it.protocol_version == 0 && it.password.is_some_and(|it| it.len() == 16)
        })
    })
}

/// Returns whether this is a handshake. `None` if more bytes are needed to know.
fn is_handshake(data: &[u8]) -> Option<bool> {
    let length = data.first_chunk().map(|length| u32::from_be_bytes(*length))?;
    if !HANDSHAKE.contains(&length) {
        return Some(false);
    }
    let (payload, _) = frame::split(data, frame::DEFAULT_LIMIT).ok().flatten()?;
    Some(ConnectRequest::decode_all(payload).is_ok_and(|request| request.protocol_version == 0))
}
