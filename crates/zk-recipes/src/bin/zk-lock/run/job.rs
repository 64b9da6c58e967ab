//! A command under its lock, from its start until all its processes have ended.

use std::future::pending;
use std::os::unix::process::CommandExt as _;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zk_recipes::session::Client;
use zk_recipes::{Holding, Loss};

use super::{Arguments, ENDS, Supervisor, exit_code, exit_code_of_signal};
use crate::acquire::{Held, is_lost};
use crate::lease::RESERVE_DIVISOR;
use crate::passing::{Shared, pass_on};
use crate::processes::{Processes, sleep_until};
use crate::release::{self, Requests};
use crate::settings::SECRETS;
use crate::signals::Received;
use crate::{Failure, exec, once, print_line, print_meanwhile};

/// A command with its lock, its client and its supervisor.
pub(super) struct Job<'a> {
    /// `None` once the command has released the lock.
    pub(super) guard: &'a mut Option<Held>,
    pub(super) arguments: &'a Arguments,
    pub(super) client: &'a Client,
    pub(super) supervisor: &'a mut Supervisor,
    /// When the lock was acquired.
    pub(super) begun: Instant,
}

/// Why [`Job::attend`] has returned.
struct Ending {
    /// Whether the remaining processes are to end: the lock is lost, or the supervisor was killed.
    must_end: bool,
    /// Whether a signal has asked the command to end.
    is_signalled: bool,
}

