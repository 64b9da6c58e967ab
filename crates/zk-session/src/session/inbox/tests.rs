use bytes::BufMut as _;

use super::*;
use crate::session::Config;

fn session(max_reply: usize) -> (Session<()>, Inbox) {
    let config = Config { max_reply, ..Config::new(0, 0) };
    let session = Session::new(Instant::START, config);
    let inbox = Inbox::new(&session);
    (session, inbox)
}

#[test]
fn the_buffer_of_a_long_frame_is_not_kept() {
    let (mut session, mut inbox) = session(1 << 20);
    for length in [1 << 20, 10] {
        inbox.buffer().put_i32(length);
        for _ in 0..length {
            inbox.buffer().put_u8(0);
        }
        inbox.frames.hand_on(&mut inbox.bytes, &mut session, Instant::START);
    }
    let kept = inbox.buffer().capacity();
    assert!(kept <= Inbox::READ, "{kept} bytes");
}

#[test]
fn a_frame_that_is_too_long_takes_no_memory() {
    let (mut session, mut inbox) = session(100);
    inbox.buffer().put_i32(1 << 20);
    for _ in 0..1 << 10 {
        inbox.buffer().put_bytes(7, 1 << 10);
        inbox.frames.hand_on(&mut inbox.bytes, &mut session, Instant::START);
        assert!(inbox.bytes.is_empty());
    }
    let kept = inbox.buffer().capacity();
    assert!(kept <= Inbox::READ, "{kept} bytes");
}

#[test]
fn small_frames_share_one_buffer() {
    let (mut session, mut inbox) = session(100);
    let start = inbox.buffer().as_ptr().addr();
    for _ in 0..10 {
        inbox.buffer().put_slice(&[0, 0, 0, 1, 7]);
        inbox.frames.hand_on(&mut inbox.bytes, &mut session, Instant::START);
    }
    assert_eq!(inbox.buffer().as_ptr().addr(), start + 50);
}
