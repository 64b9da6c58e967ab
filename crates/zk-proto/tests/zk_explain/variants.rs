//! One conversation in captures of many kinds, compared with the conversation and with `tshark`.

use std::collections::BTreeMap;

use super::wireshark::tshark;
use super::*;

const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const PORT: u16 = 2181;

/// A packet of the conversation.
#[derive(Clone)]
struct Packet {
    is_reply: bool,
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    port: u16,
    payload: Vec<u8>,
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const DATA: u8 = 0x18;
const FIN: u8 = 0x11;

/// What a link or a tunnel puts around an IP packet.
type Wrap = fn(&[u8]) -> Vec<u8>;

struct Variant {
    name: &'static str,
    file: Vec<u8>,
    /// The requests and the replies that are shown.
    messages: [usize; 2],
    /// A part of each remark.
    remarks: &'static [&'static str],
}

/// The first messages of a recording: requests and replies take turns.
fn messages() -> Vec<(bool, Vec<u8>)> {
    let json = printed(&["--format", "json", &golden("3.8.0-zkproto-every")]);
    let lines = json.lines().take(32).map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let hex = line["hex"].as_str().expect("a string");
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (line["direction"] == "to_client", (0..hex.len()).step_by(2).map(digits).collect())
    });
    lines.collect()
}

/// The packets of a connection that has these writes.
fn packets(writes: &[(bool, Vec<u8>)], first: u32) -> Vec<Packet> {
    let mut next = [first, first.wrapping_add(1000)];
    let mut packet = |is_reply: bool, flags: u8, payload: &[u8]| {
        let [own, other] = [usize::from(is_reply), usize::from(!is_reply)];
        let (sequence, acknowledged) = (next[own], next[other]);
        let counted = payload.len() as u32 + u32::from(flags & 3 != 0);
        next[own] = next[own].wrapping_add(counted);
        Packet { is_reply, sequence, acknowledged, flags, port: PORT, payload: payload.to_vec() }
    };
    let mut out = vec![packet(false, SYN, &[]), packet(true, SYN | ACK, &[])];
    out.push(packet(false, ACK, &[]));
    for (is_reply, write) in writes {
        for part in write.chunks(1400) {
            out.push(packet(*is_reply, DATA, part));
        }
    }
    out.extend([packet(false, FIN, &[]), packet(true, FIN, &[])]);
    out
}

impl Packet {
    fn tcp(&self) -> Vec<u8> {
        let mut ports = [50_000_u16.to_be_bytes(), self.port.to_be_bytes()];
        if self.is_reply {
            ports.reverse();
        }
        let numbers = [self.sequence.to_be_bytes(), self.acknowledged.to_be_bytes()];
        let rest = [0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0];
        [&ports.concat()[..], &numbers.concat(), &rest, &self.payload].concat()
    }

    fn ends(&self) -> [u8; 2] {
        if self.is_reply { [SERVER, CLIENT] } else { [CLIENT, SERVER] }
    }

    fn ipv4(&self) -> Vec<u8> {
        ipv4(6, self.ends(), 0, 0, &self.tcp())
    }

    fn ipv6(&self) -> Vec<u8> {
        ipv6(6, self.ends(), &self.tcp())
    }
}

fn ipv4(protocol: u8, ends: [u8; 2], id: u16, place: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let [id, place] = [id, place].map(u16::to_be_bytes);
    let mut header = [&[0x45, 0], &length[..], &id, &place, &[64, protocol, 0, 0]].concat();
    header.extend([10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
    [header, payload.to_vec()].concat()
}

fn ipv6(next: u8, ends: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let address = |host| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[host]].concat();
    let header = [&[0x60, 0, 0, 0], &length[..], &[next, 64]].concat();
    [header, address(ends[0]), address(ends[1]), payload.to_vec()].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let header = [&[0xc0, 0], &port.to_be_bytes()[..], &length, &[0, 0]].concat();
    let packet = [header, payload.to_vec()].concat();
    ethernet(0x0800, &ipv4(17, [7, 8], 0, 0, &packet))
}

fn in_ip(protocol: u8, payload: &[&[u8]]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(protocol, [7, 8], 0, 0, &payload.concat()))
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), payload].concat()
}

