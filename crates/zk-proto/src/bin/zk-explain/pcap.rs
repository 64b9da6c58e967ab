//! Connections found in a packet capture.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use zk_proto::conversation::Direction;
use zk_proto::{ConnectRequest, Decode, frame};

use crate::Failure;
use crate::output::{Output, complain};
use crate::pcap_writer::PORT;

/// The longest block of a capture that is read. Packets are shorter than 256 KiB.
const LONGEST_BLOCK: usize = 1 << 24;
/// The bytes of one direction that may wait for a packet that has not been captured, including
/// [`OVERHEAD`] for each packet that waits.
const WAITING: usize = 1 << 20;
/// What a waiting packet counts in addition to its bytes.
const OVERHEAD: usize = 256;
/// The lengths that the frame of a handshake may have, with a password of up to 16 bytes.
const HANDSHAKE: RangeInclusive<u32> = 28..=45;

/// Shows the connections of a capture.
pub(crate) fn read(file: &Path, port: Option<u16>, output: &mut Output) -> Result<(), Failure> {
    let opened = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let broken = |error: &dyn std::fmt::Debug| format!("{}: {error:?}", file.display());
    let mut buffer = 1 << 16;
    let mut reader = create_reader(buffer, opened)
        .map_err(|_| format!("{} is not a packet capture", file.display()))?;
    let mut flows = Flows { port, ..Flows::default() };
    let (mut link, mut is_nano) = (Linktype::ETHERNET, false);
    // The link types and the time units of the interfaces of a pcapng file.
    let mut interfaces = Vec::new();
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
                let time = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(nanos);
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
                let time = packet.decode_ts_f64(0, *per_second);
                let time = Duration::try_from_secs_f64(time).unwrap_or_default();
                let shift = Duration::from_secs(offset.unsigned_abs());
                let time = match offset {
                    0.. => time.saturating_add(shift),
                    _ => time.saturating_sub(shift),
                };
                flows.cut += usize::from(packet.caplen < packet.origlen);
                flows.packet(*link, packet.packet_data(), time, output)?;
            }
            PcapBlockOwned::NG(_) => {}
        }
        reader.consume(length);
    }
    flows.finish()
}

type Ends = (SocketAddr, SocketAddr);

#[derive(Default)]
struct Flows {
    port: Option<u16>,
    /// The connections by their client and their server.
    flows: HashMap<Ends, Flow>,
    /// The connections left out.
    others: usize,
    /// The packets that were not captured to their end.
    cut: usize,
    /// The link types that were met and are not supported.
    unknown_links: BTreeSet<i32>,
}

#[derive(Default)]
struct Flow {
    /// The number of the connection, once it is known to be one of ZooKeeper.
    connection: Option<usize>,
    is_other: bool,
    /// The first bytes of the client, until they show whether this is a handshake.
    undecided: Vec<u8>,
    sent: Stream,
    received: Stream,
}

/// One direction of TCP.
#[derive(Default)]
struct Stream {
    next: Option<u32>,
    /// Segments that arrived early, by their distance to `next` when they did.
    early: BTreeMap<u32, Vec<u8>>,
    waiting: usize,
    is_broken: bool,
}