impl Job<'_> {
    /// Runs the command, and returns when all its processes have ended. Takes the guard if the
    /// command releases the lock.
    pub(super) async fn run(&mut self) -> Result<ExitCode, Failure> {
        let Some(held) = &self.guard else { return Ok(self.arguments.lock.lost()) };
        let mut lost = pin!(held.guard().lost());
        if let Some(code) = self.wait_until_continued(&mut lost).await? {
            return Ok(code);
        }
        let (mut processes, requests) = self.start()?;
        let ending = self.attend(&mut processes, requests, &mut lost).await?;
        if ending.must_end {
            self.end(&mut processes).await?;
        }
        self.supervisor.lease.finish()?;
        let Some(status) = processes.status().filter(|_| !self.has_lost()) else {
            return Ok(self.arguments.lock.lost());
        };
        if self.guard.is_none() && self.arguments.once_per.is_some() {
            let text = "the command has released the lock, so its success is not remembered";
            print_line(&self.arguments.lock.event("not_remembered", text, None));
        } else if self.guard.is_some() && !ending.must_end {
            self.supervisor.enter_group();
            let at_least = self.arguments.at_least.filter(|_| !ending.is_signalled);
            let completed = complete(self.arguments, self.client, status, self.begun, at_least);
            tokio::select! {
                // If there is nothing to wait for, the exit code is that of the command.
                biased;
                completed = completed => completed?,
                loss = &mut lost => {
                    self.print_loss(&loss);
                    return Ok(self.arguments.lock.lost());
                }
                signal = self.supervisor.last_signal() => return Ok(exit_code_of_signal(signal?)),
            }
        }
        Ok(exit_code(status))
    }

    /// Waits while the user has stopped the job, so that the command does not start. Returns an exit
    /// code if it must not start at all.
    async fn wait_until_continued(
        &mut self,
        lost: &mut (impl Future<Output = Loss> + Unpin),
    ) -> Result<Option<ExitCode>, Failure> {
        while self.supervisor.is_stopped() && !self.has_lost() {
            tokio::select! {
                loss = &mut *lost => self.print_loss(&loss),
                signal = self.supervisor.end_or_continue() => if let Some(signal) = signal? {
                    return Ok(Some(exit_code_of_signal(signal)));
                },
            }
        }
        Ok(self.has_lost().then(|| self.arguments.lock.lost()))
    }

    /// Starts the command. Returns its processes, and their requests to release the lock.
    fn start(&mut self) -> Result<(Processes, Requests), Failure> {
        let Self { guard, arguments, client, supervisor, .. } = self;
        let mut command = exec::command(&arguments.command(), supervisor.signals.mask_changes())?;
        for secret in SECRETS {
            command.env_remove(secret);
        }
        if let Some(held) = guard.as_ref().map(Held::guard) {
            command.env("ZK_LOCK_TOKEN", held.fencing_token().0.to_string());
            command.env("ZK_LOCK_NODE", held.node_path());
        }
        let (requests, inherited) = release::channel()?;
        command.env(release::VARIABLE, inherited.descriptors());
        if let Some(group) = supervisor.group {
            command.process_group(group.as_raw_nonzero().get());
        }
        let witness = supervisor.start_witness();
        // Before there is any process that `kill -9` of the job could leave behind.
        supervisor.leave_group();
        supervisor.lease.begin(client)?;
        let spawned = Processes::spawn(&mut command);
        if spawned.is_err() {
            supervisor.lease.finish()?;
        }
        let mut processes = spawned?;
        // Only a witness that started before the command shares all its signals.
        processes.set_witness(witness);
        Ok((processes, requests))
    }

    /// Passes signals on, reports the lease to the supervisor, and releases the lock on request.
    /// Returns when all processes have ended or must end.
    ///
    /// Then it drops the requests: with open pipes that nobody reads, `zk-lock release` would wait.
    async fn attend(
        &mut self,
        processes: &mut Processes,
        requests: Requests,
        lost: &mut (impl Future<Output = Loss> + Unpin),
    ) -> Result<Ending, Failure> {
        let mut requests = Some(requests);
        let (mut shared, mut is_signalled) = (Shared::default(), false);
        let mut ticks = interval(self.reserve().max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let must_end = loop {
            tokio::select! {
                _ = ticks.tick(), if self.guard.is_some() => if !self.has_lost() {
                    self.supervisor.lease.extend(self.client)?;
                },
                ended = processes.wait_any() => {
                    let witnessed = processes.take_witnessed();
                    witnessed.into_iter().for_each(|signal| shared.witnessed(signal));
                    let has_ended = processes.status().is_some();
                    if ended? || (self.arguments.close && has_ended) {
                        break false;
                    }
                    if has_ended {
                        self.supervisor.enter_group();
                    }
                }
                () = requested(&mut requests) => self.release(&mut requests)?,
                loss = &mut *lost, if self.guard.is_some() => {
                    self.print_loss(&loss);
                    break true;
                }
                received = self.supervisor.signals.next() => {
                    let received = received?;
                    if !self.supervisor.is_alive() {
                        self.print_killed();
                        break true;
                    }
                    is_signalled |= ENDS.contains(&received.signal);
                    self.received(received, processes, &mut shared);
                }
                () = sleep_until(shared.due()) => {
                    let Supervisor { group, .. } = self.supervisor;
                    shared.pass_on(processes, *group, self.supervisor.is_stopped());
                }
            }
        };
        Ok(Ending { must_end, is_signalled })
    }

    /// Releases the lock for the command. If the lock is lost, leaves it to the next round to report
    /// that.
    fn release(&mut self, requests: &mut Option<Requests>) -> Result<(), Failure> {
        if !self.has_lost()
            && let (Some(guard), Some(requests)) = (self.guard.take(), requests.take())
        {
            self.supervisor.lease.release()?;
            tokio::spawn(release_early(guard, requests, self.client.clone()));
        }
        Ok(())
    }

    fn received(&self, received: Received, processes: &Processes, shared: &mut Shared) {
        if received.is_from_keyboard {
            // The command has received it as well, if it has not ended.
            if processes.status().is_some() {
                pass_on(received.signal, processes, None);
            }
        } else if received.signal != Signal::CONT {
            shared.received(received, self.supervisor.pid, self.supervisor.group);
        }
    }

    /// Ends the remaining processes.
    async fn end(&mut self, processes: &mut Processes) -> Result<(), Failure> {
        // A session that has ended keeps nothing. The lease is that of the next one.
        let state = self.guard.as_ref().map(|guard| guard.guard().state());
        let has_ended = matches!(state, Some(Holding::Lost(Loss::Ended(_))));
        let lease = self.client.lease().filter(|_| !has_ended).unwrap_or_else(Instant::now);
        // The command has at least the reserve to end.
        let left = (lease - Instant::now()).max(self.reserve());
        let grace = self.arguments.kill_after.unwrap_or(left);
        let Supervisor { lease, signals, .. } = &mut *self.supervisor;
        lease.end_within(grace.saturating_add(Duration::from_secs(1)))?;
        Ok(processes.end(grace, signals).await?)
    }

    fn has_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| is_lost(guard.guard()))
    }

    /// Returns by how much the lease ends before the session. The supervisor learns the end of the
    /// lease at this interval.
    fn reserve(&self) -> Duration {
        self.client.session_timeout() / RESERVE_DIVISOR
    }

    fn print_loss(&mut self, loss: &Loss) {
        self.supervisor.printed = Some(self.arguments.lock.print_loss(loss));
    }

    fn print_killed(&mut self) {
        let lock = &self.arguments.lock;
        let text = format!("zk-lock was killed, so the command under '{}' is ended", lock.path);
        self.supervisor.printed = Some(print_meanwhile(lock.event("killed", &text, None)));
    }
}

/// Waits until the command asks for the release.
async fn requested(requests: &mut Option<Requests>) {
    match requests {
        Some(requests) => requests.next().await,
        None => pending().await,
    }
}

/// Releases the lock for the command, and ends the session.
///
/// Without a confirmation, the requests are dropped, which fails them. The servers then expire the
/// session after its timeout.
async fn release_early(guard: Held, requests: Requests, client: Client) {
    match guard.release(client.session_timeout()).await {
        Ok(()) => drop(tokio::join!(client.close(), requests.confirm())),
        Err(_) => {
            drop(requests);
            client.close().await;
        }
    }
}

/// Remembers that the command has succeeded, and waits.
async fn complete(
    arguments: &Arguments,
    client: &Client,
    status: ExitStatus,
    begun: Instant,
    at_least: Option<Duration>,
) -> Result<(), Failure> {
    if arguments.once_per.is_some() && status.success() {
        once::remember(client, &arguments.lock).await?;
    }
    if let Some(time) = at_least {
        sleep_until(begun.checked_add(time)).await;
    }
    Ok(())
}
