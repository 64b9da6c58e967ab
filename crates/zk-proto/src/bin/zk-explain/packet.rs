//! Packets: from the link of a capture, through tunnels and fragments, to a segment of TCP.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The headers that are read in one packet. Real ones have fewer.
const DEPTH: usize = 24;
/// The datagrams that may wait for fragments.
const DATAGRAMS: usize = 256;
/// The longest datagram.
const LONGEST_DATAGRAM: usize = 1 << 16;

/// A segment of TCP.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: Option<u32>,
    pub(crate) is_syn: bool,
    pub(crate) is_fin: bool,
    pub(crate) is_rst: bool,
    /// The data, without what the capture has cut off.
    pub(crate) payload: Vec<u8>,
}

/// Why a packet has no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Other {
    Link(i32),
    EtherType(u16),
    Protocol(u8),
    /// It ends within a header.
    Short,
    /// A length in a header is impossible, or there are too many headers.
    Malformed,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(number) => write!(f, "of link type {number}"),
            Self::EtherType(0x0806) => f.write_str("of ARP"),
            Self::EtherType(number) => write!(f, "of Ethernet type {number:#06x}"),
            Self::Protocol(1 | 58) => f.write_str("of ICMP"),
            Self::Protocol(17) => f.write_str("of UDP"),
            Self::Protocol(50) => f.write_str("encrypted by IPsec"),
            Self::Protocol(number) => write!(f, "of IP protocol {number}"),
            Self::Short => f.write_str("that end within a header"),
            Self::Malformed => f.write_str("with malformed headers"),
        }
    }
}

/// What begins at a byte of a packet.
#[derive(Clone, Copy)]
enum Layer {
    Ethernet,
    EtherType(u16),
    Ip,
    /// The payload of an IP packet, with its protocol and its addresses.
    Payload(u8, [IpAddr; 2]),
}

/// Reads packets. Fragments wait here for the rest of their datagram.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    fragments: HashMap<Datagram, Fragments>,
    /// The datagrams of which a fragment is missing.
    pub(crate) incomplete: usize,
}

type Datagram = ([IpAddr; 2], u32, u8);

/// The fragments of a datagram by their offset.
#[derive(Debug, Default)]
struct Fragments {
    parts: BTreeMap<usize, Vec<u8>>,
    length: Option<usize>,
    /// The turn in which it began.
    number: usize,
}

impl Packets {
    /// Returns the segment in a packet. A fragment has none, unless it completes a datagram.
    pub(crate) fn read(&mut self, link: i32, bytes: &[u8]) -> Result<Option<Segment>, Other> {
        let (layer, header) = match link {
            1 => (Layer::Ethernet, 0),
            // The family of the address, in four bytes.
            0 | 108 => (Layer::Ip, 4),
            12 | 14 | 101 | 228 | 229 => (Layer::Ip, 0),
            104 => (Layer::EtherType(be16(bytes, 2)?), 4),
            113 => (Layer::EtherType(be16(bytes, 14)?), 16),
            276 => (Layer::EtherType(be16(bytes, 0)?), 20),
            number => return Err(Other::Link(number)),
        };
        self.layers(layer, from(bytes, header)?, DEPTH)
    }

