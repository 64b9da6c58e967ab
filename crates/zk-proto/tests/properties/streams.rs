//! A stream of frames has one meaning, however it is cut into chunks.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use zk_proto::{Decode, DecodeErrorKind, Encode, List, ListReader, Reader, frame};

const LIMIT: usize = 40;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_list_does_not_depend_on_how_it_was_cut(
        names in vec(".{0,30}", 0..20),
        damage in option::of((any::<Index>(), any::<u8>())),
        chunks in vec(1..30usize, 1..20),
    ) {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let list = List::new(&names);
        let mut bytes = vec![0; list.encoded_len()];
        list.encode_to_slice(&mut bytes).expect("short");
        if let Some((at, byte)) = damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (mut reader, mut read) = (ListReader::new(bytes.len()), Vec::new());
        let in_pieces = cut(&bytes, &chunks)
            .into_iter()
            .try_for_each(|piece| reader.read(piece, &mut |name| read.push(name.to_owned())))
            .and_then(|()| reader.finish());
        match List::<&str>::decode(&mut Reader::new(&bytes)) {
            Ok(whole) => prop_assert!(in_pieces.is_ok() && whole.iter().eq(&read)),
            Err(_) => prop_assert!(in_pieces.is_err()),
        }
    }

    #[test]
    fn a_list_of_which_bytes_are_missing_is_truncated(names in vec(".{1,30}", 0..5), end: Index) {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut bytes = vec![0; List::new(&names).encoded_len()];
        List::new(&names).encode_to_slice(&mut bytes).expect("short");
        let mut reader = ListReader::new(bytes.len());
        reader.read(&bytes[..end.index(bytes.len())], &mut |_| {}).expect("a list so far");
        let error = reader.finish().expect_err("bytes are missing");
        prop_assert_eq!(error.kind(), DecodeErrorKind::Truncated { missing: 1 });
    }

    #[test]
    fn frames_do_not_depend_on_how_the_stream_was_cut(
        payloads in vec(vec(any::<u8>(), 0..=LIMIT), 0..8),
        chunks in vec(1..30usize, 1..20),
    ) {
        let stream = stream_of(&payloads);
        let mut arrived = Vec::new();
        let mut frames = Vec::new();
        for chunk in cut(&stream, &chunks) {
            arrived.extend_from_slice(chunk);
            while let Some((payload, rest)) = frame::split(&arrived, LIMIT).expect("within limits") {
                frames.push(payload.to_vec());
                arrived = rest.to_vec();
            }
        }
        prop_assert_eq!(frames, payloads);
        prop_assert!(arrived.is_empty());
    }

    #[test]
    fn an_impossible_length_is_refused_as_soon_as_it_is_known(
        payload in vec(any::<u8>(), 0..=LIMIT),
        announced in prop_oneof![i32::MIN..0, LIMIT as i32 + 1..],
        behind in vec(any::<u8>(), 0..60),
    ) {
        let mut stream = stream_of(&[payload]);
        let first = stream.len();
        stream.extend_from_slice(&announced.to_be_bytes());
        stream.extend(behind);
        let expected = match usize::try_from(announced) {
            Ok(length) => frame::FrameError::TooLong { length, limit: LIMIT },
            Err(_) => frame::FrameError::Negative(announced),
        };
        let (_, rest) = frame::split(&stream, LIMIT).expect("the first is fine").expect("and here");
        prop_assert_eq!(rest, &stream[first..]);
        for known in 0..4 {
            prop_assert_eq!(frame::split(&rest[..known], LIMIT), Ok(None));
        }
        for known in 4..=rest.len() {
            prop_assert_eq!(frame::split(&rest[..known], LIMIT), Err(expected));
        }
    }
}

fn stream_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let frames = payloads.iter().map(|payload| {
        let length = u32::try_from(payload.len()).expect("short");
        [&length.to_be_bytes()[..], payload].concat()
    });
    frames.collect::<Vec<_>>().concat()
}

/// Cuts `stream` into chunks of these lengths, repeatedly.
fn cut<'s>(mut stream: &'s [u8], lengths: &[usize]) -> Vec<&'s [u8]> {
    let mut chunks = Vec::new();
    for length in lengths.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (chunk, rest) = stream.split_at(stream.len().min(*length));
        chunks.push(chunk);
        stream = rest;
    }
    chunks
}

mod shared {
    use bytes::BytesMut;
    use zk_proto::frame::{Piece, Splitter};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn frames_are_split_off_without_a_copy(
            payloads in vec(vec(any::<u8>(), 1..=LIMIT), 1..8),
        ) {
            let mut stream = BytesMut::from(&stream_of(&payloads)[..]);
            let memory = stream.as_ptr_range();
            for payload in &payloads {
                let frame = frame::split_bytes(&mut stream, LIMIT);
                let frame = frame.expect("within limits").expect("a whole frame");
                prop_assert_eq!(&frame[..], &payload[..]);
                prop_assert!(memory.contains(&frame.as_ptr()));
            }
            prop_assert!(stream.is_empty());
        }