impl Flows {
    fn packet(
        &mut self,
        link: Linktype,
        bytes: &[u8],
        time: Duration,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let sliced = match link {
            Linktype::ETHERNET => SlicedPacket::from_ethernet(bytes).ok(),
            Linktype::LINUX_SLL => SlicedPacket::from_linux_sll(bytes).ok(),
            Linktype::RAW | Linktype(12) => SlicedPacket::from_ip(bytes).ok(),
            // The family of the address, in four bytes.
            Linktype::NULL | Linktype(108) => {
                bytes.get(4..).and_then(|packet| SlicedPacket::from_ip(packet).ok())
            }
            Linktype::LINUX_SLL2 => {
                bytes.get(20..).and_then(|packet| SlicedPacket::from_ip(packet).ok())
            }
            Linktype(number) => {
                if self.unknown_links.insert(number) {
                    complain("note", format!("packets of link type {number} are left out"));
                }
                None
            }
        };
        let Some(packet) = sliced else { return Ok(()) };
        let (Some(TransportSlice::Tcp(tcp)), Some(net)) = (packet.transport, packet.net) else {
            return Ok(());
        };
        let (source, destination): (IpAddr, IpAddr) = match &net {
            NetSlice::Ipv4(ip) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            NetSlice::Ipv6(ip) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            NetSlice::Arp(_) => return Ok(()),
        };
        let from = SocketAddr::new(source, tcp.source_port());
        let to = SocketAddr::new(destination, tcp.destination_port());
        let (ends, direction) = if tcp.syn() && tcp.ack() {
            ((to, from), Direction::ToClient)
        } else if tcp.syn() {
            // The same ports again are another connection.
            self.close((from, to), output)?;
            ((from, to), Direction::ToServer)
        } else if self.flows.contains_key(&(to, from)) || self.is_server(from, to) {
            ((to, from), Direction::ToClient)
        } else {
            ((from, to), Direction::ToServer)
        };
        let flow = self.flows.entry(ends).or_default();
        let stream = match direction {
            Direction::ToServer => &mut flow.sent,
            Direction::ToClient => &mut flow.received,
        };
        let sequence = tcp.sequence_number();
        if tcp.syn() {
            stream.next = Some(sequence.wrapping_add(1));
        }
        let is_over = tcp.rst();
        let mut data = stream.take(sequence.wrapping_add(u32::from(tcp.syn())), tcp.payload());
        if stream.waiting + stream.early.len() * OVERHEAD > WAITING {
            stream.is_broken = true;
            stream.early.clear();
            stream.waiting = 0;
            flow.note_gap(from);
        }
        if !data.is_empty() && !flow.is_other {
            if flow.connection.is_none() {
                let (_, server) = ends;
                flow.undecided.append(&mut data);
                let is_known = match (self.port, direction) {
                    (Some(port), _) => Some(port == server.port()),
                    (None, _) if server.port() == PORT => Some(true),
                    (None, Direction::ToServer) => is_handshake(&flow.undecided),
                    (None, Direction::ToClient) => Some(false),
                };
                match is_known {
                    Some(true) => {
                        flow.connection = Some(output.open(&ends.0.to_string())?);
                        data = core::mem::take(&mut flow.undecided);
                    }
                    Some(false) => {
                        flow.is_other = true;
                        flow.undecided = Vec::new();
                        self.others += 1;
                    }
                    None => {}
                }
            }
            if let Some(connection) = flow.connection {
                output.bytes(connection, direction, &data, Some(time))?;
            }
        }
        if is_over {
            self.close(ends, output)?;
        }
        Ok(())
    }

    /// Returns whether the first address is that of the server, where no SYN was captured.
    fn is_server(&self, first: SocketAddr, second: SocketAddr) -> bool {
        if self.flows.contains_key(&(first, second)) {
            return false;
        }
        let port = self.port.unwrap_or(PORT);
        match (first.port() == port, second.port() == port) {
            (true, _) => true,
            (_, true) => false,
            _ => first.port() < second.port(),
        }
    }

    fn close(&mut self, ends: Ends, output: &mut Output) -> Result<(), Failure> {
        let Some(flow) = self.flows.remove(&ends) else { return Ok(()) };
        self.end(ends, &flow);
        match flow.connection {
            Some(connection) => output.close(connection),
            None => Ok(()),
        }
    }

    /// Notes what is missing of a connection that has ended.
    fn end(&mut self, (client, server): Ends, flow: &Flow) {
        self.others += usize::from(!flow.undecided.is_empty());
        for (from, stream) in [(client, &flow.sent), (server, &flow.received)] {
            if stream.waiting > 0 {
                flow.note_gap(from);
            }
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        let mut flows: Vec<_> = core::mem::take(&mut self.flows).into_iter().collect();
        flows.sort_unstable_by_key(|(ends, _)| *ends);
        flows.iter().for_each(|(ends, flow)| self.end(*ends, flow));
        if self.cut > 0 {
            let what = "packets are cut; capture them whole, with `tcpdump -s 0`";
            complain("note", format!("{} {what}", self.cut));
        }
        if self.others > 0 {
            let what = "other connections are left out; --port reads those of a port";
            complain("note", format!("{} {what}", self.others));
        }
        Ok(())
    }
}

impl Flow {
    fn note_gap(&self, from: SocketAddr) {
        if self.connection.is_some() {
            let what = "bytes are missing in the capture; the rest is left out";
            complain("note", format!("{from}: {what}"));
        }
    }
}

impl Stream {
    /// Takes a segment, and returns the bytes that continue the stream.
    fn take(&mut self, sequence: u32, payload: &[u8]) -> Vec<u8> {
        if self.is_broken || payload.is_empty() {
            return Vec::new();
        }
        let mut next = *self.next.get_or_insert(sequence);
        let mut out = Vec::new();
        let waiting = self.early.entry(sequence).or_default();
        if waiting.len() < payload.len() {
            self.waiting += payload.len() - waiting.len();
            *waiting = payload.to_vec();
        }
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
