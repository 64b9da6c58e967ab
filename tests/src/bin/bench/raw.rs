//! The floor: prepared frames over one blocking socket, and replies that are only counted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use zk_proto::{
    ConnectRequest, GetDataRequest, OpCode, Request, RequestHeader, SessionId, SetDataRequest, Xid,
    Zxid, frame,
};

use crate::report::{Figures, measured};
use crate::work::{DATA, PATH, Work};

pub(crate) const NAME: &str = "raw-socket";

pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_nodelay(true)?;
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout: 30_000,
        session_id: SessionId::NONE,
        password: Some(&[0; 16]),
        read_only: Some(false),
    };
    let mut bytes = Vec::new();
    frame::encode(&connect, &mut bytes).map_err(io::Error::other)?;
    stream.write_all(&bytes)?;
    let mut replies = Replies { stream: stream.try_clone()?, buffer: vec![0; 1 << 18], filled: 0 };
    replies.wait_for(1)?;

    let request = match work.writes {
        true => Request::SetData(SetDataRequest { path: PATH, data: Some(&DATA), version: -1 }),
        false => Request::GetData(GetDataRequest { path: PATH, watch: false }),
    };
    let mut one = Vec::new();
    let header = RequestHeader { xid: Xid::FIRST, opcode: request.opcode() };
    frame::encode(&(header, request), &mut one).map_err(io::Error::other)?;
    debug_assert!(matches!(header.opcode, OpCode::GET_DATA | OpCode::SET_DATA));
    let window = one.repeat(work.in_flight);

    let mut result = Ok(());
    let figures = measured(work.operations, || {
        let mut latencies = Vec::new();
        if work.in_flight == 1 {
            latencies.reserve(work.operations);
            for _ in 0..work.operations {
                let start = Instant::now();
                result = stream.write_all(&one).and_then(|()| replies.wait_for(1).map(drop));
                latencies.push(start.elapsed());
            }
            return latencies;
        }
        // As many as are answered are sent again, so that the window stays full.
        let (mut sent, mut answered) = (work.in_flight, 0);
        result = stream.write_all(&window);
        while answered < work.operations && result.is_ok() {
            match replies.wait_for(1) {
                Ok(count) => {
                    answered += count;
                    let more = count.min(work.operations.saturating_sub(sent));
                    sent += more;
                    result = stream.write_all(&window[..more * one.len()]);
                }
                Err(error) => result = Err(error),
            }
        }
        latencies
    });
    result.map(|()| figures)
}

/// Counts frames.
struct Replies {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Replies {
    /// Waits for at least `least` frames, and says how many came.
    fn wait_for(&mut self, least: usize) -> io::Result<usize> {
        let mut frames = 0;
        while frames < least {
            let count = self.stream.read(&mut self.buffer[self.filled..])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += count;
            let mut rest = &self.buffer[..self.filled];
            while let Ok(Some((_, behind))) = frame::split(rest, frame::DEFAULT_LIMIT) {
                rest = behind;
                frames += 1;
            }
            let left = rest.len();
            self.buffer.copy_within(self.filled - left..self.filled, 0);
            self.filled = left;
        }
        Ok(frames)
    }
}
