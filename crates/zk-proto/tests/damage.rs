//! Damaged recordings decode to an error or to another message, without a panic or an allocation.

mod captures;

use captures::{Capture, Kind, Message};
use zk_proto::{DecodeErrorKind, ErrorCode, ReplyHeader, frame};

/// Long frames consist of lists and data that are alike throughout. In frames above this length,
/// the tests damage only both ends and one byte in a thousand.
const SHORT: usize = 1024;

fn places(length: usize) -> impl Iterator<Item = usize> {
    let is_at_an_end = move |place: &usize| *place < SHORT / 2 || length - place <= SHORT / 2;
    (0..length).filter(move |place| length <= SHORT || is_at_an_end(place) || place % 997 == 0)
}

/// Runs `check` on every message, with a copy of its frame and a buffer of the same length.
fn for_every_message(mut check: impl FnMut(&Message<'_>, &mut [u8], &mut [u8])) {
    for capture in Capture::all() {
        let messages = capture.messages();
        let mut copy = vec![0; capture.longest_frame()];
        let mut buffer = copy.clone();
        let allocations = allocation_counter::measure(|| {
            for message in &messages {
                let copy = &mut copy[..message.bytes.len()];
                copy.copy_from_slice(message.bytes);
                check(message, copy, &mut buffer);
            }
        });
        assert_eq!(allocations.count_total, 0, "{}", capture.name);
    }
}

#[test]
fn a_message_with_any_byte_changed_is_refused_or_is_another_message() {
    let [mut refused, mut accepted] = [0_usize; 2];
    for_every_message(|message, copy, buffer| {
        for place in places(copy.len()).filter(|place| *place >= frame::PREFIX_LEN) {
            for change in [0xff, 0x01, 0x80] {
                copy[place] ^= change;
                let damaged = Message { bytes: copy, kind: message.kind };
                match damaged.round_trip(buffer) {
                    Ok(written) => {
                        accepted += 1;
                        assert_eq!(written.len(), copy.len());
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(error.offset() <= copy.len() - frame::PREFIX_LEN);
                    }
                }
                copy[place] ^= change;
            }
        }
    });
    assert!(refused > 100_000 && accepted > 100_000, "{refused} and {accepted}");
}

#[test]
fn a_frame_whose_length_is_changed_is_refused_or_another_length() {
    for_every_message(|message, copy, _| {
        for place in 0..frame::PREFIX_LEN {
            for change in [0xff, 0x01, 0x80] {
                copy[place] ^= change;
                if let Ok(Some((payload, rest))) = frame::split(copy, frame::DEFAULT_LIMIT) {
                    assert_eq!(frame::PREFIX_LEN + payload.len() + rest.len(), copy.len());
                    assert!(payload.len() < message.bytes.len() - frame::PREFIX_LEN);
                }
                copy[place] ^= change;
            }
        }
    });
}

#[test]
fn a_message_that_ends_too_early_is_refused_wherever_it_ends() {
    let mut cuts = 0_usize;
    for_every_message(|message, copy, buffer| {
        if message.round_trip(buffer).is_err() {
            return;
        }
        for length in places(copy.len()).filter(|length| *length >= frame::PREFIX_LEN) {
            let cut = Message { bytes: &copy[..length], kind: message.kind };
            match cut.round_trip(buffer).map(drop).map_err(|error| error.kind()) {
                Err(DecodeErrorKind::Truncated { .. } | DecodeErrorKind::Unterminated) => cuts += 1,
                Ok(()) => assert!(is_whole_without_its_end(&cut, message), "{:?}", cut.kind),
                Err(other) => panic!("{other} in {:?}, cut to {length}", cut.kind),
            }
        }
    });
    assert!(cuts > 100_000, "{cuts}");
}

/// Returns whether a message is valid without its end.
///
/// Two ends are optional: the byte of a handshake that came with 3.4, and the body of a failed
/// reply.
fn is_whole_without_its_end(cut: &Message<'_>, message: &Message<'_>) -> bool {
    match message.kind {
        Kind::ConnectRequest | Kind::ConnectResponse => cut.bytes.len() + 1 == message.bytes.len(),
        Kind::Reply(_, ReplyHeader { err, .. }) => {
            err != ErrorCode::OK && cut.bytes.len() == frame::PREFIX_LEN + 16
        }
        _ => false,
    }
}
