//! A session with many watches, whose connection is cut.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use zk_proto::NodeKind;
use zk_session::{Client, ConnectError, Error, PersistentWatch, Tokio, Watch, WatchUpdate};

use crate::suite::SESSION_TIMEOUT;
use crate::wire::CountedConnect;

/// The numbers of watches of a session.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// One-shot watches: a third each for data, for missing nodes, and for lists of children.
    pub once: usize,
    /// Persistent watches.
    pub persistent: usize,
    /// Persistent recursive watches.
    pub recursive: usize,
}

/// A client, its watches, and its connections.
#[derive(Debug)]
pub struct Watchers {
    /// The client.
    pub client: Client,
    /// The transport of its connections.
    pub connect: CountedConnect,
    /// The one-shot watches.
    pub once: Vec<Watch<Tokio>>,
    /// The persistent watches.
    pub staying: Vec<PersistentWatch<Tokio>>,
    load: Load,
}

/// Returns a path of 76 bytes, of which `parent` and `number` determine 8.
fn path(parent: &str, number: usize) -> String {
    format!("/{parent}/{number:0width$}", width = 76 - 2 - parent.len())
}

/// How many requests are in flight while the watches are set.
const IN_FLIGHT: usize = 256;

async fn each<F: Future<Output = Result<T, E>>, T, E>(
    requests: impl Iterator<Item = F>,
) -> Result<Vec<T>, E> {
    let (mut under_way, mut answers) = (VecDeque::new(), Vec::new());
    for request in requests {
        under_way.push_back(request);
        if under_way.len() == IN_FLIGHT
            && let Some(oldest) = under_way.pop_front()
        {
            answers.push(oldest.await?);
        }
    }
    for rest in under_way {
        answers.push(rest.await?);
    }
    Ok(answers)
}

impl Watchers {
    /// Connects, creates the nodes, and sets the watches.
    ///
    /// # Errors
    ///
    /// If no server answers.
    ///
    /// # Panics
    ///
    /// If the server refuses a request.
    pub async fn start(at: &str, load: Load) -> Result<Self, ConnectError> {
        let connect = CountedConnect::default();
        let client = Client::builder(at)
            .session_timeout(SESSION_TIMEOUT)
            .connect_with(connect.clone())
            .await?;
        for parent in ["data", "absent", "child", "stays", "below"] {
            client.ensure_path(&format!("/{parent}")).await.expect("created");
        }
        let mut this = Self { client, connect, once: Vec::new(), staying: Vec::new(), load };
        this.watch().await.expect("watches");
        Ok(this)
    }

    async fn watch(&mut self) -> Result<(), Error> {
        let (client, load) = (&self.client, self.load);
        let of = |kind: usize| (0..load.once).filter(move |number| number % 3 == kind);
        let create = |path: String| client.create(&path, b"", NodeKind::Persistent);
        each(of(0).map(|number| create(path("data", number)))).await?;
        each(of(2).map(|number| create(path("child", number)))).await?;
        each((0..load.recursive).map(|number| create(path("below", number)))).await?;
        let data = of(0).map(|number| client.get_data_and_watch(&path("data", number)));
        self.once.extend(each(data).await?.into_iter().map(|(_, _, watch)| watch));
        let absent = of(1).map(|number| client.exists_and_watch(&path("absent", number)));
        self.once.extend(each(absent).await?.into_iter().map(|(_, watch)| watch));
        let child = of(2).map(|number| client.get_children_and_watch(&path("child", number)));
        self.once.extend(each(child).await?.into_iter().map(|(_, _, watch)| watch));
        let stays = (0..load.persistent).map(|number| client.watch(&path("stays", number)));
        self.staying.extend(each(stays).await?);
        let below =
            (0..load.recursive).map(|number| client.watch_recursively(&path("below", number)));
        self.staying.extend(each(below).await?);
        Ok(())
    }

    /// Cuts the connection. Returns the time from the next connection until all watches are set
    /// again, measured by a request behind them.
    ///
    /// # Errors
    ///
    /// If the session has ended.
    pub async fn cut(&self) -> Result<Duration, Error> {
        let before = self.connect.connected_at();
        self.connect.cut();
        while self
            .client
            .exists("/")
            .await
            .is_err_and(|error| error.reason == Error::ConnectionLost)
        {}
        let done = Instant::now();
        let connected = self.connect.connected_at().filter(|at| Some(*at) != before);
        Ok(done - connected.expect("an answer on a new connection"))
    }

    /// Changes every watched node once, by requests of `other`.
    ///
    /// # Errors
    ///
    /// Returns the first error of `other`.
    pub async fn change_everything(&self, other: &Client) -> Result<(), Error> {
        let create = |path: String| other.create(&path, b"", NodeKind::Persistent);
        let of = |kind: usize| (0..self.load.once).filter(move |number| number % 3 == kind);
        each(of(0).map(|number| other.set_data(&path("data", number), b"new", None))).await?;
        each(of(1).map(|number| create(path("absent", number)))).await?;
        each(of(2).map(|number| create(path("child", number) + "/new"))).await?;
        each((0..self.load.persistent).map(|number| create(path("stays", number)))).await?;
        let below = (0..self.load.recursive).map(|number| create(path("below", number) + "/new"));
        each(below).await?;
        Ok(())
    }

    /// Waits until every watch has reported its change, and every persistent one a gap before it.
    ///
    /// # Errors
    ///
    /// If the session has ended.
    ///
    /// # Panics
    ///
    /// If a watch reports anything else.
    pub async fn receive_everything(&mut self) -> Result<(), Error> {
        for watch in self.once.drain(..) {
            watch.await?;
        }
        for watch in &mut self.staying {
            assert_eq!(watch.next().await?, WatchUpdate::Gap);
            let update = watch.next().await?;
            assert!(matches!(update, WatchUpdate::Event(_)), "{update:?}");
        }
        Ok(())
    }
}
