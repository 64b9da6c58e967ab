//! Runs a machine on a client: the only place that joins the two. Decides nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Sleep;
use tokio_util::sync::ReusableBoxFuture;
use zk_session::proto::Zxid;
use zk_session::{Answer, Client, State, Watch};

use crate::error::{LockError, Loss};
use crate::machine::{Claim, Event, Input, Machine, OpId, Output};

/// Is told everything that happens in one attempt.
pub(crate) type Note = Box<dyn Fn(&Event) + Send + Sync>;

/// The node that holds a lock.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) token: Zxid,
    /// All of its nodes, if they are several.
    pub(crate) leases: Vec<String>,
}

/// How things stand with a lock that was acquired.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Held,
    Suspended,
    Lost(Loss),
    Released,
    /// It could not be released.
    Failed(LockError),
}

/// What the owner of a lock wants of it.
#[derive(Debug)]
pub(crate) enum Wish {
    Convert { claim: Claim, answer: oneshot::Sender<Result<Place, LockError>> },
    Leave,
}

/// The owner's end of a contender. When it is dropped, the contender lets go.
#[derive(Debug)]
pub(crate) struct Handle {
    /// Its end is a message, too.
    pub(crate) wishes: mpsc::UnboundedSender<Wish>,
    pub(crate) acquired: oneshot::Receiver<Result<Place, LockError>>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) revoked: watch::Receiver<bool>,
}

/// Waits until nothing of the contender is left on the server, or the session has ended.
pub(crate) async fn gone(mut contender: watch::Receiver<Status>) {
    while contender.changed().await.is_ok() {}
}

/// Enters the queue at once, and has a task do the rest. The task ends when nothing of the
/// contender is left on the server, or the session has ended. From when nobody wants it any more
/// until then it is counted in `cleanups`.
pub(crate) fn start(
    client: &Client,
    machine: impl Machine + Send + 'static,
    note: Option<Note>,
    cleanups: Arc<AtomicUsize>,
) -> Handle {
    // Where the session lives: whoever asks may be anywhere, and gone before the lock is.
    let runtime = client.runtime().clone();
    let _entered = runtime.enter();
    let (wish, wishes) = mpsc::unbounded_channel();
    let (found, acquired) = oneshot::channel();
    let (status, revoked) = (watch::Sender::new(Status::Held), watch::Sender::new(false));
    let (status_seen, revoked_seen) = (status.subscribe(), revoked.subscribe());
    let handle = Handle { wishes: wish, acquired, status: status_seen, revoked: revoked_seen };
    let mut states = client.states();
    let state = *states.borrow_and_update();
    let next_state = ReusableBoxFuture::new(next_state(states));
    let mut runner = Runner {
        // A limit for requests is not one for locks, and a deletion must not be given up.
        client: client.with_request_timeout(None),
        machine,
        answers: Vec::new(),
        watches: Vec::new(),
        next_state,
        alarm: None,
        lease: None,
        wishes: Some(wishes),
        conversion: None,
        inbox: VecDeque::new(),
        acquired: Some(found),
        leases: Vec::new(),
        status,
        revoked,
        note,
        cleanup: Cleanup { pending: false, all: cleanups },
    };
    runner.handle(Input::Session(state));
    runtime.spawn(runner.run());
    handle
}

/// Counts as pending from when it is said until it is dropped.
struct Cleanup {
    pending: bool,
    all: Arc<AtomicUsize>,
}

