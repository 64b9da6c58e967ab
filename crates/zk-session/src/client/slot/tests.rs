use super::*;

#[test]
fn a_value_is_taken_once() {
    let (sender, mut receiver) = slot();
    assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
    assert!(sender.send(SlotContent::Full(7)).is_some());
    assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(Some(7)));
    assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(None));
}

#[test]
fn a_dropped_sender_ends_the_wait() {
    for is_closed in [true, false] {
        let (sender, mut receiver) = slot::<()>();
        assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
        if is_closed {
            assert!(sender.send(SlotContent::Closed).is_some());
        } else {
            drop(sender);
        }
        assert_eq!(receiver.poll(Waker::noop()), Poll::Ready(None));
        assert_eq!(receiver.take(), Some(None));
    }
}

#[test]
fn a_path_of_any_length_is_kept() {
    for length in [0, 1, 31, 32, 33, 64, 65, 128, 129, 5000] {
        let path = "/".repeat(length);
        assert_eq!(slot_about::<()>(&path).1.path(), path);
    }
}

#[test]
fn no_task_is_woken_for_a_value_without_a_receiver() {
    let (sender, mut receiver) = slot();
    assert_eq!(receiver.poll(Waker::noop()), Poll::Pending);
    drop(receiver);
    assert!(sender.send(SlotContent::Full(7)).is_none());
}
