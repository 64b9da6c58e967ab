use alloc::vec;
use std::sync::mpsc;

use super::*;

#[test]
fn callbacks_run_here_if_the_system_has_no_thread() {
    let (sender, called) = mpsc::channel();
    let panics: OnLoss = Box::new(|_| panic!("on purpose"));
    let sends: OnLoss = Box::new(move |loss| sender.send(loss).expect("a receiver"));
    let callbacks = LossCallbacks(Some(Loss::NodeDeleted), vec![panics, sends]);
    callbacks.finish_in(|_| Err(io::ErrorKind::WouldBlock.into()));
    assert_eq!(called.try_recv(), Ok(Loss::NodeDeleted));
}
