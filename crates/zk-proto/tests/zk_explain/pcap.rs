//! Packet captures.

use super::*;

/// Splits a capture of the older format: its header, and the packets with theirs.
fn packets(pcap: &[u8]) -> (&[u8], Vec<Vec<u8>>) {
    let (header, mut rest) = pcap.split_at(24);
    let mut packets = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_be_bytes(length.try_into().expect("4 bytes")) as usize;
        let (packet, behind) = rest.split_at(16 + length);
        packets.push(packet.to_vec());
        rest = behind;
    }
    (header, packets)
}

/// Every recording, as a capture and back.
#[test]
fn a_capture_has_the_same_messages() {
    let folder = Folder::new("pcap");
    let (file, goldens) = (folder.join("all.pcap"), captures::directory());
    let goldens = goldens.to_str().expect("UTF-8");
    let written = run(&["--format", "json", "--write-pcap", &file, goldens]);
    let read = run(&["--format", "json", "--pcap", &file]);
    assert_eq!((written.code, read.code, &read.remarks[..]), (Some(0), Some(0), ""));
    // A capture interleaves the connections.
    let messages = |text: &str| {
        let mut messages: Vec<_> = text
            .lines()
            .map(|line| {
                let mut message: Value = serde_json::from_str(line).expect("JSON");
                let object = message.as_object_mut().expect("an object");
                let own = ["connection", "server", "time", "time_us", "latency_us"];
                object.retain(|name, _| !own.contains(&&name[..]));
                message.to_string()
            })
            .collect();
        messages.sort();
        messages
    };
    assert!(messages(&read.out).len() > 1000);
    assert_eq!(messages(&read.out), messages(&written.out));
}

#[test]
fn a_capture_is_put_into_order() {
    let folder = Folder::new("order");
    let [file, mixed] = ["a.pcap", "mixed.pcap"].map(|name| folder.join(name));
    let expected = printed(&["--write-pcap", &file, &golden("3.8.0-raw-ops")]);
    let bytes = std::fs::read(&file).expect("a capture");
    let (header, packets) = packets(&bytes);
    // Each packet is there twice, and every second pair of packets is exchanged, behind the SYNs.
    let mut order: Vec<_> = (0..packets.len()).collect();
    order[2..].chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    let again = order.iter().flat_map(|place| [&packets[*place][..]; 2]);
    let mixed_bytes: Vec<_> = [header].into_iter().chain(again).flatten().copied().collect();
    std::fs::write(&mixed, mixed_bytes).expect("written");
    let titles = |text: &str, direction| {
        let text = text.lines().filter(|line| line.contains(" bytes at "));
        let own = text.map(|line| {
            line.rsplit(": ").next().expect("a title").split(", at").next().map(str::to_owned)
        });
        own.filter(|title| title.as_ref().is_some_and(|t| t.contains("xid") == direction))
            .collect::<Vec<_>>()
    };
    let read = run(&["--pcap", &mixed]);
    assert_eq!(read.code, Some(0), "{}", read.remarks);
    assert_eq!(titles(&read.out, true).len(), titles(&expected, true).len());
    assert!(!read.out.contains("incomplete"), "{}", read.out);
}

#[test]
fn hostile_captures_are_refused_or_shown() {
    let folder = Folder::new("hostile");
    let file = folder.join("a.pcap");
    printed(&["--write-pcap", &file, &golden("3.8.0-raw-garbage")]);
    let bytes = std::fs::read(&file).expect("a capture");
    let bad = folder.join("bad.pcap");
    for step in 0..60 {
        let mut bytes = bytes.clone();
        let place = (step * 97) % bytes.len();
        bytes[place] ^= 0x81;
        bytes.truncate(bytes.len() - step);
        std::fs::write(&bad, &bytes).expect("written");
        for argument in ["--pcap", "locks"] {
            let Ran { code, remarks, .. } = run(&[argument, &bad]);
            assert!(matches!(code, Some(0 | 2)), "byte {place}: {remarks}");
            assert!(!remarks.contains("panicked"), "byte {place}: {remarks}");
        }
    }
    std::fs::write(&bad, "no capture").expect("written");
    assert!(run(&["--pcap", &bad]).remarks.contains("is not a packet capture"));
}

