//! Compares the codec with handwritten loads and stores:
//! `cargo bench --bench codec`.
//!
//! Before a measurement, the benchmark checks that all variants agree and allocate nothing. The
//! last table shows medians, and their ratios to the handwritten code.
//!
//! Other crates (`zookeeper-client`, `tokio-zookeeper`, `zookeeper`) do not export their codecs.
//! The benchmark of `zk-testkit` compares whole clients.

mod by_hand;
mod table;

use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use table::Table;
use zk_proto::{
    Acl, CreateMode, CreateRequest, Decode, Encode, ErrorCode, EventType, ExistsResponse,
    GetChildrenResponse, GetDataRequest, GetDataResponse, KeeperState, List, OpCode, Reader,
    ReplyHeader, Request, RequestHeader, Response, SessionId, SetDataRequest, Stat, WatcherEvent,
    Xid, Zxid, frame,
};

const PATH: &str = "/locks/printer/_c_72c60c93-7e3a-4b3d-a1f5-8b1f6f8a9c11-lock-0000000042";

/// Compares three ways: the record itself, the record chosen by its opcode, and handwritten code.
fn compare<A, B, C>(
    table: &mut Table<'_>,
    case: &str,
    codec: impl FnMut() -> A,
    by_opcode: impl FnMut() -> B,
    by_hand: impl FnMut() -> C,
) {
    table.row(case, |row| {
        row.measure("codec", codec);
        row.measure("by opcode", by_opcode);
        row.measure("by hand", by_hand);
    });
}

// ---- Requests ----------------------------------------------------------------------------------

const ROOM: usize = 1 << 17;

fn encode(
    table: &mut Table<'_>,
    case: &str,
    body: impl Encode + Copy,
    request: Request<'_>,
    by_hand: impl Fn(&mut [u8]) -> usize,
) {
    let [mut first, mut second, mut third] = [(); 3].map(|()| vec![0; ROOM]);
    let header = RequestHeader { xid: Xid::FIRST, opcode: request.opcode() };
    let length = frame::encode_to_slice(&(header, body), &mut first).expect("room");
    assert_eq!(frame::encode_to_slice(&(header, request), &mut second), Ok(length));
    assert_eq!(by_hand(&mut third), length);
    assert_eq!((&first[..length], &second[..length]), (&third[..length], &third[..length]));
    compare(
        table,
        case,
        || frame::encode_to_slice(&(header, black_box(&body)), black_box(&mut first)).unwrap_or(0),
        || {
            frame::encode_to_slice(&(header, black_box(&request)), black_box(&mut second))
                .unwrap_or(0)
        },
        || by_hand(black_box(&mut third)),
    );
    {
        let mut first = bytes::BytesMut::with_capacity(ROOM);
        let mut second = first.clone();
        second.reserve(ROOM);
        compare(
            table,
            &format!("{case}, BytesMut"),
            || {
                first.clear();
                frame::encode(&(header, black_box(&body)), black_box(&mut first)).is_ok()
            },
            || {
                second.clear();
                frame::encode(&(header, black_box(&request)), black_box(&mut second)).is_ok()
            },
            || by_hand(black_box(&mut third)),
        );
    }
}

fn requests(table: &mut Table<'_>) {
    let data = vec![7; 1 << 16];
    let acl = [Acl::OPEN];
    let get = GetDataRequest { path: PATH, watch: true };
    encode(table, "encode getData", get, Request::GetData(get), |out| {
        by_hand::get_data(out, black_box(PATH))
    });
    let create = CreateRequest {
        path: PATH,
        data: Some(&data[..100]),
        acl: List::new(&acl),
        mode: CreateMode::EPHEMERAL_SEQUENTIAL,
    };
    encode(table, "encode create", create, Request::Create(create), |out| {
        by_hand::create(
            out,
            black_box(PATH),
            black_box(&data[..100]),
            black_box(("world", "anyone")),
        )
    });
    for (case, data) in [("encode setData 100 B", &data[..100]), ("encode setData 64 KiB", &data)] {
        let set = SetDataRequest { path: PATH, data: Some(data), version: -1 };
        encode(table, case, set, Request::SetData(set), |out| {
            by_hand::set_data(out, black_box(PATH), black_box(data))
        });
    }
}

// ---- Replies -----------------------------------------------------------------------------------

const HEADER: ReplyHeader = ReplyHeader { xid: Xid::FIRST, zxid: Zxid(7), err: ErrorCode::OK };

