//! Reads a run: what the clients, the network and the faults do becomes steps.

use core::time::Duration;

use zk_proto::SessionId;
use zk_proto::diagram::Style;
use zk_recipes::machine::Event as LockEvent;
use zk_session::State;

use super::steps::state_name;
use super::{Activity, Actor, Film};
use crate::label;
use crate::sim::{ClientEvent, Cut, Direction, Fault, LockKind, Moment, SimClient, What};

impl Film {
    pub(super) fn read(&mut self) {
        let mut moments = self.sim.moments()[self.seen..].to_vec();
        self.seen += moments.len();
        causes_first(&mut moments);
        for client in 0..self.actors.len() {
            let id = self.sim.client(client).map_or(SessionId::NONE, SimClient::id);
            if id != SessionId::NONE {
                self.owners.insert(id, client);
            }
        }
        for moment in moments {
            self.moment(moment.at, &moment.what);
        }
    }

    fn moment(&mut self, at: Duration, what: &What) {
        match what {
            What::Sent { link, client, server, direction, bytes } => {
                let lost = self.wire.sent(at, *link, (*client, *server), *direction, bytes);
                lost.into_iter().for_each(|sent| self.lose(&sent));
            }
            What::Arrived(link, direction, length) => {
                for sent in self.wire.arrived(*link, *direction, *length) {
                    if sent.style == Style::Event && self.waits(sent.client) {
                        self.events[sent.client] += 1;
                    }
                    if sent.direction == Direction::Up && sent.label.contains(": DELETE ") {
                        self.deleter = Some(sent.client);
                    } else if sent.label.contains(": CREATE2 ") {
                        self.deleter = None;
                    }
                    self.sent(&sent, Some(at));
                }
            }
            What::Client(client, event) => self.event(*client, event),
            What::Fault(fault) => self.fault(fault),
            What::Violation(text) => {
                let text = self.named(text);
                // The same again, at another time, is no news.
                let kind: String = text.chars().filter(|char| !char.is_ascii_digit()).collect();
                if !text.contains("sleeps until") && self.violations.insert(kind) {
                    let text = format!("VIOLATION: {}", self.reworded(text));
                    self.say(None, Style::Error, &text);
                }
            }
            What::Begun(_) | What::Gone(_) | What::Healed => {}
        }
    }