/// Returns a capture in the newer format, whose packets all have this time. Times have these units,
/// a power of ten in a second, and count from the offset, in seconds after 1970.
fn pcapng(mut pcap: &[u8], units: u8, offset: i64, time: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        out.extend([&kind.to_le_bytes(), &length, body, &length].concat());
    };
    block(0x0a0d_0d0a, b"\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
    let options = [b"\x09\0\x01\0", &[units, 0, 0, 0][..], b"\x0e\0\x08\0"].concat();
    let offset = offset.to_le_bytes();
    block(1, &[b"\x01\0\0\0\0\0\x04\0", &options[..], &offset, b"\0\0\0\0"].concat());
    pcap = &pcap[24..];
    while let Some((header, rest)) = pcap.split_first_chunk::<16>() {
        let length = u32::from_be_bytes(header[8..12].try_into().expect("four bytes"));
        let (packet, rest) = rest.split_at(length as usize);
        let [high, low] = [(time >> 32) as u32, time as u32].map(u32::to_le_bytes);
        let length = length.to_le_bytes();
        let padding = &[0; 3][..packet.len().next_multiple_of(4) - packet.len()];
        block(6, &[&[0; 4], &high, &low, &length, &length, packet, padding].concat());
        pcap = rest;
    }
    out
}

#[test]
fn times_of_a_capture_may_be_shifted_and_extreme() {
    let folder = Folder::new("pcapng");
    let (old, file) = (folder.join("a.pcap"), folder.join("a.pcapng"));
    printed(&["--write-pcap", &old, &golden("3.8.0-raw-garbage")]);
    let old = std::fs::read(&old).expect("a capture");
    for (number, units, offset, time, shown) in [
        (1, 6, 0, 5_000_000, "1970-01-01T00:00:05"),
        (2, 6, 3600, 5_000_000, "1970-01-01T01:00:05"),
        (3, 0, -4, 10, "1970-01-01T00:00:06"),
        (4, 0, i64::MAX, u64::MAX, "1970-01-01T00:00:00"),
        (5, 0, i64::MIN, u64::MAX, "1970-01-01T00:00:00"),
        (6, 19, i64::MAX, 1, "1970-01-01T00:00:00"),
    ] {
        std::fs::write(&file, pcapng(&old, units, offset, time)).expect("written");
        let record = folder.join(&format!("recorded-{number}"));
        let Ran { code, remarks, .. } = run(&["--pcap", &file, "--record", &record]);
        assert_eq!((code, remarks.contains("panicked")), (Some(0), false), "{remarks}");
        let order = std::fs::read_to_string(folder.join(&format!("recorded-{number}/0001.seq")));
        let order = order.expect("recorded");
        assert!(order.starts_with(&format!("# {shown}")), "{number}: {order}");
    }
}

#[test]
fn what_a_capture_lacks_is_noted() {
    const GAP: &str = "bytes are missing in the capture";
    let folder = Folder::new("gaps");
    let [whole, file] = ["a.pcap", "b.pcap"].map(|name| folder.join(name));
    let expected = printed(&["--write-pcap", &whole, &golden("3.8.0-raw-ops")]);
    let whole = std::fs::read(&whole).expect("a capture");
    let (header, packets) = packets(&whole);
    let notes = |packets: &[Vec<u8>]| {
        std::fs::write(&file, [header, &packets.concat()].concat()).expect("written");
        let Ran { code, out, remarks } = run(&["--pcap", &file]);
        assert_eq!(code, Some(0), "{remarks}");
        let is_shorter = out.lines().count() < expected.lines().count();
        assert_eq!(is_shorter, !remarks.is_empty(), "{remarks}");
        remarks
    };
    assert_eq!(notes(&packets), "");
    // Behind the handshake, in both directions.
    for missing in [4, 5] {
        let mut packets = packets.clone();
        packets.remove(missing);
        let end = packets.len() - 2;
        for packets in [&packets[..], &packets[..end]] {
            assert_eq!(notes(packets).matches(GAP).count(), 1, "{}", notes(packets));
        }
    }
    // `tcpdump -s 60`
    let cut = packets.iter().map(|packet| {
        let mut packet = packet.clone();
        packet.truncate(16 + 60);
        let length = packet.len() as u32 - 16;
        packet[8..12].copy_from_slice(&length.to_be_bytes());
        packet
    });
    let remarks = notes(&cut.collect::<Vec<_>>());
    assert!(remarks.contains("packets are cut; capture them whole"), "{remarks}");
}