/// The Ethernet type of an IP packet.
fn kind(ip: &[u8]) -> [u8; 2] {
    if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] }
}

fn plain(ip: &[u8]) -> Vec<u8> {
    ethernet(u16::from_be_bytes(kind(ip)), ip)
}

/// The links and tunnels, with their link type.
const WRAPS: &[(&str, u32, Wrap)] = &[
    ("Ethernet", 1, plain),
    ("VLAN", 1, |ip| ethernet(0x8100, &[&[0, 5], &kind(ip)[..], ip].concat())),
    ("VLAN in VLAN", 1, |ip| {
        ethernet(0x88a8, &[&[0, 5, 0x81, 0, 0, 6], &kind(ip)[..], ip].concat())
    }),
    ("three VLANs", 1, |ip| {
        let tags = [0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7];
        ethernet(0x8100, &[&tags, &kind(ip)[..], ip].concat())
    }),
    ("padding", 1, |ip| [plain(ip), vec![0; 9]].concat()),
    ("SNAP", 1, |ip| {
        let snap = [&[0xaa, 0xaa, 3, 0, 0, 0], &kind(ip)[..], ip].concat();
        ethernet(snap.len() as u16, &snap)
    }),
    ("SLL", 113, |ip| [&[0, 0, 0, 1, 0, 6], &[2; 6][..], &[0, 0], &kind(ip), ip].concat()),
    ("SLL with VLAN", 113, |ip| {
        [&[0, 0, 0, 1, 0, 6], &[2; 6][..], &[0, 0, 0x81, 0, 0, 5], &kind(ip), ip].concat()
    }),
    ("SLL2", 276, |ip| [&kind(ip)[..], &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6], &[2; 8], ip].concat()),
    ("SLL2 with VLAN", 276, |ip| {
        let header = [0x81, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6];
        [&header[..], &[2; 8], &[0, 5], &kind(ip), ip].concat()
    }),
    ("IP", 101, <[u8]>::to_vec),
    ("IP of BSD", 12, <[u8]>::to_vec),
    ("IPv4 link", 228, <[u8]>::to_vec),
    ("loopback", 0, |ip| [&[0, 0, 0, 2], ip].concat()),
    ("loopback of OpenBSD", 108, |ip| [&[0, 0, 0, 2], ip].concat()),
    ("HDLC", 104, |ip| [&[0x0f, 0, 8, 0], ip].concat()),
    ("VXLAN", 1, |ip| udp(4789, &[&[8, 0, 0, 0, 0, 0, 9, 0], &plain(ip)[..]].concat())),
    ("VXLAN with VLAN", 1, |ip| {
        let tagged = ethernet(0x8100, &[&[0, 5, 8, 0], ip].concat());
        udp(4789, &[&[8, 0, 0, 0, 0, 0, 9, 0], &tagged[..]].concat())
    }),
    ("VXLAN at the port of Linux", 1, |ip| {
        udp(8472, &[&[8, 0, 0, 0, 0, 0, 9, 0], &plain(ip)[..]].concat())
    }),
    ("Geneve", 1, |ip| {
        let header = [1, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 2, 3, 0];
        udp(6081, &[&header, &plain(ip)[..]].concat())
    }),
    ("GRE", 1, |ip| in_ip(47, &[&[0, 0], &kind(ip), ip])),
    ("GRE with key and number", 1, |ip| {
        in_ip(47, &[&[0x30, 0], &kind(ip), &[0, 0, 0, 1, 0, 0, 0, 2], ip])
    }),
    ("Ethernet in GRE", 1, |ip| in_ip(47, &[&[0, 0, 0x65, 0x58], &plain(ip)])),
    ("ERSPAN", 1, |ip| {
        let header = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 1, 0, 1, 0, 0, 0, 0];
        in_ip(47, &[&header, &plain(ip)])
    }),
    ("IP in IP", 1, |ip| in_ip(4, &[ip])),
    ("authentication header", 1, |ip| {
        let (header, tcp) = ip.split_at(20);
        let ah = [&[6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], &[0; 12][..]].concat();
        let ends = [header[15], header[19]];
        ethernet(0x0800, &ipv4(51, ends, 0, 0, &[&ah, tcp].concat()))
    }),
    ("options of IPv4", 1, |ip| {
        let mut ip = [&ip[..20], &[1, 1, 1, 0], &ip[20..]].concat();
        (ip[0], ip[3]) = (0x46, ip[3].wrapping_add(4));
        ip[2] += u8::from(ip[3] < 4);
        plain(&ip)
    }),
    ("IPv4 length 0", 1, |ip| {
        let mut ip = ip.to_vec();
        ip[2..4].fill(0);
        plain(&ip)
    }),
];

