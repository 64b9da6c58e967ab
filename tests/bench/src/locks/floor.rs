//! The floor of locks on our client: the bare requests of our mutex, without a task or a machine.
//! It does not handle failures, and is not for use.

use std::io;

use zk_session::proto::{GetChildrenRequest, GetChildrenResponse, NodeKind, Request, path};
use zk_session::session::Reply;
use zk_session::{Answer, Client, Error, Tokio, Watch};

use super::contenders::{Lock, Locks};

pub(super) const NAME: &str = "floor";

#[derive(Clone)]
pub(super) struct Floor(Client);

pub(super) struct Bare {
    client: Client,
    parent: String,
}

impl Locks for Floor {
    type Lock = Bare;

    async fn connect(at: &str) -> io::Result<Self> {
        Client::connect(at).await.map(Self).map_err(io::Error::other)
    }

    fn lock(&self, path: &str) -> io::Result<Bare> {
        // Refused if it exists.
        drop(self.0.create(path, b"", NodeKind::Persistent));
        Ok(Bare { client: self.0.clone(), parent: path.to_owned() })
    }
}

impl Lock for Bare {
    /// The node, and its watch, if any.
    type Held = (String, Option<Watch<Tokio>>);

    async fn acquire(&self) -> io::Result<Self::Held> {
        self.enter().await.map_err(io::Error::other)
    }

    async fn release(&self, (node, own_watch): Self::Held) -> io::Result<()> {
        let deleted = self.client.batch(|| {
            drop(own_watch);
            self.client.delete(&node, None)
        });
        deleted.await.map_err(io::Error::other)
    }

    fn let_go(&self, (node, own_watch): Self::Held) {
        self.client.batch(|| {
            drop(own_watch);
            drop(self.client.delete(&node, None));
        });
    }
}

impl Bare {
    async fn enter(&self) -> Result<(String, Option<Watch<Tokio>>), Error> {
        // As long as Curator's names, so that lists have the same length.
        let name = path::child(&self.parent, "_c_00000000-0000-0000-0000-000000000000-lock-");
        let (created, listed) = self.client.batch(|| {
            let created = self.client.create(&name, b"", NodeKind::EphemeralSequential);
            (created, self.list(&self.parent, false).0)
        });
        let (node, _) = created.await?;
        let (mut children, mut own_watch) = (listed.await?, None);
        while let Some((before, ahead)) = self.before(&node, &children)? {
            let (answer, end) = self.client.batch(|| {
                own_watch = (ahead == 1).then(|| self.list(&node, true).1).flatten();
                self.list(&before, true)
            });
            // The node may be gone already.
            if answer.await.is_ok()
                && let Some(end) = end
            {
                end.await?;
            }
            if own_watch.is_some() {
                break;
            }
            children = self.list(&self.parent, false).0.await?;
        }
        Ok((node, own_watch))
    }

    fn list(&self, path: &str, watch: bool) -> (Answer<Reply, Tokio>, Option<Watch<Tokio>>) {
        self.client.submit_and_watch(&Request::GetChildren(GetChildrenRequest { path, watch }))
    }

    /// Returns the predecessor of `node`, and the number of contenders before it.
    fn before(&self, node: &str, children: &Reply) -> Result<Option<(String, usize)>, Error> {
        let children = children.decode::<GetChildrenResponse<'_>>()?.children;
        // All names have one prefix, so sorting them sorts the sequence numbers.
        let own = node.rsplit('/').next();
        let mut ahead = 0;
        let last = children.iter().filter(|child| Some(*child) < own).inspect(|_| ahead += 1).max();
        Ok(last.map(|last| (path::child(&self.parent, last), ahead)))
    }
}
