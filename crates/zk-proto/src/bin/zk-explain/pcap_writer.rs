//! Connections written as a packet capture.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use zk_proto::conversation::Direction;

use crate::Failure;
use crate::record::private;

/// The port of ZooKeeper, unless it is configured.
pub(crate) const PORT: u16 = 2181;
/// The payload of a written packet: that of an Ethernet.
const SEGMENT: usize = 1460;

/// A capture of connections on one host, in the format of tcpdump.
pub(crate) struct Writer {
    file: BufWriter<File>,
    connections: HashMap<usize, Sequences>,
    time: Duration,
}

struct Sequences {
    /// The port of the client.
    port: u16,
    /// The next sequence number of each direction.
    next: [u32; 2],
}

/// Creates or overwrites a file, which only its owner can read from then on.
fn create(path: &Path) -> io::Result<File> {
    let file = private().create(true).truncate(true).open(path)?;
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

impl Writer {
    pub(crate) fn create(file: &Path) -> Result<Self, Failure> {
        let created = create(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut file = BufWriter::new(created);
        // Magic, version 2.4, time zone, accuracy, longest packet, and the link type Ethernet.
        for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x4_0000, 1] {
            file.write_all(&word.to_be_bytes())?;
        }
        Ok(Self { file, connections: HashMap::new(), time: Duration::ZERO })
    }

    pub(crate) fn open(&mut self, connection: usize, time: Option<Duration>) -> io::Result<()> {
        self.time = self.time.max(time.unwrap_or_default());
        // Every port above the reserved ones, in turn.
        let port = 49_152 + (connection % 16_384) as u16;
        self.connections.insert(connection, Sequences { port, next: [0; 2] });
        self.packet(connection, Direction::ToServer, Flag::Syn, &[])?;
        self.packet(connection, Direction::ToClient, Flag::Syn, &[])
    }

    pub(crate) fn data(
        &mut self,
        connection: usize,
        direction: Direction,
        bytes: &[u8],
        time: Option<Duration>,
    ) -> io::Result<()> {
        // Without times, packets are a millisecond apart.
        self.time = match time {
            Some(time) => self.time.max(time),
            None => self.time.saturating_add(Duration::from_millis(1)),
        };
        let mut segments = bytes.chunks(SEGMENT);
        segments.try_for_each(|segment| self.packet(connection, direction, Flag::Data, segment))
    }

    /// Passes over bytes that are missing in the capture that is read.
    pub(crate) fn skip(&mut self, connection: usize, direction: Direction, length: u64) {
        if let Some(Sequences { next, .. }) = self.connections.get_mut(&connection) {
            let next = &mut next[direction as usize];
            *next = next.wrapping_add(length as u32);
        }
    }

    pub(crate) fn close(&mut self, connection: usize) -> io::Result<()> {
        self.packet(connection, Direction::ToServer, Flag::Fin, &[])?;
        self.packet(connection, Direction::ToClient, Flag::Fin, &[])?;
        self.file.flush()
    }

    fn packet(
        &mut self,
        connection: usize,
        direction: Direction,
        flag: Flag,
        payload: &[u8],
    ) -> io::Result<()> {
        let Some(Sequences { port, next }) = self.connections.get_mut(&connection) else {
            return Ok(());
        };
        let (number, acknowledged) = (next[direction as usize], next[direction.reverse() as usize]);
        let (ends, ports) = match direction {
            Direction::ToServer => ([1, 2], [*port, PORT]),
            Direction::ToClient => ([2, 1], [PORT, *port]),
        };
        // The flags PSH and ACK, and SYN or FIN.
        let flags = match flag {
            Flag::Syn if direction == Direction::ToServer => 0x02,
            Flag::Syn => 0x12,
            Flag::Data => 0x18,
            Flag::Fin => 0x11,
        };
        let mut tcp = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes()].concat();
        tcp.extend([number.to_be_bytes(), acknowledged.to_be_bytes()].concat());
        tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend_from_slice(payload);
        let addresses = [10, 0, 0, ends[0], 10, 0, 0, ends[1]];
        let length = (tcp.len() as u16).to_be_bytes();
        let sum = checksum(&[&addresses[..], &[0, 6], &length, &tcp].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let length = (20 + tcp.len() as u16).to_be_bytes();
        let mut ip = [&[0x45, 0], &length[..], &[0, 0, 0x40, 0, 64, 6, 0, 0], &addresses].concat();
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let packet = [&[2; 12][..], &[8, 0], &ip, &tcp].concat();
        let length = packet.len() as u32;
        let (seconds, micros) = (self.time.as_secs() as u32, self.time.subsec_micros());
        for word in [seconds, micros, length, length] {
            self.file.write_all(&word.to_be_bytes())?;
        }
        self.file.write_all(&packet)?;
        let taken = payload.len() as u32 + u32::from(flag != Flag::Data);
        next[direction as usize] = number.wrapping_add(taken);
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Syn,
    Data,
    Fin,
}

/// Returns the checksum of a header, as in IP and TCP.
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(*it.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
