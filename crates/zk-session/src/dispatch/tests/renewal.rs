//! What machines learn when their session expires and the next one begins.

use super::*;

/// A world whose session is renewed when it expires.
fn expired(machines: &[(bool, React)]) -> (World, Vec<Key>) {
    begun(Config { renew: true, ..Config::new(1, 0) }, machines)
}

fn begun(config: Config, machines: &[(bool, React)]) -> (World, Vec<Key>) {
    let mut world = World::new();
    world.dispatcher = Dispatcher::new(Session::new(world.now, config));
    world.connect();
    world.drain();
    let attach = |(outlives_session, react): &(bool, React)| {
        let mut machine = Recorder::reacting(&world.log, *react);
        machine.outlives_session = *outlives_session;
        world.dispatcher.attach(world.now, machine)
    };
    let keys = machines.iter().map(attach).collect();
    world.drain();
    (world, keys)
}

fn expire(world: &mut World) {
    let now = world.now;
    world.session().handle_disconnected(now);
    world.sleep(Duration::from_secs(1));
    while world.session().poll_action().is_some() {}
    let now = world.now;
    world.session().handle_connected(now);
    world.sent();
    world.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: 0,
        session_id: SessionId::NONE,
        password: Some(&[0; 16]),
        read_only: None,
    });
}

/// Connects the new session, after its back-off.
fn reconnect(world: &mut World) -> Vec<OpCode> {
    world.sleep(Duration::from_millis(100));
    world.connect();
    world.drain();
    world.sent()
}

#[test]
fn machines_of_an_expired_session_end_and_reach_the_next_one_with_nothing() {
    // A machine that submits something at every input.
    let (mut world, keys) = expired(&[(false, |_, port| sync(port, 1))]);
    world.log.take();
    expire(&mut world);
    world.drain();
    let log = world.log.take();
    assert_eq!(log.last().map(String::as_str), Some("ended"), "{log:?}");
    assert_eq!(log.iter().filter(|line| *line == "ended").count(), 1, "{log:?}");
    assert_eq!(world.dispatcher.attached(), 0);
    assert!(!world.end(keys[0]));
    let now = world.now;
    world.dispatcher.settle(now);
    world.drain();
    assert_eq!(reconnect(&mut world), []);
    world.dispatcher.take_effects().run();
    assert_eq!(world.log.take(), ["dropped"]);
}

/// A machine with nothing but what it must have.
struct Plain;

impl Attached for Plain {
    fn handle(&mut self, _: Input, _: &mut Port<'_>) {}

    fn is_done(&self) -> bool {
        false
    }
}

#[test]
fn a_machine_ends_with_its_session_unless_it_says_otherwise() {
    let (mut world, _) = expired(&[]);
    let now = world.now;
    world.dispatcher.attach(now, Box::new(Plain));
    expire(&mut world);
    world.drain();
    assert_eq!(world.dispatcher.attached(), 0);
}

#[test]
fn a_machine_that_outlives_its_session_learns_of_the_renewal() {
    let (mut world, keys) = expired(&[(true, |line, port| {
        if line == "connected" {
            port.submit_and_watch(1, &exists());
        }
    })]);
    world.sent();
    world.reply(1);
    world.drain();
    world.log.take();
    expire(&mut world);
    world.drain();
    assert_eq!(world.log.take(), ["not connected", "renewing"]);
    // Its watch is gone. Its next requests wait for the new session.
    world.act(keys[0], |port| sync(port, 2));
    assert_eq!(reconnect(&mut world), [OpCode::SYNC, OpCode::EXISTS]);
    assert_eq!(world.log.take(), ["connected"]);
    world.fire();
    world.drain();
    let log = world.log.take();
    assert!(log.iter().filter(|line| line.starts_with("watch")).count() <= 1, "{log:?}");
}

#[test]
fn a_request_that_fails_by_the_expiry_is_not_answered_in_the_next_session() {
    let disconnect_timeout = Some(Duration::from_millis(500));
    let config = Config { renew: true, disconnect_timeout, ..Config::new(1, 0) };
    let (mut world, _) = begun(
        config,
        &[(true, |line, port| {
            if line == "renewing" {
                sync(port, 1);
            }
        })],
    );
    world.log.take();
    expire(&mut world);
    world.drain();
    let now = world.now;
    world.dispatcher.settle(now);
    world.drain();
    assert_eq!(world.log.take(), ["not connected", "renewing"]);
    assert_eq!(reconnect(&mut world), []);
    assert_eq!(world.log.take(), ["connected"]);
}

#[test]
fn without_a_renewal_the_requests_of_every_machine_are_answered() {
    for outlives_session in [false, true] {
        let (mut world, keys) = begun(Config::new(1, 0), &[(outlives_session, |_, _| {})]);
        world.act(keys[0], |port| sync(port, 1));
        world.log.take();
        expire(&mut world);
        world.drain();
        let log = world.log.take();
        assert!(log[1].starts_with("reply 1: ") && log[2..] == ["ended"], "{log:?}");
    }
}

#[test]
fn a_machine_attached_while_the_session_is_renewed_waits_for_it() {
    let (mut world, _) = expired(&[]);
    expire(&mut world);
    world.drain();
    let key = world.attach();
    world.act(key, |port| sync(port, 1));
    assert_eq!(world.log.take(), ["renewing"]);
    assert_eq!(reconnect(&mut world), [OpCode::SYNC]);
    assert_eq!(world.log.take(), ["connected"]);
}

#[test]
fn the_last_machine_that_ends_with_its_session_closes_the_client() {
    let (mut world, _) = expired(&[(false, |_, _| {})]);
    world.dispatcher.close_when_done();
    expire(&mut world);
    let events = world.drain();
    assert!(
        matches!(events.last(), Some(Event::State(State::Ended(crate::End::Closed)))),
        "{events:?}"
    );
    assert_eq!(world.dispatcher.poll_timeout(), None);
}