impl Cleanup {
    fn begin(&mut self) {
        if !core::mem::replace(&mut self.pending, true) {
            self.all.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&mut self) {
        if core::mem::take(&mut self.pending) {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.end();
    }
}

struct Runner<M> {
    client: Client,
    machine: M,
    answers: Vec<(OpId, Answer)>,
    watches: Vec<(OpId, Watch)>,
    /// The newest state, once it has changed; kept over many looks, for it rarely does.
    next_state: ReusableBoxFuture<'static, (State, watch::Receiver<State>)>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Until when the session is sure to be kept, while there is no connection.
    lease: Option<Pin<Box<Sleep>>>,
    /// Nothing when nobody is left to wish.
    wishes: Option<mpsc::UnboundedReceiver<Wish>>,
    conversion: Option<oneshot::Sender<Result<Place, LockError>>>,
    /// What was found at one look, in the order in which the machine is to hear of it.
    inbox: VecDeque<Input>,
    acquired: Option<oneshot::Sender<Result<Place, LockError>>>,
    /// Told before the place that they belong to.
    leases: Vec<String>,
    status: watch::Sender<Status>,
    revoked: watch::Sender<bool>,
    note: Option<Note>,
    cleanup: Cleanup,
}

impl<M: Machine> Runner<M> {
    async fn run(mut self) {
        while !self.machine.is_done() {
            let input = self.next_input().await;
            self.handle(input);
        }
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::LetGo => self.cleanup.begin(),
            Input::Session(State::Connected { .. }) => self.lease = None,
            Input::Session(_) if self.lease.is_none() => self.lease = self.end_of_lease(),
            _ => {}
        }
        self.machine.handle(input);
        while let Some(output) = self.machine.poll_output() {
            self.perform(output);
        }
        if !matches!(*self.status.borrow(), Status::Held | Status::Suspended) {
            // Nothing is converted any more: whoever waits for it finds the reason in the status.
            self.conversion = None;
        }
    }

    fn end_of_lease(&self) -> Option<Pin<Box<Sleep>>> {
        Some(Box::pin(tokio::time::sleep_until(self.client.lease()?)))
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
            Output::SetTimer(after) => self.alarm = Some(Box::pin(tokio::time::sleep(after))),
            Output::Event(event) => self.tell(event),
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(note) = &self.note {
            note(&event);
        }
        let status = match event {
            // A candidate that has lost begins anew.
            Event::Enqueued { .. } if self.wishes.is_some() => return self.cleanup.end(),
            Event::Enqueued { .. } | Event::Waiting { .. } | Event::Foreign(_) => return,
            Event::Leased(leases) => {
                self.leases = leases;
                return;
            }
            Event::Acquired { node, token } => {
                // Nobody may want it any more; then there are no wishes either.
                return answer(self.acquired.take(), Ok(self.place(node, token)));
            }
            Event::Converted { node, token, .. } => {
                return answer(self.conversion.take(), Ok(self.place(node, token)));
            }
            Event::NotConverted(error) => return answer(self.conversion.take(), Err(error)),
            Event::Revoked => {
                self.revoked.send_replace(true);
                return;
            }
            Event::Resumed => Status::Held,
            Event::Suspended => Status::Suspended,
            Event::Lost(loss) => Status::Lost(loss),
            Event::Released => Status::Released,
            Event::Failed(error) if self.acquired.is_some() => {
                self.cleanup.begin();
                return answer(self.acquired.take(), Err(error));
            }
            Event::Failed(error) => Status::Failed(error),
        };
        if !matches!(status, Status::Held | Status::Suspended) {
            self.cleanup.begin();
        }
        self.status.send_replace(status);
    }

    fn place(&mut self, node: String, token: Zxid) -> Place {
        Place { node, token, leases: core::mem::take(&mut self.leases) }
    }

    async fn next_input(&mut self) -> Input {
        loop {
            if let Some(input) = self.inbox.pop_front() {
                return input;
            }
            self.look().await;
        }
    }

    /// Waits until there is something for the machine.
    ///
    /// The session goes on while we look, so what it sent first must be looked at last: then
    /// whatever was sent before the things found is found too, and can be put in front of them.
    /// That is why watches and answers are asked from the newest to the oldest. An event must not
    /// overtake one that came before it on another watch, nor an answer the one before it.
    ///
    /// The state comes last and so goes to the front: an event that was missed during a reconnect
    /// is only to be trusted with that in mind.
    async fn look(&mut self) {
        poll_fn(|cx| {
            let inbox = &mut self.inbox;
            inbox.extend(poll_alarm(&mut self.alarm, cx).map(|()| Input::Timer));
            inbox.extend(poll_alarm(&mut self.lease, cx).map(|()| Input::LeaseEnded));
            inbox.extend(poll_wishes(&mut self.wishes, &mut self.conversion, cx));
            poll_watches(&mut self.watches, inbox, cx);
            poll_answers(&mut self.answers, inbox, cx);
            if let Poll::Ready((state, states)) = self.next_state.poll(cx) {
                self.next_state.set(next_state(states));
                inbox.push_front(Input::Session(state));
            }
            if inbox.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
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

fn poll_alarm(alarm: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Option<()> {
    let ready = alarm.as_mut()?.as_mut().poll(cx).is_ready();
    ready.then(|| *alarm = None)
}

fn poll_wishes(
    wishes: &mut Option<mpsc::UnboundedReceiver<Wish>>,
    conversion: &mut Option<oneshot::Sender<Result<Place, LockError>>>,
    cx: &mut Context<'_>,
) -> Option<Input> {
    match wishes.as_mut()?.poll_recv(cx) {
        Poll::Pending => None,
        Poll::Ready(Some(Wish::Convert { claim, answer })) => {
            *conversion = Some(answer);
            Some(Input::Convert(claim))
        }
        Poll::Ready(Some(Wish::Leave)) => Some(Input::Leave),
        Poll::Ready(None) => {
            *wishes = None;
            Some(Input::LetGo)
        }
    }
}

/// Whoever has asked may not be there any more.
fn answer<T>(asked: Option<oneshot::Sender<T>>, with: T) {
    asked.map(|asked| asked.send(with));
}
