//! Runs a machine on a client: the only place that joins the two. Decides nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use zk_session::{Answer, Client, Error, State, Watch};

use crate::error::LockError;
use crate::face::desk::{Clerk, Handle, Notes, Place, Status, Wish};
use crate::machine::{Event, Input, Machine, OpId, Operation, Output, Renewal, Trust};

/// Is told everything that happens in one attempt.
pub(crate) type Note = Box<dyn Fn(&Event) + Send + Sync>;

/// Enters the queue at once, and has a task do the rest. The task ends when nothing of the
/// contender is left on the server, or the session has ended. From when nobody wants it any more
/// until then it is counted in `cleanups`.
pub(crate) fn start(
    client: &Client,
    machine: impl Machine + Send + 'static,
    note: Option<Note>,
    trust: Trust,
    cleanups: Arc<AtomicUsize>,
) -> Handle {
    let (clerk, handle) = Clerk::with_handle(client.clone(), trust, cleanups);
    let mut states = client.states();
    let state = *states.borrow_and_update();
    let mut runner = Box::new(Runner {
        // A limit for requests is not one for locks, and a deletion must not be given up.
        client: client.with_request_timeout(None),
        machine,
        answers: Vec::new(),
        watches: Vec::new(),
        renewal: Renewal::new(next_seed(client)),
        renewing: None,
        silent_since: Instant::now(),
        silent_until: None,
        is_connected: false,
        alarm: None,
        is_wanted: true,
        is_acquired: false,
        is_settling: false,
        inbox: VecDeque::new(),
        leases: Vec::new(),
        clerk,
        note,
    });
    client.together(|| runner.handle(Input::Session(state)));
    // Where the session lives: whoever asks may be anywhere, and gone before the lock is.
    client.runtime().spawn(runner.run(states));
    handle
}

/// Different for every attempt of this process, and most likely for those of others.
fn next_seed(client: &Client) -> u64 {
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    client.session_id().0.cast_unsigned().rotate_left(32) ^ attempt
}

/// A watch that is set, and how to set it again.
struct Watching {
    op: OpId,
    operation: Operation,
    watch: Watch,
}

struct Renewing {
    op: OpId,
    answer: Answer,
    watch: Option<Watch>,
}

struct Runner<M> {
    client: Client,
    machine: M,
    answers: Vec<(OpId, Answer)>,
    watches: Vec<Watching>,
    renewal: Renewal,
    /// The watch that is being renewed.
    renewing: Option<Renewing>,
    /// When a watch was last asked for, or the session resumed: pings count from then, too.
    silent_since: Instant,
    /// If the machine has heard nothing by then, a watch is renewed.
    silent_until: Option<Instant>,
    /// Whether there is a connection to a quorum.
    is_connected: bool,
    /// When the machine wants to be called.
    alarm: Option<Instant>,
    /// Whether anybody is left to wish.
    is_wanted: bool,
    /// Whether it is told already what came of acquiring the lock.
    is_acquired: bool,
    /// Whether the machine wants everything that has arrived.
    is_settling: bool,
    /// What was found at one look, in the order in which the machine is to hear of it.
    inbox: VecDeque<Input>,
    /// Told before the place that they belong to.
    leases: Vec<String>,
    clerk: Clerk,
    note: Option<Note>,
}

