//! Runs a machine on a client: the only place that joins the two. Decides nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;
use zk_session::proto::Zxid;
use zk_session::{Answer, Client, State, Watch};

use crate::error::{LockError, Loss};
use crate::machine::{Contender, Contest, Event, Input, OpId, Output};

/// Is told everything that happens to a contender.
pub(crate) type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// The node that holds a lock.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) token: Zxid,
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

/// The owner's end of a contender. When it is dropped, the contender lets go.
#[derive(Debug)]
pub(crate) struct Handle {
    /// Nothing is ever sent; its end is the message.
    pub(crate) interest: oneshot::Sender<()>,
    pub(crate) acquired: oneshot::Receiver<Result<Place, LockError>>,
    pub(crate) status: watch::Receiver<Status>,
}

/// Enters the queue at once, and has a task do the rest. The task ends when nothing of the
/// contender is left on the server, or the session has ended.
pub(crate) fn start(client: &Client, contest: Contest, observer: Option<Observer>) -> Handle {
    let (interest, let_go) = oneshot::channel();
    let (found, acquired) = oneshot::channel();
    let status = watch::Sender::new(Status::Held);
    let handle = Handle { interest, acquired, status: status.subscribe() };
    let mut states = client.states();
    let state = *states.borrow_and_update();
    let mut runner = Runner {
        client: client.clone(),
        contender: Contender::new(contest),
        answers: Vec::new(),
        watches: Vec::new(),
        states,
        alarm: None,
        let_go: Some(let_go),
        inbox: VecDeque::new(),
        acquired: Some(found),
        status,
        observer,
    };
    runner.contender.handle(Input::Session(state));
    runner.perform();
    tokio::spawn(runner.run());
    handle
}

struct Runner {
    client: Client,
    contender: Contender,
    answers: Vec<(OpId, Answer)>,
    watches: Vec<(OpId, Watch)>,
    states: watch::Receiver<State>,
    alarm: Option<Pin<Box<Sleep>>>,
    let_go: Option<oneshot::Receiver<()>>,
    /// What was found at one look, in the order in which the machine is to hear of it.
    inbox: VecDeque<Input>,
    acquired: Option<oneshot::Sender<Result<Place, LockError>>>,
    status: watch::Sender<Status>,
    observer: Option<Observer>,
}

impl Runner {
    async fn run(mut self) {
        while !self.contender.is_done() {
            let input = self.next_input().await;
            self.contender.handle(input);
            self.perform();
        }
    }

    fn perform(&mut self) {
        while let Some(output) = self.contender.poll_output() {
            match output {
                Output::Submit { op, operation } if operation.watches() => {
                    let (answer, watch) = self.client.submit_and_watch(&operation.request());
                    self.answers.push((op, answer));
                    self.watches.extend(watch.map(|watch| (op, watch)));
                }
                Output::Submit { op, operation } => {
                    self.answers.push((op, self.client.submit(&operation.request())));
                }
                Output::Unwatch(op) => self.watches.retain(|(watch, _)| *watch != op),
                Output::SetTimer(after) => self.alarm = Some(Box::pin(tokio::time::sleep(after))),
                Output::Event(event) => self.tell(event),
            }
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(observer) = &self.observer {
            observer(&event);
        }
        let status = match event {
            Event::Enqueued { .. } | Event::Waiting { .. } => return,
            Event::Acquired { node, token } => {
                // Nobody may want it any more; then `let_go` has ended too.
                self.acquired.take().map(|acquired| acquired.send(Ok(Place { node, token })));
                return;
            }
            Event::Resumed => Status::Held,
            Event::Suspended => Status::Suspended,
            Event::Lost(loss) => Status::Lost(loss),
            Event::Released => Status::Released,
            Event::Failed(error) => match self.acquired.take() {
                Some(acquired) => return drop(acquired.send(Err(error))),
                None => Status::Failed(error),
            },
        };
        self.status.send_replace(status);
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
        let mut states = self.states.clone();
        let mut changed = pin!(self.states.changed());
        let (answers, watches) = (&mut self.answers, &mut self.watches);
        let (alarm, let_go) = (&mut self.alarm, &mut self.let_go);
        let inbox = &mut self.inbox;
        let state_changed = poll_fn(|cx| {
            inbox.extend(poll_alarm(alarm, cx));
            inbox.extend(poll_let_go(let_go, cx));
            poll_watches(watches, inbox, cx);
            poll_answers(answers, inbox, cx);
            match changed.as_mut().poll(cx).is_ready() {
                false if inbox.is_empty() => Poll::Pending,
                state_changed => Poll::Ready(state_changed),
            }
        })
        .await;
        if state_changed {
            self.inbox.push_front(Input::Session(*states.borrow_and_update()));
        }
    }
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

fn poll_alarm(alarm: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Option<Input> {
    let ready = alarm.as_mut()?.as_mut().poll(cx).is_ready();
    ready.then(|| {
        *alarm = None;
        Input::Timer
    })
}

fn poll_let_go(let_go: &mut Option<oneshot::Receiver<()>>, cx: &mut Context<'_>) -> Option<Input> {
    let ready = Pin::new(let_go.as_mut()?).poll(cx).is_ready();
    ready.then(|| {
        *let_go = None;
        Input::LetGo
    })
}