/// Returns a capture in the older format, of packets a millisecond apart.
fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let words = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x4_0000, link].map(u32::to_be_bytes);
    let mut out = words.concat();
    for (number, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        let words = [1_700_000_000, 1000 * number as u32, length, length].map(u32::to_be_bytes);
        out.extend([&words.concat()[..], packet].concat());
    }
    out
}

fn on_ethernet(packets: &[Packet]) -> Vec<u8> {
    pcap(1, &packets.iter().map(|packet| plain(&packet.ipv4())).collect::<Vec<_>>())
}

/// A capture in the newer format, of simple packets or of such with times.
fn pcapng(packets: &[Packet], is_simple: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        out.extend([&kind.to_le_bytes(), &length, body, &length].concat());
    };
    block(0x0a0d_0d0a, b"\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
    block(1, b"\x01\0\0\0\0\0\x04\0");
    for packet in packets {
        let packet = plain(&packet.ipv4());
        let length = (packet.len() as u32).to_le_bytes();
        let padded = [&packet[..], &[0; 3][..packet.len().next_multiple_of(4) - packet.len()]];
        let header = [&[0; 12][..], &length, &length].concat();
        let header = if is_simple { &length[..] } else { &header };
        block(if is_simple { 3 } else { 6 }, &[header, &padded.concat()].concat());
    }
    out
}

/// Compresses without compressing: a member of gzip with stored blocks.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        out.push(u8::from(blocks.peek().is_none()));
        out.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
        out.extend(block);
    }
    let mut sum = !0_u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ (0xedb8_8320 * (sum & 1));
        }
    }
    out.extend([(!sum).to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat());
    out
}

fn fragments(packet: &Packet, number: u16) -> Vec<Vec<u8>> {
    let tcp = packet.tcp();
    let mut parts = tcp.chunks(24).enumerate().peekable();
    let mut out = Vec::new();
    while let Some((place, part)) = parts.next() {
        let more = if parts.peek().is_some() { 0x2000 } else { 0 };
        out.push(plain(&ipv4(6, packet.ends(), number, (place as u16 * 3) | more, part)));
    }
    out
}

fn fragments_of_ipv6(packet: &Packet, number: u8) -> Vec<Vec<u8>> {
    let tcp = packet.tcp();
    let mut parts = tcp.chunks(24).enumerate().peekable();
    let mut out = Vec::new();
    while let Some((place, part)) = parts.next() {
        let place = ((place as u16 * 24) | u16::from(parts.peek().is_some())).to_be_bytes();
        let header = [6, 0, place[0], place[1], 0, 0, 0, number];
        out.push(plain(&ipv6(44, packet.ends(), &[&header[..], part].concat())));
    }
    out
}

const ALL: [usize; 2] = [16, 16];
const LOST: &str = "are missing in the capture";
const SKIPPED: &str = "were skipped";

