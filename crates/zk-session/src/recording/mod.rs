//! The flight recorder: a session that writes down what happens to it, and a replay.
//!
//! A recording has every input of the session and of its dispatcher with its time, and every output:
//! frames, requests, states, and the inputs and actions of attached machines. Its format is that of
//! [`zk_proto::recording`]. It helps to explain a failure that happened only once:
//!
//! ```no_run
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_session::blocking::Client;
//! use zk_session::recording::{Recording, replay};
//!
//! let (recording, ring) = Recording::ring(1 << 20);
//! let client = Client::builder("zk1,zk2,zk3").record(recording).connect()?;
//! client.exists("/app").wait()?;
//! std::fs::write("app.zkrec", ring.bytes())?;
//! replay(&ring.bytes())?;
//! # Ok(())
//! # }
//! ```
//!
//! * **`zk-explain FILE`** shows its messages, as those of a packet capture.
//! * **[`replay`]** makes the same session and dispatcher again and gives them the same inputs. It
//!   fails at the first record that differs. With [`replay_with`], attached machines are made again
//!   and decide again. The recorded actions of other machines are inputs of the replay, and their
//!   inputs are compared. `zk-recipes` makes all of its machines.
//! * **Secrets** never reach the recorder's buffers: see [`zk_proto::recording`]. Paths, node names
//!   and the lengths of secrets do. A recording tells a lot about an application.
//! * **Cost.** A client that does not record tests one pointer at each input. One that records copies
//!   each request and reply once more.

mod recorded;
mod replay;
mod script;
mod settings;
mod sink;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use zk_proto::recording::Kind;

use self::recorded::put_servers;
pub use self::replay::{MakeMachine, ReplayError, Replayed, replay, replay_with};
pub use self::script::Divergence;
use self::sink::{Parts, Shared, Sink, lock};
use crate::connect_string::ServerAddress;
use crate::dispatch::Dispatcher;
use crate::recorder::Recorder;
use crate::session::{Config, Session};
use crate::threads::Mutex;
use crate::time::Instant;

/// Where to record a session, for [`ClientBuilder::record`](crate::ClientBuilder::record).
///
/// It records one session: of clones, the first that a client connects with.
#[derive(Clone)]
pub struct Recording {
    /// Behind a pointer, so that the linker drops the recorder where nobody makes one.
    start: Arc<dyn Start>,
    keeps_data: bool,
}

/// Starts to record a session, once.
trait Start: Send + Sync {
    fn start(
        &self,
        keeps_data: bool,
        now: Instant,
        config: &Config,
        servers: &[ServerAddress],
    ) -> Recorder;
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("keeps_data", &self.keeps_data).finish_non_exhaustive()
    }
}

impl Recording {
    fn new(sink: Sink) -> Self {
        Self { start: Arc::new(Mutex::new(Some(sink))), keeps_data: false }
    }

    /// Records to a writer, such as a file. The client writes to it with the session locked: when
    /// 8 KiB are there, when the last write is a second ago, and at the end. When a write fails, the
    /// recording ends.
    pub fn to(writer: impl Write + Send + Sync + 'static) -> Self {
        let writer: Box<dyn Write + Send + Sync> = Box::new(writer);
        Self::new(Sink::Writer(Some(BufWriter::new(writer))))
    }

    /// Records to a new file, which only its owner may read.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be created.
    pub fn to_file(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).map(Self::to)
    }

    /// Keeps about the last `max_bytes` of the recording in memory, in parts of 16 KiB.
    ///
    /// [`replay`] needs the beginning as well, so it refuses a ring that has forgotten some.
    pub fn ring(max_bytes: usize) -> (Self, Ring) {
        let parts = Arc::new(Mutex::new(Parts { limit: max_bytes, ..Parts::default() }));
        (Self::new(Sink::Ring(parts.clone())), Ring(parts))
    }

    /// Sets whether to record the data of nodes; `false` by default. Without it, zeros stand for the
    /// data.
    #[must_use]
    pub fn node_data(mut self, keep: bool) -> Self {
        self.keeps_data = keep;
        self
    }

    /// Begins the recording, unless another session has begun it.
    pub(crate) fn start(
        &self,
        now: Instant,
        config: &Config,
        servers: &[ServerAddress],
    ) -> Recorder {
        self.start.start(self.keeps_data, now, config, servers)
    }
}

impl<T> Dispatcher<T> {
    /// Makes a dispatcher for a new session, and records both. `servers` is what the recording
    /// calls the servers, in the order of their numbers.
    ///
    /// Any later use of the dispatcher is recorded, so clones of its session are not.
    ///
    /// ```
    /// use zk_session::dispatch::Dispatcher;
    /// use zk_session::recording::{Recording, replay};
    /// use zk_session::session::{Action, Config};
    /// use zk_session::time::Instant;
    ///
    /// let (recording, ring) = Recording::ring(1 << 20);
    /// let config = Config::new(1, 42);
    /// let mut dispatcher = Dispatcher::<()>::recorded(Instant::START, config, &recording, &[]);
    /// assert_eq!(dispatcher.session_mut().poll_action(), Some(Action::Connect(0)));
    /// dispatcher.session_mut().handle_disconnected(Instant::START);
    /// assert_eq!(replay(&ring.bytes())?.inputs, 1);
    /// # Ok::<(), zk_session::recording::ReplayError>(())
    /// ```
    pub fn recorded(
        now: Instant,
        config: Config,
        recording: &Recording,
        servers: &[ServerAddress],
    ) -> Self {
        let recorder = recording.start(now, &config, servers);
        let mut session = Session::new(now, config);
        session.recorder = recorder;
        Self::new(session)
    }

    /// Records the servers that replace those of before.
    pub(crate) fn record_servers(&mut self, servers: &[ServerAddress]) {
        let recorder = &mut self.session.0.recorder;
        recorder.write(Kind::SERVERS, &|fields| put_servers(fields, servers));
    }
}

/// The newest part of a recording, in memory.
#[derive(Clone, Debug)]
pub struct Ring(Shared<Parts>);

impl Ring {
    /// Returns the recording as it is now. The client goes on recording.
    pub fn bytes(&self) -> Vec<u8> {
        let parts = lock(&self.0);
        let mut bytes = parts.start.clone();
        parts.parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }
}