    /// Goes from header to header. A whole datagram of fragments is read in a call of its own.
    fn layers(
        &mut self,
        mut layer: Layer,
        mut bytes: &[u8],
        depth: usize,
    ) -> Result<Option<Segment>, Other> {
        for depth in (0..depth).rev() {
            (layer, bytes) = match layer {
                Layer::Ethernet => (Layer::EtherType(be16(bytes, 12)?), from(bytes, 14)?),
                Layer::EtherType(number) => ether_type(number, bytes)?,
                Layer::Ip if byte(bytes, 0)? >> 4 == 4 => {
                    // Where a card cuts packets, the length is not known yet.
                    let length = match usize::from(be16(bytes, 2)?) {
                        0 => bytes.len(),
                        length => length,
                    };
                    let header = usize::from(byte(bytes, 0)? & 15) * 4;
                    if header < 20 || length < header {
                        return Err(Other::Malformed);
                    }
                    let place = be16(bytes, 6)?;
                    let ends = [array(bytes, 12)?, array(bytes, 16)?];
                    let ends = ends.map(|it: [u8; 4]| Ipv4Addr::from(it).into());
                    let protocol = byte(bytes, 9)?;
                    let payload = from(&bytes[..bytes.len().min(length)], header)?;
                    if place & 0x3fff != 0 {
                        let datagram = (ends, be16(bytes, 4)?.into(), protocol);
                        let is_last = place & 0x2000 == 0;
                        let start = usize::from(place & 0x1fff) * 8;
                        return self.fragment(datagram, start, is_last, payload, depth);
                    }
                    (Layer::Payload(protocol, ends), payload)
                }
                Layer::Ip if byte(bytes, 0)? >> 4 == 6 => {
                    let length = match usize::from(be16(bytes, 4)?) {
                        0 => bytes.len(),
                        length => 40 + length,
                    };
                    let ends = [array(bytes, 8)?, array(bytes, 24)?];
                    let ends = ends.map(|it: [u8; 16]| Ipv6Addr::from(it).into());
                    let protocol = byte(bytes, 6)?;
                    (Layer::Payload(protocol, ends), from(&bytes[..bytes.len().min(length)], 40)?)
                }
                Layer::Ip => return Err(Other::Malformed),
                // A fragment of IPv6.
                Layer::Payload(44, ends) => {
                    let (place, protocol) = (be16(bytes, 2)?, byte(bytes, 0)?);
                    let datagram = (ends, u32::from_be_bytes(array(bytes, 4)?), protocol);
                    let start = usize::from(place & 0xfff8);
                    let is_last = place & 1 == 0;
                    return self.fragment(datagram, start, is_last, from(bytes, 8)?, depth);
                }
                Layer::Payload(6, ends) => return segment(ends, bytes).map(Some),
                Layer::Payload(protocol, ends) => payload(protocol, ends, bytes)?,
            };
        }
        Err(Other::Malformed)
    }

    /// Keeps a fragment, and reads its datagram once it is whole.
    fn fragment(
        &mut self,
        datagram: Datagram,
        start: usize,
        is_last: bool,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Option<Segment>, Other> {
        if start + bytes.len() > LONGEST_DATAGRAM {
            return Ok(None);
        }
        if !self.fragments.contains_key(&datagram) && self.fragments.len() == DATAGRAMS {
            let oldest = self.fragments.iter().min_by_key(|(_, it)| it.number);
            let oldest = oldest.map(|(datagram, _)| *datagram);
            oldest.and_then(|oldest| self.fragments.remove(&oldest));
            self.incomplete += 1;
        }
        let number = self.incomplete + self.fragments.len();
        let waiting = self
            .fragments
            .entry(datagram)
            .or_insert_with(|| Fragments { number, ..Fragments::default() });
        if is_last {
            waiting.length = Some(start + bytes.len());
        }
        waiting.parts.insert(start, bytes.to_vec());
        let mut whole: Vec<u8> = Vec::new();
        for (start, part) in &waiting.parts {
            let Some(known) = whole.len().checked_sub(*start) else { return Ok(None) };
            whole.extend_from_slice(part.get(known..).unwrap_or_default());
        }
        if waiting.length != Some(whole.len()) {
            return Ok(None);
        }
        self.fragments.remove(&datagram);
        let (ends, _, protocol) = datagram;
        self.layers(Layer::Payload(protocol, ends), &whole, depth)
    }

    /// Returns the number of datagrams of which a fragment is missing.
    pub(crate) fn incomplete(&self) -> usize {
        self.incomplete + self.fragments.len()
    }
}

type Next<'p> = Result<(Layer, &'p [u8]), Other>;

