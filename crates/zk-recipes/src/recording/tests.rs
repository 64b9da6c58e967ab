use alloc::string::ToString;
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::proto::recording::{Description, Fields};
use zk_session::proto::{Acl, Id, Perms};

use super::*;
use crate::attempt::{AccessList, DisconnectPolicy, LockMode, Parents, Scheme, UnknownNodePolicy};

fn described(machine: &dyn Attached, keeps_data: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    machine.describe(&mut Description::new(&mut Fields::new(&mut bytes), keeps_data));
    bytes
}

/// A configuration in which nothing is a default.
fn config() -> AttemptConfig {
    let id = Id { scheme: "digest", id: Some("user:secret") };
    let acl = [Acl { perms: Perms::READ, id }, Acl::OPEN];
    AttemptConfig {
        chroot_length: 4,
        mode: LockMode::Shared,
        data: "the data".into(),
        acl: AccessList::new(&acl),
        parent_acl: AccessList::new(&acl[..1]),
        parents: Parents::Persistent,
        wait_policy: WaitPolicy::OnlyIfFree,
        disconnect_policy: DisconnectPolicy::WhileConnected,
        unknown_nodes: UnknownNodePolicy::Count,
        revocable: true,
        ..AttemptConfig::new("/app/lock".into(), Scheme::private("w", Some("r")), Uuid::max())
    }
}

fn machines(config: &AttemptConfig) -> Vec<Box<dyn Attached>> {
    fn on_session(machine: impl Machine + Send + 'static) -> Box<dyn Attached> {
        Box::new(OnSession::new(machine, Nobody, 7))
    }
    let config = || config.clone();
    let contender = || Contender::new(config());
    let semaphore = || {
        let request = PermitRequest::new(config(), 2, Some(5));
        SemaphoreMachine::new(PermitRequest { refuses_other_locks: true, ..request })
    };
    let without_renewals = OnSession::new(contender(), Nobody, 7).without_renewals();
    let cache = CacheConfig { is_recursive: false, max_bytes: 9, ..CacheConfig::new("/a".into()) };
    let keep = Duration::from_millis(3);
    alloc::vec![
        on_session(contender()),
        Box::new(without_renewals),
        on_session(HerdContender::new(config())),
        on_session(SimpleContender::new(config())),
        on_session(EphemeralMachine::new(config())),
        on_session(ElectionMachine::new(config())),
        on_session(Requeuing::new(contender(), true)),
        on_session(Requeuing::new(contender(), false)),
        on_session(Requeuing::new(HerdContender::new(config()), true)),
        on_session(semaphore()),
        on_session(Requeuing::new(semaphore(), true)),
        on_session(Participant::new(config(), 3)),
        on_session(BarrierWait::new("/gate".into(), WaitPolicy::OnlyIfFirst)),
        on_session(IdleWatch::new("/lock".into(), "node".into(), keep)),
        Box::new(Follower::new(cache, Chroot::default())),
    ]
}

#[test]
fn every_machine_is_made_again_as_it_was_described() {
    let schemes = [Scheme::GO_ZK, Scheme::KAZOO_READ_WRITE, Scheme::ZOOKEEPER_RECIPE];
    let plain = schemes.map(|scheme| AttemptConfig::new("/l".into(), scheme, Uuid::nil()));
    for it in plain.iter().chain([&config()]).flat_map(machines) {
        for keeps_data in [false, true] {
            let description = described(&*it, keeps_data);
            let read = Described::read(&description).expect("well-formed").expect("described");
            let name = read.to_string();
            let again = machine(read).expect("well-formed").expect(&name);
            assert_eq!(described(&*again, keeps_data), description, "{name}");
        }
    }
}

#[test]
fn descriptions_have_no_secrets_and_may_be_cut_anywhere() {
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|it| it == text);
    for it in machines(&config()) {
        let description = described(&*it, false);
        assert!(!has(&description, b"secret") && !has(&description, b"the data"));
        for end in 1..description.len() {
            let read = Described::read(&description[..end]);
            let made = read.and_then(|read| machine(read.expect("not empty")));
            assert!(made.is_err(), "cut at {end} of {}", description.len());
        }
    }
}

#[test]
fn a_machine_of_somebody_else_is_not_made() {
    let mut bytes = Vec::new();
    Description::new(&mut Fields::new(&mut bytes), false).machine("counter", "/n");
    let read = Described::read(&bytes).expect("well-formed").expect("described");
    assert!(machine(read).expect("well-formed").is_none());
}