/// Every capture. The conversation has 16 requests and 16 replies, one in each packet from the
/// third on.
fn variants() -> Vec<Variant> {
    let messages = messages();
    let whole = packets(&messages, 7);
    let mut out = Vec::new();
    let mut add = |name, messages, remarks, file| {
        out.push(Variant { name, file, messages, remarks });
    };
    for (name, link, wrap) in WRAPS {
        let packets: Vec<_> = whole.iter().map(|packet| wrap(&packet.ipv4())).collect();
        add(*name, ALL, &[][..], pcap(*link, &packets));
    }
    let by = |change: &dyn Fn(&Packet) -> Vec<u8>| whole.iter().map(change).collect::<Vec<_>>();
    add("IPv6", ALL, &[], pcap(1, &by(&|it| plain(&it.ipv6()))));
    add("IPv6 length 0", ALL, &[], {
        let packets = by(&|it| {
            let mut ip = it.ipv6();
            ip[4..6].fill(0);
            plain(&ip)
        });
        pcap(1, &packets)
    });
    add("options of IPv6", ALL, &[], {
        let options = [6, 0, 1, 4, 0, 0, 0, 0];
        pcap(1, &by(&|it| plain(&ipv6(0, it.ends(), &[&options[..], &it.tcp()].concat()))))
    });
    add("IPv6 in IPv4", ALL, &[], pcap(1, &by(&|it| in_ip(41, &[&it.ipv6()]))));
    let number = |it: &Packet| (it.sequence * 2 + u32::from(it.is_reply)) as u16;
    let parts: Vec<_> = whole.iter().flat_map(|it| fragments(it, number(it))).collect();
    add("fragments", ALL, &[], pcap(1, &parts));
    let parts = whole.iter().flat_map(|it| fragments(it, number(it)).into_iter().rev());
    add("fragments from the last", ALL, &[], pcap(1, &parts.collect::<Vec<_>>()));
    let parts = whole.iter().zip(0..).flat_map(|(it, place)| fragments_of_ipv6(it, place));
    add("fragments of IPv6", ALL, &[], pcap(1, &parts.collect::<Vec<_>>()));
    let mut parts: Vec<_> = whole.iter().flat_map(|it| fragments(it, number(it))).collect();
    parts.remove(15);
    add("a lost fragment", [16, 15], &[LOST, "1 packets lack a fragment"], pcap(1, &parts));

    add("pcapng", ALL, &[], pcapng(&whole, false));
    add("simple packets of pcapng", ALL, &["packets have no time"], pcapng(&whole, true));
    add("gzip", ALL, &[], gzip(&on_ethernet(&whole)));
    let mut little = on_ethernet(&whole);
    let mut at = 0;
    while at < little.len() {
        let fields: &[usize] = if at == 0 { &[4, 2, 2, 4, 4, 4, 4] } else { &[4, 4, 4, 4] };
        let length =
            little.get(at + 8..at + 12).map_or(0, |it| it[2] as usize * 256 + it[3] as usize);
        let packet = if at == 0 { 0 } else { length };
        for size in fields {
            little[at..at + size].reverse();
            at += size;
        }
        at += packet;
    }
    add("little endian", ALL, &[], little);
    let mut nanos = on_ethernet(&whole);
    nanos[..4].copy_from_slice(&[0xa1, 0xb2, 0x3c, 0x4d]);
    add("nanoseconds", ALL, &[], nanos);
    add("no packet", [0, 0], &["no packets"], on_ethernet(&[]));
    add("no packet of pcapng", [0, 0], &["no packets"], pcapng(&[], false));

    // Behind the three packets of TCP's handshake, requests and replies take turns.
    let without = |lost: &[usize]| {
        let left = whole.iter().enumerate().filter(|(place, _)| !lost.contains(place));
        on_ethernet(&left.map(|(_, it)| it.clone()).collect::<Vec<_>>())
    };
    add("a lost handshake of TCP", ALL, &[], without(&[0, 1, 2]));
    add("a lost request", [15, 16], &[LOST], without(&[9]));
    add("a lost reply", [16, 15], &[LOST], without(&[10]));
    add("a lost first request", [15, 16], &[LOST], without(&[3]));
    add("a lost first reply", [16, 15], &[LOST], without(&[4]));
    add("two lost requests", [14, 16], &[LOST], without(&[9, 11]));
    add("lost on both sides", [15, 15], &[LOST, LOST], without(&[9, 10]));
    add("a lost beginning", [12, 12], &[], without(&(0..11).collect::<Vec<_>>()));
    add("requests alone", [16, 0], &[], {
        let sent: Vec<_> = whole.iter().filter(|it| !it.is_reply).cloned().collect();
        on_ethernet(&sent)
    });
    add("replies alone", [0, 16], &[], {
        let received: Vec<_> = whole.iter().filter(|it| it.is_reply).cloned().collect();
        on_ethernet(&received)
    });

    // Each side writes everything at once, in packets that end within frames.
    let stream = |is_reply| {
        let own = messages.iter().filter(|it| it.0 == is_reply);
        (is_reply, own.flat_map(|it| it.1.clone()).collect::<Vec<_>>())
    };
    let pieces = |size: usize| {
        let [sent, received] = [stream(false), stream(true)];
        let cut = |(is_reply, bytes): &(bool, Vec<u8>)| {
            bytes.chunks(size).map(|it| (*is_reply, it.to_vec())).collect::<Vec<_>>()
        };
        packets(&[cut(&sent), cut(&received)].concat(), 7)
    };
    add("packets of 100 bytes", ALL, &[], on_ethernet(&pieces(100)));
    add("packets of a byte", ALL, &[], on_ethernet(&pieces(1)));
    let mut within = pieces(100);
    within.drain(..4);
    add("the first packet begins within a frame", [14, 16], &[SKIPPED], on_ethernet(&within));
    let mut within = pieces(100);
    within.remove(6);
    add("a packet lost within frames", [12, 16], &[LOST, SKIPPED], on_ethernet(&within));
    add("sequence numbers wrap", ALL, &[], on_ethernet(&packets(&messages, u32::MAX - 60)));
    add("each packet twice", ALL, &[], {
        on_ethernet(&whole.iter().flat_map(|it| [it.clone(), it.clone()]).collect::<Vec<_>>())
    });
    add("replies before their requests", ALL, &[], {
        let mut mixed = whole.clone();
        mixed[3..].chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        on_ethernet(&mixed)
    });
    add("a packet far too late", ALL, &[], {
        let mut late = whole.clone();
        let packet = late.remove(9);
        late.insert(25, packet);
        on_ethernet(&late)
    });
    add("keep-alive of TCP", ALL, &[], {
        let mut kept = whole.clone();
        for place in [30, 20, 9] {
            let mut probe = kept[place].clone();
            (probe.sequence, probe.payload) = (probe.sequence.wrapping_sub(1), vec![0]);
            kept.insert(place, probe);
        }
        on_ethernet(&kept)
    });
    add("cut packets", ALL, &["packets are cut", LOST, LOST], {
        let mut cut = on_ethernet(&[]);
        for packet in &whole {
            let packet = plain(&packet.ipv4());
            let taken = packet.len().min(96);
            let words = [1_700_000_000, 0, taken as u32, packet.len() as u32];
            cut.extend([&words.map(u32::to_be_bytes).concat(), &packet[..taken]].concat());
        }
        cut
    });
    add("the end within a packet", [16, 15], &["ends within a packet"], {
        let mut file = on_ethernet(&whole[..35]);
        file.truncate(file.len() - 5);
        file
    });
    add("reused ports", [32, 32], &[], {
        on_ethernet(&[whole.clone(), packets(&messages, 90_000)].concat())
    });

    let other_port =
        |port| whole.iter().map(move |it| Packet { port, ..it.clone() }).collect::<Vec<_>>();
    add("another port", ALL, &[], on_ethernet(&other_port(12_181)));
    add("another port, without its first request", [15, 16], &[LOST], {
        let mut packets = other_port(12_181);
        packets.remove(3);
        on_ethernet(&packets)
    });
    let other = |text: &[u8]| on_ethernet(&packets(&[(false, text.to_vec())], 7));
    let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 1, 2, 3, 4, 5];
    add("TLS", [0, 0], &[SKIPPED, "begins as TLS"], other(&tls));
    let http = b"GET /metrics HTTP/1.1\r\nHost: zk\r\n\r\n";
    add("HTTP", [0, 0], &[SKIPPED, "begins as text"], other(http));
    add("UDP alone", [0, 0], &["packets of UDP are left out", "no connection"], {
        pcap(1, &[udp(53, b"a name")])
    });
    add("an unknown link", [0, 0], &["of link type 127 are left out", "no connection"], {
        pcap(127, &by(&|it| plain(&it.ipv4())))
    });
    add("IPsec", [0, 0], &["encrypted by IPsec", "no connection"], {
        pcap(1, &by(&|_| in_ip(50, &[&[7; 40]])))
    });
    out
}

