//! What is read: files, hexadecimal digits, recordings; and hints about what they might be.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use zk_proto::conversation::Direction;
use zk_proto::{ConnectRequest, ConnectResponse, Decode, Reader, Request, RequestHeader, frame};

use crate::Failure;

/// A connection as it was recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
    /// The order of both directions, if it was recorded.
    pub(crate) order: Option<Vec<Chunk>>,
}

/// Bytes that were read at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) direction: Direction,
    pub(crate) length: usize,
    /// The time since the beginning of the recording, or since 1970 if the recording says so.
    pub(crate) time: Duration,
}

impl Recording {
    pub(crate) fn of(sent: Vec<u8>, received: Vec<u8>) -> Self {
        Self { name: String::new(), sent, received, order: None }
    }
}

/// Returns the recordings in a folder, or the recording with a name, or `None` if there are none.
pub(crate) fn recordings(input: &str) -> Result<Option<Vec<Recording>>, Failure> {
    let path = Path::new(input);
    if !path.is_dir() {
        let is_stem = with_ending(path, "c2s").exists() && !path.exists();
        return is_stem.then(|| recording(path).map(|one| vec![one])).transpose();
    }
    let mut stems = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "c2s") {
            stems.push(file.with_extension(""));
        }
    }
    if stems.is_empty() {
        return Err(format!("{input} contains no file that ends in .c2s").into());
    }
    stems.sort();
    stems.iter().map(|stem| recording(stem)).collect::<Result<_, _>>().map(Some)
}

fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn recording(stem: &Path) -> Result<Recording, Failure> {
    let read = |ending| {
        let file = with_ending(stem, ending);
        fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let order = with_ending(stem, "seq");
    let order = order.exists().then(|| read("seq")).transpose()?;
    let order = order.map(|order| {
        parse_order(&String::from_utf8_lossy(&order))
            .ok_or_else(|| format!("{}.seq is not a list of chunks", stem.display()))
    });
    let name = stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Recording { name, sent: read("c2s")?, received: read("s2c")?, order: order.transpose()? })
}

/// Parses lines of a direction, a number of bytes and a number of milliseconds. A line `# TIME`
/// has the time at which the milliseconds begin. Other marks, such as `x>` for an end, are left out.
fn parse_order(text: &str) -> Option<Vec<Chunk>> {
    let (mut chunks, mut start) = (Vec::new(), Duration::ZERO);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let direction = match words.next() {
            Some(">") => Direction::ToServer,
            Some("<") => Direction::ToClient,
            Some("#") => {
                let time = humantime::parse_rfc3339(words.next()?).ok()?;
                start = time.duration_since(std::time::UNIX_EPOCH).ok()?;
                continue;
            }
            _ => continue,
        };
        let length = words.next()?.parse().ok()?;
        let time = Duration::try_from_secs_f64(words.next()?.parse::<f64>().ok()? / 1000.0).ok()?;
        chunks.push(Chunk { direction, length, time: start.checked_add(time)? });
    }
    Some(chunks)
}

/// Reads a file, the standard input, or hexadecimal digits.
pub(crate) fn load(input: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    if input == "-" {
        io::stdin().lock().read_to_end(&mut bytes)?;
    } else if Path::new(input).exists() {
        bytes = fs::read(input).map_err(|error| format!("{input}: {error}"))?;
    } else {
        return unhex(input.as_bytes())
            .ok_or_else(|| format!("{input:?} is neither a file nor hexadecimal digits").into());
    }
    // Four digits would announce a frame beyond every limit, so text cannot be binary input.
    Ok(unhex(&bytes).unwrap_or(bytes))
}

/// Parses hexadecimal digits. Blanks, colons, commas and `0x` may separate them.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let parts = text.split(|byte| byte.is_ascii_whitespace() || b":,".contains(byte));
    let digits = parts.flat_map(|part| {
        let bare = part.strip_prefix(b"0x").or_else(|| part.strip_prefix(b"0X"));
        bare.unwrap_or(part)
    });
    let digits: Option<Vec<_>> = digits.map(|byte| char::from(*byte).to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

/// Returns whether a payload is a handshake request of ZooKeeper.
pub(crate) fn is_connect_request(payload: &[u8]) -> bool {
    ConnectRequest::decode_all(payload).is_ok_and(|request| request.protocol_version == 0)
}

fn is_connect_response(payload: &[u8]) -> bool {
    ConnectResponse::decode_all(payload).is_ok_and(|response| response.protocol_version == 0)
}

/// Returns which other protocol a stream is.
pub(crate) fn foreign(stream: &[u8]) -> Option<String> {
    // The records of TLS: alerts, handshakes and data, since TLS 1.0.
    if matches!(stream, [0x14..=0x17, 3, 0..=4, ..]) {
        return Some("this begins as TLS, whose content cannot be read here".into());
    }
    let is_text = stream.len() >= 8 && stream[..8].iter().all(|byte| matches!(byte, b' '..=b'~'));
    is_text.then(|| "this begins as text, such as a request of HTTP".into())
}

/// Returns what a stream might be that is not what it is taken for.
pub(crate) fn hint(direction: Direction, stream: &[u8]) -> Option<String> {
    let limit = frame::DEFAULT_LIMIT;
    let first = frame::split(stream, limit).ok().flatten().map(|(payload, _)| payload);
    let is_request = first.is_some_and(is_connect_request);
    let is_response = first.is_some_and(is_connect_response);
    let other = match direction {
        Direction::ToServer if is_response && !is_request => Some(("server", "use")),
        Direction::ToClient if is_request && !is_response => Some(("client", "omit")),
        _ => None,
    };
    if let Some((who, option)) = other {
        return Some(format!(
            "this begins as what a {who} sent: {option} --server, or exchange the two"
        ));
    }
    // No message is that short.
    if first.is_some_and(|payload| payload.len() >= 8) {
        return None;
    }
    let foreign = foreign(stream);
    if foreign.is_some() {
        return foreign;
    }
    // A payload without its length, as other tools cut it out.
    let mut reader = Reader::new(stream);
    let header = RequestHeader::decode(&mut reader).ok();
    let whole = header.is_some_and(|header| Request::decode(header.opcode, reader.rest()).is_ok())
        || is_connect_request(stream)
        || is_connect_response(stream);
    whole.then(|| {
        let length = stream.len();
        format!("this is a message without its length: put {length:08x} in front of it")
    })
}