    /// Replaces attempts of the clients that started first, as in `(2, 1)`, by names.
    fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (index, name) in self.setting.clients.iter().enumerate() {
            if let Some(rest) = text.strip_prefix(&format!("{}: ", index + 1)) {
                text = format!("{name} {rest}");
            }
            for attempt in 1..10 {
                text = text.replace(&format!("({}, {attempt})", index + 1), name);
            }
        }
        label::short(&text)
    }

    /// Says what the page can say better than the checker, whose clock is another one.
    fn reworded(&self, text: String) -> String {
        if let Some((who, _)) = text.split_once(" holds a lock at ") {
            return format!("{who} holds the lock after the end of its lease");
        }
        let woken = text.strip_suffix(" and another attempt");
        let Some((_, who)) = woken.and_then(|text| text.split_once(": its deletion woke ")) else {
            return text.replace(": Mutex", "");
        };
        let change = match self.deleter {
            Some(client) => format!("the delete of {}'s node", self.setting.clients[client]),
            None => "one change".to_owned(),
        };
        format!("{change} woke {who} and another waiter; only one can be next")
    }

    fn fault(&mut self, fault: &Fault) {
        let (lane, text) = match fault {
            Fault::Cut(client, Cut::AFTER_APPLIED) => {
                (format!("c{client}"), "loses its connection: requests arrive, replies do not")
            }
            Fault::Cut(client, _) => (format!("c{client}"), "loses its connection"),
            Fault::Isolate(client, _) => (format!("c{client}"), "is cut off from all servers"),
            Fault::Pause(client, _) => (format!("c{client}"), "stops running"),
            Fault::Expire(client) => {
                let name = self.setting.clients[*client];
                return self.say(
                    None,
                    Style::Error,
                    &format!("The servers expire {name}'s session"),
                );
            }
            Fault::Kill(server, _) => (format!("s{server}"), "dies"),
            Fault::Hold(server, _) => (format!("s{server}"), "falls behind"),
            _ => return,
        };
        self.say(Some(&lane), Style::Error, text);
        if let Fault::Cut(client, cut) = fault {
            for sent in self.wire.cut(*client, *cut) {
                self.lose(&sent);
            }
        }
    }

    fn event(&mut self, client: usize, event: &ClientEvent) {
        let lane = format!("c{client}");
        let actor = &mut self.actors[client];
        let (style, text) = match event {
            ClientEvent::State(state) => {
                actor.state = state_name(*state).to_owned();
                match state {
                    State::Suspended => (Style::Error, "has no connection".to_owned()),
                    State::Renewing => {
                        let again = actor.activity == Activity::Waits;
                        actor.activity = if again { Activity::Enters } else { Activity::Idle };
                        (
                            Style::Error,
                            "learns that its session has expired, and opens a new one".to_owned(),
                        )
                    }
                    State::Ended(end) => {
                        *actor = Actor { state: "ended".to_owned(), ..Actor::default() };
                        (Style::Error, format!("learns that its session has ended: {end}"))
                    }
                    _ => return,
                }
            }
            ClientEvent::AttemptStarted(_, _, kind) => {
                actor.activity = Activity::Enters;
                let text = match kind {
                    LockKind::Read => "wants to read".to_owned(),
                    LockKind::Write => "wants to write".to_owned(),
                    LockKind::Permits { count: 1, .. } => "wants a permit".to_owned(),
                    LockKind::Permits { count, .. } => format!("wants {count} permits"),
                    _ => "wants the lock".to_owned(),
                };
                (Style::Plain, text)
            }
            ClientEvent::Lock(_, event) => match event {
                LockEvent::Waiting { behind, .. } => {
                    actor.activity = Activity::Waits;
                    let text = match behind.rsplit('/').next() {
                        Some("leases") => "waits for others to release permits".to_owned(),
                        _ => format!("waits behind {}", label::short(behind)),
                    };
                    (Style::Plain, text)
                }
                LockEvent::Acquired { token, .. } => {
                    (actor.activity, actor.token) = (Activity::Holds, Some(*token));
                    (Style::Plain, format!("HOLDS, token {:#x}", token.0))
                }
                LockEvent::Suspended => {
                    actor.activity = Activity::Unsure;
                    (Style::Error, "may have lost it: does not know".to_owned())
                }
                LockEvent::Resumed => {
                    actor.activity = Activity::Holds;
                    (Style::Plain, "still HOLDS it".to_owned())
                }
                LockEvent::Lost(loss) => {
                    (actor.activity, actor.token) = (Activity::Idle, None);
                    (Style::Error, format!("has LOST it: {loss}"))
                }
                LockEvent::Failed(error) => {
                    (actor.activity, actor.token) = (Activity::Idle, None);
                    (Style::Error, format!("gets no lock: {error}"))
                }
                _ => return,
            },
            ClientEvent::Released(_) => {
                let had = actor.activity;
                (actor.activity, actor.token) = (Activity::Idle, None);
                let text = if had == Activity::Holds { "releases" } else { "gives up" };
                (Style::Plain, text.to_owned())
            }
            _ => return,
        };
        self.say(Some(&lane), style, &text);
    }
}

/// Puts the loss of a connection before what a lock reports because of it: a client hears of the
/// state of its session last.
fn causes_first(moments: &mut [Moment]) {
    for index in 1..moments.len() {
        let What::Client(who, ClientEvent::State(State::Suspended)) = moments[index].what else {
            continue;
        };
        let at = moments[index].at;
        let is_effect = |moment: &&Moment| match moment.what {
            What::Client(client, ClientEvent::Lock(_, LockEvent::Suspended)) => {
                moment.at == at && client == who
            }
            _ => false,
        };
        let effects = moments[..index].iter().rev().take_while(is_effect).count();
        moments[index - effects..=index].rotate_right(1);
    }
}