        #[test]
        fn shared_frames_do_not_depend_on_how_the_stream_was_cut(
            payloads in vec(vec(any::<u8>(), 0..=LIMIT), 0..8),
            chunks in vec(1..30usize, 1..20),
        ) {
            let stream = stream_of(&payloads);
            let mut arrived = BytesMut::new();
            let mut frames = Vec::new();
            for chunk in cut(&stream, &chunks) {
                arrived.extend_from_slice(chunk);
                while let Some(frame) = frame::split_bytes(&mut arrived, LIMIT).expect("within limits") {
                    frames.push(frame.to_vec());
                }
            }
            prop_assert_eq!(frames, payloads);
            prop_assert!(arrived.is_empty());
        }

        /// A frame above the limit yields its start, and its rest as it arrives.
        #[test]
        fn frames_that_are_too_long_come_in_pieces_however_the_stream_was_cut(
            payloads in vec(vec(any::<u8>(), 0..=3 * LIMIT), 0..8),
            chunks in vec(1..30usize, 1..20),
        ) {
            let stream = stream_of(&payloads);
            let (mut splitter, mut arrived) = (Splitter::new(LIMIT), BytesMut::new());
            let mut frames: Vec<Vec<u8>> = Vec::new();
            for chunk in cut(&stream, &chunks) {
                arrived.extend_from_slice(chunk);
                while let Some(piece) = splitter.split(&mut arrived).expect("no length is negative") {
                    match piece {
                        Piece::Frame(payload) => frames.push(payload.into()),
                        Piece::TooLong { start, length } => {
                            let payload = &payloads[frames.len()];
                            prop_assert_eq!((start.len(), length), (16, payload.len()));
                            frames.push(start.into());
                        }
                        Piece::Rest(rest) => {
                            prop_assert!(!rest.is_empty());
                            frames.last_mut().expect("a start").extend_from_slice(&rest);
                        }
                    }
                }
                prop_assert!(arrived.len() < LIMIT + frame::PREFIX_LEN);
            }
            prop_assert_eq!(frames, payloads);
            prop_assert!(arrived.is_empty());
        }
    }

    #[test]
    fn a_frame_shorter_than_a_header_that_is_too_long_yields_all_of_it() {
        let mut stream = BytesMut::from(&stream_of(&[vec![7; 5]])[..]);
        let mut splitter = Splitter::new(4);
        let short = Piece::TooLong { start: vec![7; 5].into(), length: 5 };
        assert_eq!(splitter.split(&mut stream), Ok(Some(short)));
        stream.extend_from_slice(&stream_of(&[vec![8]]));
        assert_eq!(splitter.split(&mut stream), Ok(Some(Piece::Frame(vec![8].into()))));
    }

    #[test]
    fn the_longest_frame_of_all_comes_in_pieces_and_a_negative_length_is_an_error() {
        let mut splitter = Splitter::new(LIMIT);
        let mut stream = BytesMut::from(&i32::MAX.to_be_bytes()[..]);
        assert_eq!(splitter.split(&mut stream), Ok(None));
        stream.extend_from_slice(&[1; 100]);
        let start = vec![1; 16].into();
        let huge = Piece::TooLong { start, length: i32::MAX as usize };
        assert_eq!(splitter.split(&mut stream), Ok(Some(huge)));
        assert_eq!(splitter.split(&mut stream), Ok(Some(Piece::Rest(vec![1; 84].into()))));
        assert_eq!((splitter.split(&mut stream), stream.len()), (Ok(None), 0));
        let mut splitter = Splitter::new(LIMIT);
        let mut stream = BytesMut::from(&[0xff; 30][..]);
        assert_eq!(splitter.split(&mut stream), Err(frame::FrameError::Negative(-1)));
    }
}

#[cfg(feature = "codec")]
mod codec {
    use bytes::BytesMut;
    use tokio_util::codec::{Decoder, Encoder};
    use zk_proto::{FrameCodec, Request, RequestHeader, Xid};

    use super::*;
    use crate::generators::Generate;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn the_codec_reads_what_it_wrote_however_it_was_cut(
            requests in vec(Request::any(), 0..6),
            chunks in vec(1..60usize, 1..20),
        ) {
            let mut codec = FrameCodec::default();
            let mut stream = BytesMut::new();
            for request in &requests {
                let header = RequestHeader { xid: Xid::FIRST, opcode: request.opcode() };
                codec.encode((header, request), &mut stream).expect("short");
            }
            let mut arrived = BytesMut::new();
            let mut frames = Vec::new();
            for chunk in cut(&stream, &chunks) {
                arrived.extend_from_slice(chunk);
                while let Some(frame) = codec.decode(&mut arrived).expect("what was written") {
                    frames.push(frame);
                }
            }
            let read: Vec<_> = requests
                .iter()
                .zip(&frames)
                .map(|(request, frame)| Request::decode(request.opcode(), &frame[8..]))
                .collect();
            prop_assert_eq!(frames.len(), requests.len());
            prop_assert_eq!(read, requests.into_iter().map(Ok).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_codec_refuses_a_frame_beyond_its_limit() {
        let mut codec = FrameCodec::new(2);
        let mut stream = BytesMut::from(&[0, 0, 0, 3, 1, 2, 3][..]);
        let error = codec.decode(&mut stream).expect_err("3 is above 2");
        assert!(matches!(error, zk_proto::CodecError::Frame(_)));
        assert_eq!(
            std::io::Error::from(zk_proto::CodecError::Frame(frame::FrameError::Negative(-2)))
                .kind(),
            std::io::ErrorKind::InvalidData
        );
        assert_eq!(error.to_string(), "a frame of 3 bytes exceeds the limit of 2 bytes");
    }
}
