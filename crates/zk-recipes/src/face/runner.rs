//! Runs a machine on a client: the only place that joins the two. Decides nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::AtomicUsize;
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use zk_session::{Answer, Client, State, Watch};

use crate::error::LockError;
use crate::face::desk::{Clerk, Handle, Notes, Place, Status, Wish};
use crate::machine::{Event, Input, Machine, OpId, Output};

/// Is told everything that happens in one attempt.
pub(crate) type Note = Box<dyn Fn(&Event) + Send + Sync>;

/// Enters the queue at once, and has a task do the rest. The task ends when nothing of the
/// contender is left on the server, or the session has ended. From when nobody wants it any more
/// until then it is counted in `cleanups`.
pub(crate) fn start(
    client: &Client,
    machine: impl Machine + Send + 'static,
    note: Option<Note>,
    cleanups: Arc<AtomicUsize>,
) -> Handle {
    let (clerk, handle) = Clerk::with_handle(cleanups);
    let mut states = client.states();
    let state = *states.borrow_and_update();
    let mut runner = Box::new(Runner {
        // A limit for requests is not one for locks, and a deletion must not be given up.
        client: client.with_request_timeout(None),
        machine,
        answers: Vec::new(),
        watches: Vec::new(),
        alarm: None,
        lease: None,
        is_wanted: true,
        is_acquired: false,
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

struct Runner<M> {
    client: Client,
    machine: M,
    answers: Vec<(OpId, Answer)>,
    watches: Vec<(OpId, Watch)>,
    /// When the machine wants to be called.
    alarm: Option<Instant>,
    /// Until when the session is sure to be kept, while there is no connection.
    lease: Option<Instant>,
    /// Whether anybody is left to wish.
    is_wanted: bool,
    /// Whether it is told already what came of acquiring the lock.
    is_acquired: bool,
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
            poll_fn(|cx| {
                self.poll_timer(timer.as_mut(), cx);
                self.poll_wishes(cx);
                poll_watches(&mut self.watches, &mut self.inbox, cx);
                poll_answers(&mut self.answers, &mut self.inbox, cx);
                if let Poll::Ready((state, states)) = next.as_mut().poll(cx) {
                    next.set(next_state(states));
                    self.inbox.push_front(Input::Session(state));
                }
                if self.inbox.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
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

    fn handle(&mut self, input: Input) {
        match input {
            Input::Session(State::Connected { .. }) => self.lease = None,
            Input::Session(_) if self.lease.is_none() => self.lease = self.client.lease(),
            _ => {}
        }
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
                self.watches.extend(watch.map(|watch| (op, watch)));
            }
            Output::Submit { op, operation } => {
                let answer = operation.with_request(|request| self.client.submit(request));
                self.answers.push((op, answer));
            }
            Output::Unwatch(op) => self.watches.retain(|(watch, _)| *watch != op),
            Output::SetTimer(after) => self.alarm = Some(Instant::now() + after),
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
            Event::Waiting { .. } | Event::Foreign(_) => return,
            Event::Leased(leases) => {
                self.leases = leases;
                return;
            }
            Event::Acquired { node, token } | Event::Converted { node, token, .. } => {
                let leases = core::mem::take(&mut self.leases);
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
        self.clerk.tell(|notes| {
            if !status.is_open() {
                notes.is_over();
            }
            notes.status = status;
        });
    }

    fn answer(&mut self, place: Result<Place, LockError>) {
        self.is_acquired = true;
        self.clerk.tell(|notes| notes.place = Some(place));
    }

    fn poll_timer(&mut self, mut timer: Pin<&mut Sleep>, cx: &mut Context<'_>) {
        let Some(due) = self.alarm.into_iter().chain(self.lease).min() else {
            return;
        };
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        if timer.poll(cx).is_ready() {
            let is_due = |at: &mut Instant| *at == due;
            self.inbox.extend(self.alarm.take_if(is_due).map(|_| Input::Timer));
            self.inbox.extend(self.lease.take_if(is_due).map(|_| Input::LeaseEnded));
        }
    }

    fn poll_wishes(&mut self, cx: &Context<'_>) {
        if self.is_wanted
            && let Poll::Ready(wish) = self.clerk.poll_wish(cx)
        {
            self.is_wanted = wish.is_some();
            self.inbox.push_back(match wish {
                Some(Wish::Convert(claim)) => Input::Convert(claim),
                Some(Wish::Leave) => Input::Leave,
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
            inbox.push_front(Input::Reply { op: *op, result });
            drop(answers.remove(place));
        }
    }
}

fn poll_watches(
    watches: &mut Vec<(OpId, Watch)>,
    inbox: &mut VecDeque<Input>,
    cx: &mut Context<'_>,
) {
    for place in (0..watches.len()).rev() {
        let (op, watch) = &mut watches[place];
        if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
            // A watch that ends without an event has been told by the state of the session.
            if let Ok(event) = event {
                inbox.push_front(Input::Watch { op: *op, event_type: event.event_type });
            }
            drop(watches.remove(place));
        }
    }
}