/// The client in C sends the length of its handshake ahead of the rest.
#[test]
fn a_handshake_in_pieces_is_found_at_any_port() {
    let folder = Folder::new("pieces");
    let [old, file] = ["a.pcap", "b.pcap"].map(|name| folder.join(name));
    let expected = printed(&["--write-pcap", &old, &golden("3.8.0-raw-ops")]);
    let bytes = std::fs::read(&old).expect("a capture");
    let (header, mut packets) = packets(&bytes);
    // Behind the headers of the packet, Ethernet, IPv4 and TCP.
    const PAYLOAD: usize = 16 + 14 + 20 + 20;
    let [mut first, mut second] = [(); 2].map(|()| packets[2].clone());
    first.truncate(PAYLOAD + 4);
    second.drain(PAYLOAD..PAYLOAD + 4);
    let number = u32::from_be_bytes(second[54..58].try_into().expect("4 bytes")) + 4;
    second[54..58].copy_from_slice(&number.to_be_bytes());
    for packet in [&mut first, &mut second] {
        let length = packet.len() - 16;
        packet[8..12].copy_from_slice(&(length as u32).to_be_bytes());
        packet[12..16].copy_from_slice(&(length as u32).to_be_bytes());
        packet[32..34].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    }
    packets.splice(2..3, [first, second]);
    for packet in &mut packets {
        for port in [50..52, 52..54] {
            if packet[port.clone()] == 2181_u16.to_be_bytes() {
                packet[port].copy_from_slice(&2182_u16.to_be_bytes());
            }
        }
    }
    std::fs::write(&file, [header, &packets.concat()].concat()).expect("written");
    let read = run(&["--pcap", &file]);
    assert_eq!((read.code, &read.remarks[..]), (Some(0), ""));
    assert_eq!(read.out.lines().count(), expected.lines().count(), "{}", read.out);
}

#[test]
fn sections_and_links_of_a_capture_do_not_mix() {
    let folder = Folder::new("sections");
    let [old, file] = ["a.pcap", "b.pcapng"].map(|name| folder.join(name));
    printed(&["--write-pcap", &old, &golden("3.8.0-raw-garbage")]);
    let mut old = std::fs::read(&old).expect("a capture");
    let in_seconds = pcapng(&old, 0, 0, 5);
    std::fs::write(&file, [pcapng(&old, 6, 0, 5), in_seconds].concat()).expect("written");
    let record = folder.join("recorded");
    printed(&["--pcap", &file, "--record", &record]);
    let order = std::fs::read_to_string(folder.join("recorded/0002.seq")).expect("recorded");
    assert!(order.starts_with("# 1970-01-01T00:00:05"), "{order}");
    // A link type that is not supported, on another interface.
    let bytes = pcapng(&old, 6, 0, 5);
    let mut other = bytes.clone();
    old.truncate(24);
    let interface = pcapng(&old, 6, 0, 5)[28..].to_vec();
    let mut unknown = interface.clone();
    unknown[8] = 127;
    let at = 28 + interface.len();
    other.splice(at..at, unknown);
    let packet = bytes[at..].to_vec();
    let first = u32::from_le_bytes(packet[4..8].try_into().expect("4 bytes")) as usize;
    let mut on_other = packet[..first].to_vec();
    on_other[8] = 1;
    for _ in 0..2 {
        other.extend(&on_other);
    }
    std::fs::write(&file, other).expect("written");
    let read = run(&["--pcap", &file]);
    assert_eq!(read.code, Some(0));
    assert_eq!(read.remarks, "note: 2 packets of link type 127 are left out\n");
}
