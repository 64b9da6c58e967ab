//! Tests of the kinds of nodes.

use super::*;
use crate::multi::EncodeMultiItem;

#[test]
fn each_kind_is_created_by_the_operation_that_takes_its_mode() {
    use NodeKind::*;

    let acl = List::new(&[Acl::OPEN]);
    for (kind, number, alone, in_a_multi) in [
        (Persistent, 0, OpCode::CREATE2, OpCode::CREATE),
        (Ephemeral, 1, OpCode::CREATE2, OpCode::CREATE),
        (PersistentSequential, 2, OpCode::CREATE2, OpCode::CREATE),
        (EphemeralSequential, 3, OpCode::CREATE2, OpCode::CREATE),
        (Container, 4, OpCode::CREATE_CONTAINER, OpCode::CREATE_CONTAINER),
        (PersistentWithTtl(Ttl::MAX), 5, OpCode::CREATE_TTL, OpCode::CREATE_TTL),
        (PersistentSequentialWithTtl(Ttl::MAX), 6, OpCode::CREATE_TTL, OpCode::CREATE_TTL),
    ] {
        let request = kind.create("/a", None, acl);
        let op = kind.create_op("/a", None, acl);
        assert_eq!(kind.opcode(), alone);
        assert_eq!(kind.is_sequential(), [2, 3, 6].contains(&number), "{kind:?}");
        assert_eq!((request.opcode(), op.header().opcode), (alone, in_a_multi), "{kind:?}");
        let (mode, ttl) = match request {
            Request::CreateTtl(request) => (request.mode, Some(request.ttl)),
            Request::Create2(request) | Request::CreateContainer(request) => (request.mode, None),
            other => panic!("{other:?} creates nothing"),
        };
        assert_eq!((mode, ttl), (CreateMode(number), kind.ttl().map(Ttl::as_millis)));
    }
}
