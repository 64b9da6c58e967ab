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
use zk_proto::{ConnectResponse, Decode, frame};

use crate::Failure;
use crate::input::is_connect_request;
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
    let mut flows = Flows::new(port, output);
    let mut interfaces = Interfaces::default();
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
        if let Some(packet) = interfaces.take(&block).map_err(|error| broken(&error))? {
            flows.packet(&packet)?;
        }
        reader.consume(length);
    }
    flows.finish()
}

/// What the blocks of a capture have reported about its interfaces so far.
#[derive(Default)]
struct Interfaces {
    /// Of the older format: the link type, and whether times have nanoseconds.
    legacy: (Linktype, bool),
    /// Of pcapng: the link type of each interface, the units of time in a second, and the seconds
    /// to add.
    all: Vec<(Linktype, u64, i64)>,
}

/// A packet of a capture.
struct Packet<'b> {
    link: Linktype,
    data: &'b [u8],
    /// Its length before it was cut.
    length: u32,
    time: Option<Duration>,
}

impl Interfaces {
    /// Takes the next block. Returns the packet in it, if there is one.
    fn take<'b>(
        &mut self,
        block: &'b PcapBlockOwned<'_>,
    ) -> Result<Option<Packet<'b>>, &'static str> {
        const UNKNOWN: &str = "a packet of an unknown interface";
        Ok(Some(match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.legacy = (header.network, header.is_nanosecond_precision());
                return Ok(None);
            }
            PcapBlockOwned::Legacy(packet) => {
                let (link, is_nano) = self.legacy;
                let unit = if is_nano { 1 } else { 1000 };
                let nanos = Duration::from_nanos(u64::from(packet.ts_usec) * unit);
                let time = Duration::from_secs(packet.ts_sec.into()) + nanos;
                Packet { link, data: packet.data, length: packet.origlen, time: Some(time) }
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.all.get(packet.if_id as usize);
                let (link, per_second, offset) = *interface.ok_or(UNKNOWN)?;
                let since = packet.decode_ts_f64(0, per_second);
                let since = Duration::try_from_secs_f64(since).unwrap_or_default();
                let shift = Duration::from_secs(offset.unsigned_abs());
                let time = match offset {
                    0.. => since.saturating_add(shift),
                    _ => since.saturating_sub(shift),
                };
                let (data, length) = (packet.packet_data(), packet.origlen);
                Packet { link, data, length, time: Some(time) }
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let (link, ..) = *self.all.first().ok_or(UNKNOWN)?;
                Packet { link, data: packet.packet_data(), length: packet.origlen, time: None }
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let per_second = interface.ts_resolution().unwrap_or(1_000_000);
                self.all.push((interface.linktype, per_second, interface.ts_offset()));
                return Ok(None);
            }
            // Several captures, one behind the other.
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.all.clear();
                return Ok(None);
            }
            PcapBlockOwned::NG(_) => return Ok(None),
        }))
    }
}

type Ends = (SocketAddr, SocketAddr);

/// A direction of a connection.
type Way = (Ends, Direction);

struct Flows<'o> {
    output: &'o mut Output,
    port: Option<u16>,
    packets: Packets,
    /// The time of the last packet. A packet without a time takes it over.
    time: Duration,
    /// The segments that were read ahead, with the times of their packets.
    ahead: VecDeque<(Duration, Segment)>,
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