impl<M: Machine> Runner<M> {
    /// Waits until there is something for the machine, and has it take note.
    ///
    /// The session goes on while we look, so what it sent first must be looked at last: then
    /// whatever was sent before the things found is found too, and can be put in front of them.
    /// That is why watches and answers are asked from the newest to the oldest. An event must not
    /// overtake one that came before it on another watch, nor an answer the one before it.
    ///
    /// The state comes last and so goes to the front: an event that was missed during a reconnect
    /// is only to be trusted with that in mind.
    async fn run(mut self: Box<Self>, states: watch::Receiver<State>) {
        let client = self.client.clone();
        let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
        let mut next = pin!(next_state(states));
        while !self.machine.is_done() {
            let settles = core::mem::take(&mut self.is_settling);
            if settles {
                // The session reads what has arrived, and hands it out under its lock.
                tokio::task::yield_now().await;
                client.together(|| ());
            }
            poll_fn(|cx| {
                self.poll_timer(timer.as_mut(), cx);
                self.poll_wishes(cx);
                self.poll_renewal(cx);
                poll_watches(&mut self.watches, &mut self.inbox, cx);
                poll_answers(&mut self.answers, &mut self.inbox, cx);
                if let Poll::Ready((state, states)) = next.as_mut().poll(cx) {
                    next.set(next_state(states));
                    self.inbox.push_front(Input::Session(state));
                }
                if self.inbox.is_empty() && !settles { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            self.inbox.extend(settles.then_some(Input::Settled));
            self.silent_until = None;
            client.together(|| self.handle_inbox());
        }
    }

    fn handle_inbox(&mut self) {
        while !self.machine.is_done()
            && let Some(input) = self.inbox.pop_front()
        {
            self.handle(input);
        }
    }

    /// A state is published again when the lease ends, and what the owner wants may have come after
    /// that.
    fn handle(&mut self, input: Input) {
        if let Input::Session(state) = input {
            self.is_connected = matches!(state, State::Connected { .. });
            self.silent_since = Instant::now();
        }
        // The process may have been stopped while the event of the hand-over was on its way.
        if matches!(input, Input::Settled) && self.client.lease_has_ended() {
            self.tell_machine(Input::LeaseEnded);
        }
        let may_be_late =
            matches!(input, Input::Session(_) | Input::Convert(_) | Input::Leave | Input::LetGo);
        self.tell_machine(input);
        if may_be_late && !self.machine.is_done() && self.client.lease_has_ended() {
            self.tell_machine(Input::LeaseEnded);
        }
    }

    fn tell_machine(&mut self, input: Input) {
        self.machine.handle(input);
        while let Some(output) = self.machine.poll_output() {
            self.perform(output);
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Submit { op, operation } if operation.watches() => {
                let (answer, watch) =
                    operation.with_request(|request| self.client.submit_and_watch(request));
                self.answers.push((op, answer));
                self.silent_since = Instant::now();
                self.watches.extend(watch.map(|watch| Watching { op, operation, watch }));
            }
            Output::Submit { op, operation } => {
                let answer = operation.with_request(|request| self.client.submit(request));
                self.answers.push((op, answer));
            }
            Output::Unwatch(op) => {
                self.watches.retain(|watching| watching.op != op);
                self.renewing.take_if(|renewing| renewing.op == op);
            }
            Output::SetTimer(after) => self.alarm = Some(Instant::now() + after),
            Output::Settle => self.is_settling = true,
            Output::Event(event) => self.tell(event),
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(note) = &self.note {
            note(&event);
        }
        let status = match event {
            // A candidate that has lost begins anew.
            Event::Enqueued { .. } => return self.clerk.note(Notes::is_wanted_again),
            Event::Waiting { .. } | Event::Foreign(_) | Event::Abandoned { .. } => return,
            Event::Leased(leases) => {
                self.leases = leases;
                return;
            }
            Event::Acquired { node, token } | Event::Converted { node, token, .. } => {
                let leases = core::mem::take(&mut self.leases).into_boxed_slice();
                return self.answer(Ok(Place { node, token, leases }));
            }
            Event::NotConverted(error) => return self.answer(Err(error)),
            Event::Revoked => return self.clerk.tell(|notes| notes.revoked = true),
            Event::Resumed => Status::Held,
            Event::Suspended => Status::Suspended,
            Event::Lost(loss) => Status::Lost(loss),
            Event::Released => Status::Released,
            Event::Failed(error) if !self.is_acquired => {
                self.clerk.note(Notes::is_over);
                return self.answer(Err(error));
            }
            Event::Failed(error) => Status::Failed(error),
        };
        self.clerk.tell(|notes| notes.set_status(status));
    }

    fn answer(&mut self, place: Result<Place, LockError>) {
        self.is_acquired = true;
        self.clerk.tell(|notes| {
            notes.is_acquired |= place.is_ok();
            notes.place = Some(place);
        });
    }

    fn poll_timer(&mut self, mut timer: Pin<&mut Sleep>, cx: &mut Context<'_>) {
        if self.silent_until.is_none() && self.renewing.is_none() && !self.watches.is_empty() {
            let wait = self.renewal.wait(self.client.session_timeout());
            self.silent_until = self.silent_since.checked_add(wait);
        }
        let dues = self.alarm.into_iter().chain(self.silent_until);
        let Some(due) = dues.min() else {
            return;
        };
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        if timer.poll(cx).is_ready() {
            let is_due = |at: &mut Instant| *at == due;
            self.inbox.extend(self.alarm.take_if(is_due).map(|_| Input::Timer));
            if self.silent_until.take_if(is_due).is_some() {
                self.renew();
                // What is due next is to be found out.
                cx.waker().wake_by_ref();
            }
        }
    }

    /// Makes the request of a watch again. The old watch stands until the new one is set.
    fn renew(&mut self) {
        self.silent_since = Instant::now();
        let place = self.renewal.next(self.watches.len()).filter(|_| self.is_connected);
        if let Some(place) = place {
            let Watching { op, operation, .. } = &self.watches[place];
            let (answer, watch) =
                operation.with_request(|request| self.client.submit_and_watch(request));
            self.renewing = Some(Renewing { op: *op, answer, watch });
        }
    }

    /// It is newer than all that was asked before, so its answer is looked at before theirs.
    fn poll_renewal(&mut self, cx: &mut Context<'_>) {
        let Some(renewing) = &mut self.renewing else { return };
        let Poll::Ready(result) = Pin::new(&mut renewing.answer).poll(cx) else { return };
        let result = result.map_err(Error::from);
        let (op, watch) = (renewing.op, renewing.watch.take());
        self.renewing = None;
        // The next silence begins.
        cx.waker().wake_by_ref();
        // The event may have come after all.
        let Some(old) = self.watches.iter_mut().find(|watching| watching.op == op) else { return };
        if let (Ok(_), Some(watch)) = (&result, watch) {
            old.watch = watch;
        }
        if Renewal::is_news(&result) {
            self.inbox.push_front(Input::Reply { op, result });
        }
    }

    fn poll_wishes(&mut self, cx: &Context<'_>) {
        while self.is_wanted
            && let Poll::Ready(wish) = self.clerk.poll_wish(cx)
        {
            self.is_wanted = wish.is_some();
            self.inbox.push_back(match wish {
                Some(Wish::Convert(claim)) => Input::Convert(claim),
                Some(Wish::Leave) => Input::Leave,
                // Whoever was told so must not be told anything else.
                Some(Wish::EndLease) => Input::LeaseEnded,
                None => Input::LetGo,
            });
        }
    }
}

/// Its end is not told: the last state is that the session has ended.
async fn next_state(mut states: watch::Receiver<State>) -> (State, watch::Receiver<State>) {
    if states.changed().await.is_err() {
        core::future::pending::<()>().await;
    }
    let state = *states.borrow_and_update();
    (state, states)
}

fn poll_answers(
    answers: &mut Vec<(OpId, Answer)>,
    inbox: &mut VecDeque<Input>,
    cx: &mut Context<'_>,
) {
    for place in (0..answers.len()).rev() {
        let (op, answer) = &mut answers[place];
        if let Poll::Ready(result) = Pin::new(answer).poll(cx) {
            inbox.push_front(Input::Reply { op: *op, result: result.map_err(Error::from) });
            drop(answers.remove(place));
        }
    }
}

fn poll_watches(watches: &mut Vec<Watching>, inbox: &mut VecDeque<Input>, cx: &mut Context<'_>) {
    for place in (0..watches.len()).rev() {
        let Watching { op, watch, .. } = &mut watches[place];
        if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
            // A watch that ends without an event has been told by the state of the session.
            if let Ok(event) = event {
                inbox.push_front(Input::Watch { op: *op, event_type: event.event_type });
            }
            drop(watches.remove(place));
        }
    }
}
