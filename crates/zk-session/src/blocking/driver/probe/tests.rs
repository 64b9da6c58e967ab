use alloc::collections::VecDeque;
use alloc::vec::Vec;
use std::sync::Mutex;

use super::*;

/// A transport that moves single bytes, and none every other time.
struct Drip {
    incoming: Mutex<VecDeque<u8>>,
    outgoing: Mutex<Vec<u8>>,
    is_dry: Mutex<bool>,
}

impl Drip {
    fn turn(&self) -> io::Result<()> {
        let mut is_dry = self.is_dry.lock().unwrap();
        *is_dry = !*is_dry;
        if *is_dry { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

impl Transport for Drip {
    fn read(&self, buffer: &mut [u8], _: Duration) -> io::Result<usize> {
        self.turn()?;
        let byte = self.incoming.lock().unwrap().pop_front();
        byte.map_or(Ok(0), |byte| {
            buffer[0] = byte;
            Ok(1)
        })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.turn()?;
        self.outgoing.lock().unwrap().push(bytes[0]);
        Ok(1)
    }

    fn flush(&self) -> io::Result<()> {
        self.turn()
    }

    fn shutdown(&self) {}
}

#[test]
fn an_answer_is_assembled_from_single_bytes() {
    for (answer, can_write) in [(&b"rw"[..], true), (b"ro", false), (b"rw\n", false), (b"", false)]
    {
        let drip = Drip {
            incoming: Mutex::new(answer.iter().copied().collect()),
            outgoing: Mutex::default(),
            is_dry: Mutex::default(),
        };
        let asked = ask(&drip, Duration::from_secs(600));
        assert_eq!(asked.unwrap(), can_write, "{answer:?}");
        assert_eq!(*drip.outgoing.lock().unwrap(), QUESTION);
    }
}
