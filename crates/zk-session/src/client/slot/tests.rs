use super::*;

/// Sends a value. Returns how many tasks wake.
fn sent(sender: Sender<u32>, value: u32) -> usize {
    let mut wakers = Wakers::default();
    sender.send(value, &mut wakers);
    wakers.take().count()
}

#[test]
fn a_value_is_taken_once() {
    let (sender, mut receiver) = slot();
    assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
    assert_eq!(sent(sender, 7), 1);
    assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(Some(7)));
    assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(None));
}

#[test]
fn a_dropped_sender_ends_the_wait() {
    for is_closed in [true, false] {
        let (sender, mut receiver) = slot::<()>();
        assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
        if is_closed {
            assert!(matches!(sender.close(), SlotContent::Empty(Some(_))));
        }
        drop(sender);
        assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(None));
        assert_eq!(receiver.take(), Some(None));
    }
}

#[test]
fn a_path_of_any_length_is_kept() {
    for length in [0, 1, 31, 32, 33, 64, 65, 128, 129, 5000] {
        let path = "/".repeat(length);
        assert_eq!(answer_slot(&path).subject().path(), path);
    }
}

#[test]
fn no_task_is_woken_for_a_value_without_a_receiver() {
    let (sender, mut receiver) = slot();
    assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
    drop(receiver);
    assert_eq!(sent(sender, 7), 0);
}