fn ether_type(number: u16, bytes: &[u8]) -> Next<'_> {
    Ok(match number {
        0x0800 | 0x86dd => (Layer::Ip, bytes),
        // VLANs.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 => (Layer::EtherType(be16(bytes, 2)?), from(bytes, 4)?),
        0x6558 => (Layer::Ethernet, bytes),
        // A length, and the type behind the headers of LLC and SNAP.
        0..0x0600 if bytes.starts_with(&[0xaa, 0xaa, 3]) => {
            (Layer::EtherType(be16(bytes, 6)?), from(bytes, 8)?)
        }
        _ => return Err(Other::EtherType(number)),
    })
}

/// Reads the payload of an IP packet that is not TCP: a header of IPv6, or a tunnel.
fn payload(protocol: u8, ends: [IpAddr; 2], bytes: &[u8]) -> Next<'_> {
    Ok(match protocol {
        // IPv4 or IPv6 in IP.
        4 | 41 => (Layer::Ip, bytes),
        17 => udp(bytes)?,
        47 => gre(bytes)?,
        // The authentication header counts words of four bytes, and the options eight.
        51 => {
            let length = (usize::from(byte(bytes, 1)?) + 2) * 4;
            (Layer::Payload(byte(bytes, 0)?, ends), from(bytes, length)?)
        }
        0 | 43 | 60 | 135 => {
            let length = (usize::from(byte(bytes, 1)?) + 1) * 8;
            (Layer::Payload(byte(bytes, 0)?, ends), from(bytes, length)?)
        }
        _ => return Err(Other::Protocol(protocol)),
    })
}

fn gre(bytes: &[u8]) -> Next<'_> {
    let (flags, number) = (be16(bytes, 0)?, be16(bytes, 2)?);
    let optional = [0x8000, 0x2000, 0x1000];
    let optional = optional.into_iter().filter(|flag| flags & flag != 0).count();
    let rest = from(bytes, 4 + 4 * optional)?;
    match number {
        // ERSPAN: of type I if there is no sequence number, else of type II.
        0x88be if flags & 0x1000 == 0 => Ok((Layer::Ethernet, rest)),
        0x88be => Ok((Layer::Ethernet, from(rest, 8)?)),
        _ => Ok((Layer::EtherType(number), rest)),
    }
}

/// Reads the tunnels that are known by their port.
fn udp(bytes: &[u8]) -> Next<'_> {
    let (port, bytes) = (be16(bytes, 2)?, from(bytes, 8)?);
    Ok(match port {
        // VXLAN, also at the older port of Linux.
        4789 | 8472 if byte(bytes, 0)? & 8 != 0 => (Layer::Ethernet, from(bytes, 8)?),
        // Geneve, with options.
        6081 => {
            let header = 8 + 4 * usize::from(byte(bytes, 0)? & 0x3f);
            (Layer::EtherType(be16(bytes, 2)?), from(bytes, header)?)
        }
        _ => return Err(Other::Protocol(17)),
    })
}

fn segment([source, destination]: [IpAddr; 2], bytes: &[u8]) -> Result<Segment, Other> {
    let be32 = |at| array(bytes, at).map(u32::from_be_bytes);
    let header = usize::from(byte(bytes, 12)? >> 4) * 4;
    if header < 20 {
        return Err(Other::Malformed);
    }
    let flags = byte(bytes, 13)?;
    let has = |flag| flags & flag != 0;
    Ok(Segment {
        from: SocketAddr::new(source, be16(bytes, 0)?),
        to: SocketAddr::new(destination, be16(bytes, 2)?),
        sequence: be32(4)?,
        acknowledged: if has(0x10) { Some(be32(8)?) } else { None },
        is_syn: has(0x02),
        is_fin: has(0x01),
        is_rst: has(0x04),
        payload: from(bytes, header)?.to_vec(),
    })
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, Other> {
    bytes.get(at).copied().ok_or(Other::Short)
}

fn be16(bytes: &[u8], at: usize) -> Result<u16, Other> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Other> {
    from(bytes, at)?.first_chunk().copied().ok_or(Other::Short)
}

fn from(bytes: &[u8], at: usize) -> Result<&[u8], Other> {
    bytes.get(at..).ok_or(Other::Short)
}