#[derive(Default)]
struct Flow {
    /// The number of the connection, once it is known to be one of ZooKeeper.
    connection: Option<usize>,
    is_other: bool,
    /// The first bytes of the client, until they show whether this is a handshake.
    undecided: Vec<u8>,
    /// What was not captured before that.
    lost: Vec<(Direction, u64)>,
    /// By their direction.
    streams: [Stream; 2],
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

impl<'o> Flows<'o> {
    fn new(port: Option<u16>, output: &'o mut Output) -> Self {
        Self {
            output,
            port,
            packets: Packets::default(),
            time: Duration::ZERO,
            ahead: VecDeque::new(),
            flows: HashMap::new(),
            count: 0,
            shown: 0,
            others: 0,
            cut: 0,
            untimed: 0,
            left_out: BTreeMap::new(),
        }
    }

    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), Failure> {
        self.count += 1;
        self.cut += usize::from(packet.data.len() < packet.length as usize);
        self.untimed += usize::from(packet.time.is_none());
        self.time = packet.time.unwrap_or(self.time);
        match self.packets.read(packet.link.0, packet.data) {
            Ok(segment) => self.ahead.extend(segment.map(|segment| (self.time, segment))),
            Err(other) => *self.left_out.entry(other).or_default() += 1,
        }
        if self.ahead.len() > AHEAD { self.next() } else { Ok(()) }
    }

    /// Takes the next segment. What it acknowledges comes first.
    fn next(&mut self) -> Result<(), Failure> {
        let Some((time, segment)) = self.ahead.pop_front() else { return Ok(()) };
        let back = (segment.to, segment.from);
        let acknowledged = segment.acknowledged.filter(|_| !segment.is_rst && !segment.is_syn);
        let lacking = acknowledged.zip(self.known(back));
        if let Some((place, way)) = lacking.filter(|(place, way)| self.lacks(*way, *place)) {
            let is_late = |(_, it): &(Duration, Segment)| {
                let distance = place.wrapping_sub(it.sequence);
                (it.from, it.to) == back && !it.is_syn && (1..1 << 30).contains(&distance)
            };
            let (late, ahead): (VecDeque<_>, _) = self.ahead.drain(..).partition(is_late);
            self.ahead = ahead;
            late.into_iter().try_for_each(|(time, it)| self.segment(time, it))?;
            while self.lacks(way, place) {
                let Some(stream) = self.stream(way) else { break };
                let pieces = stream.pass(place);
                self.pieces(way, pieces, time)?;
            }
        }
        self.segment(time, segment)
    }

    /// Returns the connection of packets with this source and destination, and their direction.
    fn known(&self, (from, to): Ends) -> Option<Way> {
        if self.flows.contains_key(&(from, to)) {
            return Some(((from, to), Direction::ToServer));
        }
        self.flows.contains_key(&(to, from)).then_some(((to, from), Direction::ToClient))
    }

    fn stream(&mut self, (ends, direction): Way) -> Option<&mut Stream> {
        Some(&mut self.flows.get_mut(&ends)?.streams[direction as usize])
    }

    /// Returns whether bytes in front of this place are not there.
    fn lacks(&mut self, way: Way, place: u32) -> bool {
        let Some(stream) = self.stream(way) else { return false };
        let Some(next) = stream.next else { return false };
        // The end of a stream counts as a byte.
        let shortest = if stream.early.is_empty() { 2 } else { 1 };
        let place = if stream.end == Some(place.wrapping_sub(1)) { next } else { place };
        (shortest..1 << 30).contains(&place.wrapping_sub(next))
    }

    fn segment(&mut self, time: Duration, segment: Segment) -> Result<(), Failure> {
        let Segment { from, to, is_syn, .. } = segment;
        let (ends, direction) = match self.known((from, to)) {
            _ if is_syn && segment.acknowledged.is_some() => ((to, from), Direction::ToClient),
            // The same ports again are another connection.
            known if is_syn => {
                let first = segment.sequence.wrapping_add(1);
                let sent = known.and_then(|(ends, _)| self.stream((ends, Direction::ToServer)));
                let next = sent.and_then(|stream| stream.next);
                if next.is_some_and(|next| next != first) {
                    self.close((from, to))?;
                }
                ((from, to), Direction::ToServer)
            }
            Some(known) => known,
            None if self.is_server(from, to) => ((to, from), Direction::ToClient),
            None => ((from, to), Direction::ToServer),
        };
        let stream = &mut self.flows.entry(ends).or_default().streams[direction as usize];
        let sequence = segment.sequence.wrapping_add(u32::from(is_syn));
        if is_syn {
            stream.is_whole = true;
            stream.next.get_or_insert(sequence);
        }
        if segment.is_fin {
            stream.end = Some(sequence.wrapping_add(segment.payload.len() as u32));
        }
        let mut pieces = vec![Piece::Bytes(stream.take(sequence, segment.payload))];
        while stream.waiting + stream.early.len() * OVERHEAD > WAITING {
            pieces.extend(stream.pass_all());
        }
        self.pieces((ends, direction), pieces, time)?;
        if segment.is_rst { self.close(ends) } else { Ok(()) }
    }