/// Returns the messages of each direction in lines of JSON, in hexadecimal.
fn shown(json: &str) -> [Vec<String>; 2] {
    let mut shown = [(); 2].map(|()| Vec::new());
    for line in json.lines() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(message["server"].as_str().map(|it| it.ends_with("81")), Some(true), "{line}");
        let direction = usize::from(message["direction"] == "to_client");
        shown[direction].push(message["hex"].as_str().expect("a string").to_owned());
    }
    shown
}

/// Returns the numbers of messages that `tshark` shows of each direction.
fn dissected(folder: &Folder, name: &str, file: &[u8]) -> Option<[usize; 2]> {
    let file_name = folder.join(name);
    std::fs::write(&file_name, file).expect("written");
    let columns = [
        "zookeeper.connectrequest.timeout",
        "zookeeper.requestheader.opcode",
        "zookeeper.connectresponse.timeout",
        "zookeeper.replyheader.zxid",
    ];
    let columns: Vec<_> = columns.iter().flat_map(|name| ["-e", *name]).collect();
    let script = format!("lua_script:{}", folder.join("zookeeper.lua"));
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-X", &script, "-r", &file_name, "-T", "fields", "-Y", "zookeeper"]);
    // It fails if a capture is cut short.
    let lines = ran(tshark.args(columns).output().ok()?).out;
    let mut counts = [0, 0];
    for (column, value) in lines.lines().flat_map(|line| line.split('\t').enumerate()) {
        counts[column / 2] += value.split(',').filter(|it| !it.is_empty()).count();
    }
    Some(counts)
}

