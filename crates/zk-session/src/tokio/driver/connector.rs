//! Connects to servers, and asks them whether they can write. Runs without the lock, since a
//! [`Connect`] may use the client.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use tokio::sync::{Semaphore, oneshot};

use super::{Connect, probe};
use crate::connect_string::ServerAddress;
use crate::sasl::{BegunExchange, Mechanism};
use crate::session::AUTHENTICATION;
use crate::threads::spawn;

type Connecting<T> = Pin<Box<dyn Future<Output = io::Result<Made<T>>> + Send>>;

/// A transport, and what SASL has begun for it.
type Made<T> = (T, Option<BegunExchange>);

/// How many threads a mechanism may occupy, most of them for attempts that were given up.
const MOST_BEGINS: usize = 4;

pub(super) struct Connector<C: Connect> {
    connect: C,
    /// The servers of the latest attempt, and how many addresses each has, if that is not taken yet.
    servers: Arc<[ServerAddress]>,
    addresses: Option<Vec<usize>>,
    /// The server that has served the session since the attempt before, if any.
    served: Option<ServerAddress>,
    mechanism: Option<Arc<dyn Mechanism>>,
    /// A permit for each thread in which the mechanism begins.
    begins: Arc<Semaphore>,
    attempt: Option<TaskAttempt<C::Transport>>,
    probe: Option<Probe>,
    /// Abandoned attempts, to be dropped without the lock.
    given_up: Vec<Box<dyn Send>>,
}

/// An attempt to connect.
enum TaskAttempt<T> {
    Requested(ServerAddress),
    Connecting(Connecting<T>),
    Made(io::Result<Made<T>>),
}

/// A probe: whether a server can write.
struct Probe {
    server: ServerAddress,
    state: Probing,
}

enum Probing {
    Requested,
    Asking(Pin<Box<dyn Future<Output = bool> + Send>>),
    Answered(bool),
}

impl<C: Connect> Connector<C> {
    pub(super) fn new(connect: C, mechanism: Option<Arc<dyn Mechanism>>) -> Self {
        let begins = Arc::new(Semaphore::new(MOST_BEGINS));
        Self {
            connect,
            servers: Arc::new([]),
            addresses: None,
            served: None,
            mechanism,
            begins,
            attempt: None,
            probe: None,
            given_up: Vec::new(),
        }
    }

    /// Continues the attempt and the probe, and drops what was abandoned.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        self.given_up.clear();
        if let Some(TaskAttempt::Requested(server)) = &self.attempt {
            if let Some(served) = self.served.take() {
                self.connect.served(&served);
            }
            self.addresses = Some(self.connect.addresses(&self.servers));
            let connecting = self.connect.connect(server);
            self.attempt = Some(TaskAttempt::Connecting(match self.mechanism.clone() {
                Some(mechanism) if AUTHENTICATION => {
                    let (begins, server) = (self.begins.clone(), server.clone());
                    Box::pin(async move {
                        let transport = connecting.await?;
                        let permit = begins.try_acquire_owned().map_err(|_| busy())?;
                        let (sender, begun) = oneshot::channel();
                        let begin = move || {
                            let begun = mechanism.begin(&server);
                            drop(permit);
                            // The attempt may have been given up.
                            let _ = sender.send(begun);
                        };
                        spawn("zookeeper-sasl", Box::new(begin))?;
                        let begun = begun.await.map_err(|_| panicked())?;
                        Ok((transport, Some(begun.map_err(io::Error::other)?)))
                    })
                }
                _ => Box::pin(async move { Ok((connecting.await?, None)) }),
            }));
        }
        if let Some(TaskAttempt::Connecting(connecting)) = &mut self.attempt
            && let Poll::Ready(made) = connecting.as_mut().poll(cx)
        {
            self.attempt = Some(TaskAttempt::Made(made));
            self.addresses = Some(self.connect.addresses(&self.servers));
        }
        let Some(Probe { server, state }) = &mut self.probe else {
            return;
        };
        if let Probing::Requested = state {
            *state = Probing::Asking(probe::ask(self.connect.connect(server)));
        }
        if let Probing::Asking(answer) = state
            && let Poll::Ready(read_write) = answer.as_mut().poll(cx)
        {
            *state = Probing::Answered(read_write);
        }
    }

    /// Returns whether it must be polled again at once.
    pub(super) fn has_work(&self) -> bool {
        matches!(self.attempt, Some(TaskAttempt::Requested(_)))
            || matches!(self.probe, Some(Probe { state: Probing::Requested, .. }))
            || !self.given_up.is_empty()
    }

    /// Sets the servers of the next attempt, and the one that has served the session.
    pub(super) fn set_servers(
        &mut self,
        servers: Arc<[ServerAddress]>,
        served: Option<ServerAddress>,
    ) {
        (self.servers, self.served) = (servers, served);
    }

    /// Takes how many addresses these servers have, if that is news.
    pub(super) fn take_addresses(&mut self, servers: &Arc<[ServerAddress]>) -> Option<Vec<usize>> {
        self.addresses.take().filter(|_| Arc::ptr_eq(&self.servers, servers))
    }

    /// Starts an attempt to connect to a server, in place of any other.
    pub(super) fn connect_to(&mut self, server: Option<ServerAddress>) {
        let before = core::mem::replace(&mut self.attempt, server.map(TaskAttempt::Requested));
        self.give_up(before);
    }

    /// Takes the result of the attempt, once.
    pub(super) fn take_made(&mut self) -> Option<io::Result<Made<C::Transport>>> {
        match self.attempt.take_if(|attempt| matches!(attempt, TaskAttempt::Made(_)))? {
            TaskAttempt::Made(made) => Some(made),
            TaskAttempt::Requested(_) | TaskAttempt::Connecting(_) => None,
        }
    }

    /// Starts a probe of a server, in place of any other.
    pub(super) fn probe(&mut self, server: Option<ServerAddress>) {
        let probe = server.map(|server| Probe { server, state: Probing::Requested });
        let before = core::mem::replace(&mut self.probe, probe);
        self.give_up(before);
    }

    /// Takes the result of the probe, once: the server, and whether it can write.
    pub(super) fn take_probed(&mut self) -> Option<(ServerAddress, bool)> {
        let answered = |probe: &mut Probe| matches!(probe.state, Probing::Answered(_));
        match self.probe.take_if(answered)? {
            Probe { server, state: Probing::Answered(read_write) } => Some((server, read_write)),
            Probe { .. } => None,
        }
    }

    /// Keeps an abandoned attempt or probe, to be dropped later.
    pub(super) fn give_up(&mut self, unwanted: Option<impl Send + 'static>) {
        if let Some(unwanted) = unwanted {
            self.given_up.push(Box::new(unwanted));
        }
    }
}

fn busy() -> io::Error {
    let error = "the SASL mechanism has not begun for earlier attempts to connect";
    io::Error::new(io::ErrorKind::ResourceBusy, error)
}

fn panicked() -> io::Error {
    io::Error::other("the SASL mechanism panicked")
}

#[cfg(test)]
mod tests;