const STAT: Stat = Stat {
    czxid: Zxid(0x1_0000_0001),
    mzxid: Zxid(0x1_0000_0002),
    ctime: 1_700_000_000_000,
    mtime: 1_700_000_000_001,
    version: 1,
    cversion: 2,
    aversion: 3,
    ephemeral_owner: SessionId(0x0100_0000_0000_0001),
    data_length: 100,
    num_children: 4,
    pzxid: Zxid(0x1_0000_0003),
};

fn payload(body: impl Encode) -> Vec<u8> {
    let mut buffer = vec![0; ROOM];
    let length = (HEADER, body).encode_to_slice(&mut buffer).expect("room");
    buffer.truncate(length);
    buffer
}

/// Decodes a reply as clients do: the header, then the body, which `look` receives in place.
fn by_opcode<T>(
    opcode: OpCode,
    payload: &[u8],
    look: impl FnOnce(&Response<'_>) -> T,
) -> Option<(ReplyHeader, T)> {
    let mut reader = Reader::new(payload);
    let header = ReplyHeader::decode(&mut reader).ok()?;
    let body = Response::decode(opcode, reader.rest()).ok()?;
    Some((header, look(black_box(&body))))
}

fn replies(table: &mut Table<'_>) {
    for (case, length) in [("decode getData 100 B", 100), ("decode getData 64 KiB", 1 << 16)] {
        let data = vec![7; length];
        let bytes = payload(GetDataResponse { data: Some(&data), stat: STAT });
        assert_eq!(by_hand::data_reply(&bytes), Some((HEADER, &data[..], STAT)));
        compare(
            table,
            case,
            || <(ReplyHeader, GetDataResponse<'_>)>::decode_all(black_box(&bytes)),
            || by_opcode(black_box(OpCode::GET_DATA), black_box(&bytes), |_| ()),
            || by_hand::data_reply(black_box(&bytes)),
        );
    }
    let bytes = payload(STAT);
    assert_eq!(by_hand::stat_reply(&bytes), Some((HEADER, STAT)));
    compare(
        table,
        "decode Stat",
        || <(ReplyHeader, ExistsResponse)>::decode_all(black_box(&bytes)),
        || by_opcode(black_box(OpCode::EXISTS), black_box(&bytes), |_| ()),
        || by_hand::stat_reply(black_box(&bytes)),
    );
    let event = WatcherEvent {
        event_type: EventType::NODE_DELETED,
        state: KeeperState::SYNC_CONNECTED,
        path: PATH,
    };
    let bytes = payload(event);
    assert_eq!(by_hand::event(&bytes), Some((HEADER, event)));
    // A watch event answers no operation.
    table.row("decode notification", |row| {
        row.measure("codec", || <(ReplyHeader, WatcherEvent<'_>)>::decode_all(black_box(&bytes)));
        row.measure("by hand", || by_hand::event(black_box(&bytes)));
    });
    children(table);
}

fn children(table: &mut Table<'_>) {
    let names: Vec<_> = (0..1000).map(|number| format!("{}{number:010}", &PATH[15..60])).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let bytes = payload(GetChildrenResponse { children: List::new(&names) });
    let by_hand = |bytes: &[u8]| {
        let mut total = 0;
        by_hand::children(bytes, |name| total += black_box(name).len()).map(|_| total)
    };
    let look_at_each = |reply: GetChildrenResponse<'_>| {
        reply.children.iter().map(|name| black_box(name).len()).sum::<usize>()
    };
    let codec = |bytes| {
        let (_, reply) = <(ReplyHeader, GetChildrenResponse<'_>)>::decode_all(bytes).ok()?;
        Some(look_at_each(reply))
    };
    assert_eq!(codec(&bytes), by_hand(&bytes));
    compare(
        table,
        "decode getChildren 1000",
        || <(ReplyHeader, GetChildrenResponse<'_>)>::decode_all(black_box(&bytes)),
        || by_opcode(black_box(OpCode::GET_CHILDREN), black_box(&bytes), |_| ()),
        || by_hand(black_box(&bytes)),
    );
    compare(
        table,
        "decode getChildren 1000 and look at each",
        || codec(black_box(&bytes)),
        || {
            by_opcode(black_box(OpCode::GET_CHILDREN), black_box(&bytes), |body| match body {
                Response::GetChildren(reply) => look_at_each(*reply),
                _ => 0,
            })
        },
        || by_hand(black_box(&bytes)),
    );
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(table::SAMPLES)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let mut table = Table::new(&mut criterion);
    requests(&mut table);
    replies(&mut table);
    table.print();
    criterion.final_summary();
}