    /// Takes what continues a stream.
    fn pieces(&mut self, way: Way, pieces: Vec<Piece>, time: Duration) -> Result<(), Failure> {
        let (ends, direction) = way;
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => self.bytes(way, bytes, time)?,
                Piece::Gap(length) => {
                    let Some(flow) = self.flows.get_mut(&ends) else { return Ok(()) };
                    flow.streams[direction as usize].is_whole = false;
                    match flow.connection {
                        Some(connection) => {
                            self.output.gap(connection, direction, length.into(), time)?;
                        }
                        None => flow.lost.push((direction, length.into())),
                    }
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, way: Way, mut data: Vec<u8>, time: Duration) -> Result<(), Failure> {
        let (ends @ (client, server), direction) = way;
        let Some(flow) = self.flows.get_mut(&ends) else { return Ok(()) };
        if data.is_empty() || flow.is_other {
            return Ok(());
        }
        if flow.connection.is_none() {
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
                    let [sent, received] = &flow.streams;
                    let is_whole = sent.is_whole && (received.is_whole || is_answer);
                    let [client, server] = [client, server].map(|it| it.to_string());
                    let connection = self.output.open_captured(&client, &server, is_whole)?;
                    flow.connection = Some(connection);
                    self.shown += 1;
                    for (direction, length) in core::mem::take(&mut flow.lost) {
                        self.output.gap(connection, direction, length, time)?;
                    }
                    let undecided = core::mem::take(&mut flow.undecided);
                    self.output.bytes(connection, Direction::ToServer, &undecided, Some(time))?;
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
                self.output.bytes(connection, direction, &data, Some(time))
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
    fn close(&mut self, ends: Ends) -> Result<(), Failure> {
        for way in [(ends, Direction::ToServer), (ends, Direction::ToClient)] {
            while let Some(stream) = self.stream(way).filter(|it| !it.early.is_empty()) {
                let pieces = stream.pass_all();
                let time = self.output.last_time();
                self.pieces(way, pieces, time)?;
            }
        }
        let Some(flow) = self.flows.remove(&ends) else { return Ok(()) };
        self.others += usize::from(!flow.undecided.is_empty());
        flow.connection.map_or(Ok(()), |connection| self.output.close(connection))
    }

    fn finish(mut self) -> Result<(), Failure> {
        while !self.ahead.is_empty() {
            self.next()?;
        }
        let mut ends: Vec<_> = self.flows.keys().copied().collect();
        ends.sort_unstable();
        ends.into_iter().try_for_each(|ends| self.close(ends))?;
        for (other, count) in &self.left_out {
            complain("note", format!("{count} packets {other} are left out"));
        }
        for (count, what) in [
            (self.packets.incomplete(), "packets lack a fragment"),
            (self.untimed, "packets have no time"),
            (self.cut, "packets are cut; capture them whole, with `tcpdump -s 0`"),
            (self.others, "other connections are left out; --port reads those of a port"),
        ] {
            if count > 0 {
                complain("note", format!("{count} {what}"));
            }
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

impl Stream {
    /// Takes a segment, and returns the bytes that continue the stream.
    fn take(&mut self, sequence: u32, payload: Vec<u8>) -> Vec<u8> {
        if payload.is_empty() {
            return Vec::new();
        }
        self.next.get_or_insert(sequence);
        let waiting = self.early.entry(sequence).or_default();
        if waiting.len() < payload.len() {
            self.waiting += payload.len() - waiting.len();
            *waiting = payload;
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
    Some(is_connect_request(payload))
}
