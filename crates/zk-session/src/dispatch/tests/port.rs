//! What a machine can do with its session, and its owner with the machine.

use super::*;
#[cfg(feature = "blocking")]
use crate::dispatch::attachment::Commands;

#[cfg(feature = "blocking")]
#[test]
fn effects_report_what_is_to_run() {
    use core::task::Waker;

    let mut world = World::connected();
    let key = world.attach();
    let to_run = |world: &mut World| {
        let effects = world.dispatcher.effects();
        (effects.has_wakers(), effects.has_deferred(), effects.callbacks.is_ready())
    };
    assert_eq!(to_run(&mut world), (false, false, false));
    world.act(key, |port| port.wake(Waker::noop().clone()));
    assert_eq!(to_run(&mut world), (true, false, false));
    world.end(key);
    assert_eq!(to_run(&mut world), (true, true, false), "the drop of a machine is no callback");
    let key = world.attach();
    world.act(key, |port| port.defer(|| {}));
    assert_eq!(to_run(&mut world), (true, true, true));
    world.dispatcher.effects().callbacks.is_running = true;
    assert_eq!(to_run(&mut world), (true, true, false), "another thread runs the callback");
    world.dispatcher.effects().others.is_running = true;
    assert_eq!(to_run(&mut world), (true, false, false), "other threads run all");
}

#[test]
fn a_machine_sees_its_session() {
    let mut world = World::connected();
    let key = world.attach();
    for has_ended in [false, true] {
        world.act(key, move |port| {
            let seen = (port.session_id(), port.session_timeout(), port.lease_has_ended());
            assert_eq!(seen, (SessionId(1), TIMEOUT, has_ended));
        });
        world.now = world.now + TIMEOUT;
    }
}

#[test]
fn a_machine_receives_a_long_reply_in_pieces_if_it_asks_for_them() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| {
        port.submit_in_pieces(7, &exists());
        sync(port, 8);
    });
    world.sent();
    world.log.take();
    for xid in [1, 2] {
        let header = ReplyHeader { xid: Xid(xid), zxid: Zxid(1), err: ErrorCode::OK };
        let mut start = BytesMut::new();
        header.encode(&mut start);
        let now = world.now;
        world.session().handle_oversized(now, &start, start.len() + 4);
        for piece in ["so", "me"] {
            world.session().handle_rest(now, piece.into());
        }
    }
    world.drain();
    let log = world.log.take();
    assert_eq!((log.len(), &log[..2]), (3, &["reply 7", "reply 7"].map(String::from)[..]));
    assert!(log[2].starts_with("reply 8: "), "{log:?}");
}

#[cfg(feature = "blocking")]
impl Commands for Mutex<World> {
    fn command(self: Arc<Self>, key: Key, message: &mut dyn Any) -> bool {
        let mut world = self.lock().expect("nobody panics");
        let now = world.now;
        world.dispatcher.command(now, key, message)
    }

    fn is_forked(&self) -> bool {
        false
    }
}

#[cfg(feature = "blocking")]
#[test]
fn an_attachment_reports_whether_its_machine_is_attached() {
    let mut world = World::connected();
    let key = world.attach();
    let attachment = Attachment::new(Arc::new(Mutex::new(world)), key);
    assert_eq!(format!("{attachment:?}"), format!("Attachment {{ key: {key:?}, .. }}"));
    assert!(attachment.command(&mut ()), "it ends by this message");
    assert!(!attachment.command(&mut ()));
}

#[test]
fn a_log_shows_machines_and_effects_and_no_secret() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, move |port| {
        let line = format!("{port:?}");
        assert!(line.contains(&format!("{:?}", port.session_id())), "{line}");
        port.defer(|| {});
    });
    let line = format!("{:?}", world.dispatcher);
    assert!(line.contains("Machines { count: 1, .. }"), "{line}");
    assert!(line.contains("password: Secret(16 bytes)"), "{line}");
    let effects = format!("{:?}", world.dispatcher.take_effects());
    assert!(effects.contains("[Run]") && !effects.contains("Drop"), "{effects}");
    world.end(key);
    let effects = format!("{:?}", world.dispatcher.take_effects());
    assert!(effects.contains("[Drop]") && !effects.contains("Run"), "{effects}");
}

#[test]
fn a_step_of_a_machine_has_room_as_a_whole_or_not_at_all() {
    let limits: [fn(&mut Config); 4] = [
        |config| config.max_pending = 0,
        |config| config.max_pending = 2,
        |config| config.max_unsent = 0,
        |config| config.max_unsent = 30,
    ];
    for limit in limits {
        let mut config = Config::new(1, 0);
        limit(&mut config);
        let mut world = World::new();
        world.dispatcher = Dispatcher::new(Session::new(world.now, config));
        world.connect();
        world.drain();
        let key = world.attach();
        world.log.take();
        let refused = |world: &mut World| {
            world.act(key, |port| (1..=3).for_each(|tag| sync(port, tag)));
            world.dispatcher.settle(world.now);
            world.drain();
            world.log.take().len()
        };
        assert_eq!(refused(&mut world), 0);
        assert_eq!(refused(&mut world), 3, "the next step has no room");
        world.session().submit(&exists(), Token::Caller(1)).expect_err("nor has a caller");
    }
}