/// The table of the comparison: `cargo test ... wireshark_shows_no_more -- --nocapture`.
#[test]
fn wireshark_shows_no_more_of_any_capture() {
    let folder = Folder::new("dissected");
    std::fs::write(folder.join("zookeeper.lua"), printed(&["wireshark"])).expect("written");
    if tshark(&folder, &golden("none"), &["-v"]).is_none() {
        return;
    }
    let variants = variants();
    // It takes a second to start.
    let count = |number: usize, part: &[Variant]| {
        let name = format!("{number}.pcap");
        part.iter().map(|it| dissected(&folder, &name, &it.file)).collect::<Vec<_>>()
    };
    let count = &count;
    let counts = std::thread::scope(|scope| {
        let parts = variants.chunks(variants.len().div_ceil(4)).enumerate();
        let threads: Vec<_> =
            parts.map(|(number, part)| scope.spawn(move || count(number, part))).collect();
        let counts = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        counts.flatten().collect::<Vec<_>>()
    });
    let mut failures = Vec::new();
    for (Variant { name, messages, remarks, .. }, counts) in variants.iter().zip(counts) {
        let counts = counts.expect("tshark starts");
        println!("| {name} | {} + {} | {} + {} |", messages[0], messages[1], counts[0], counts[1]);
        // It shows the first bytes of other protocols as a message.
        let begins = |it: &&str| it.contains("begins as");
        let is_less = counts[0] > messages[0] || counts[1] > messages[1];
        if is_less && !remarks.iter().any(begins) {
            failures.push(format!("{name}: {messages:?}, tshark {counts:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn captures_of_every_kind_are_read() {
    let folder = Folder::new("variants");
    let file = folder.join("a.pcap");
    let mut conversation = BTreeMap::new();
    for (is_reply, bytes) in messages() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        *conversation.entry((usize::from(is_reply), hex)).or_insert(0) += 1;
    }
    let mut failures = Vec::new();
    for Variant { name, file: bytes, messages, remarks: expected } in variants() {
        std::fs::write(&file, &bytes).expect("written");
        let read = run(&["--format", "json", "--pcap", &file]);
        let found = shown(&read.out);
        let counts = [found[0].len(), found[1].len()];
        let remarks: Vec<_> = read.remarks.lines().collect();
        let are_expected = remarks.len() == expected.len()
            && expected.iter().all(|it| remarks.iter().any(|remark| remark.contains(it)));
        if (read.code, counts) != (Some(0), messages) || !are_expected {
            failures.push(format!("{name}: {counts:?}, not {messages:?}: {remarks:?}"));
        }
        // Nothing is shown that was not sent.
        let mut left = conversation.clone();
        left.values_mut().for_each(|count| *count *= if messages[0] > 16 { 2 } else { 1 });
        for (direction, messages) in found.into_iter().enumerate() {
            for hex in messages {
                // Of a message that is cut, its beginning.
                let mut sent =
                    left.iter_mut().filter(|((of, _), count)| *of == direction && **count > 0);
                match sent.find(|((_, sent), _)| sent.starts_with(&hex)) {
                    Some((_, count)) => *count -= 1,
                    _ => failures.push(format!("{name}: {hex} is no message of it")),
                }
            }
        }
        let piped = fed(&["--format", "json", "--pcap", "-"], &bytes);
        if (piped.out, piped.remarks) != (read.out, read.remarks) {
            failures.push(format!("{name}: the standard input is read in another way"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_copy_of_a_capture_lacks_the_same_bytes() {
    let folder = Folder::new("copied");
    let [file, copy] = ["a.pcap", "b.pcap"].map(|name| folder.join(name));
    let lossy = variants().into_iter().filter(|it| it.remarks.contains(&LOST));
    for Variant { name, file: bytes, messages, .. } in lossy {
        std::fs::write(&file, &bytes).expect("written");
        run(&["--pcap", &file, "--write-pcap", &copy, "--format", "json"]);
        let read = run(&["--pcap", &copy, "--format", "json"]);
        assert!(read.remarks.contains(LOST), "{name}: {}", read.remarks);
        assert_eq!(shown(&read.out).map(|it| it.len()), messages, "{name}");
    }
}

#[test]
fn damaged_captures_of_every_kind_end_without_a_panic() {
    let folder = Folder::new("damaged");
    let file = folder.join("a.pcap");
    for (number, Variant { name, file: mut bytes, .. }) in variants().into_iter().enumerate() {
        for place in (number..bytes.len()).step_by(61).skip(1) {
            bytes[place] = bytes[place].rotate_left(number as u32 % 8) ^ 0x81;
        }
        bytes.truncate(bytes.len() - number % 7);
        std::fs::write(&file, &bytes).expect("written");
        for arguments in [&["--format", "lines", "--pcap", &file][..], &["locks", &file]] {
            let Ran { code, remarks, .. } = run(arguments);
            assert!(matches!(code, Some(0 | 2)), "{name}: {remarks}");
            assert!(!remarks.contains("panicked"), "{name}: {remarks}");
        }
    }
}
