//! The bodies of replies and requests, from the words of a scene.

use zk_proto::OpCode;

/// Returns the body of a reply to `opcode` from words such as `data:x` or `stat`. One word serves
/// all variants of an operation: `children:a,b` has a stat behind it if the request asks for one.
pub(crate) fn body(opcode: OpCode, words: &[String]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for word in words {
        let (kind, value) = word.split_once(':').unwrap_or((word, ""));
        match kind {
            "none" => {}
            "data" => {
                buffer(&mut out, Some(value.as_bytes()));
                stat(&mut out, value.len());
            }
            "big" => {
                let length = value.parse().map_err(|_| format!("no length: {word}"))?;
                buffer(&mut out, Some(&vec![b'x'; length]));
                stat(&mut out, length);
            }
            "null" => {
                buffer(&mut out, None);
                stat(&mut out, 0);
            }
            "stat" => stat(&mut out, 0),
            "children" | "no-list" | "many" => {
                let many: Vec<_> = match kind {
                    "many" => {
                        let count: usize =
                            value.parse().map_err(|_| format!("no count: {word}"))?;
                        (0..count).map(|number| format!("n-{number:010}")).collect()
                    }
                    _ => value.split(',').filter(|name| !name.is_empty()).map(Into::into).collect(),
                };
                match kind {
                    "no-list" => int(&mut out, -1),
                    _ => int(&mut out, i32::try_from(many.len()).map_err(|_| "too many")?),
                }
                for name in &many {
                    buffer(&mut out, Some(name.as_bytes()));
                }
                if opcode == OpCode::GET_CHILDREN2 {
                    stat(&mut out, 0);
                }
            }
            "path" => {
                buffer(&mut out, Some(value.as_bytes()));
                if opcode != OpCode::CREATE && opcode != OpCode::SYNC {
                    stat(&mut out, 0);
                }
            }
            "created" => {
                result(&mut out, 1, false, 0);
                buffer(&mut out, Some(value.as_bytes()));
            }
            "deleted" => result(&mut out, 2, false, 0),
            "written" => {
                result(&mut out, 5, false, 0);
                stat(&mut out, 0);
            }
            "checked" => result(&mut out, 13, false, 0),
            "failed" => {
                let code = value.parse().map_err(|_| format!("no code: {word}"))?;
                result(&mut out, -1, false, code);
                int(&mut out, code);
            }
            "end" => result(&mut out, -1, true, -1),
            "int" => int(&mut out, value.parse().map_err(|_| format!("no int: {word}"))?),
            "open" => {
                int(&mut out, 1);
                int(&mut out, 31);
                buffer(&mut out, Some(b"world"));
                buffer(&mut out, Some(b"anyone"));
            }
            "text" => buffer(&mut out, Some(value.as_bytes())),
            "hex" => out.extend(hex(value)?),
            _ => return Err(format!("unknown part of a body: {word}")),
        }
    }
    Ok(out)
}

/// Reads hexadecimal digits.
pub(crate) fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<_> = text.bytes().filter(|byte| *byte != b'_').collect();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).map_err(|error| error.to_string())?;
        u8::from_str_radix(pair, 16).map_err(|error| format!("{text}: {error}"))
    });
    pairs.collect()
}

fn int(out: &mut Vec<u8>, value: i32) {
    out.extend(value.to_be_bytes());
}

fn buffer(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            int(out, i32::try_from(bytes.len()).unwrap_or(i32::MAX));
            out.extend(bytes);
        }
        None => int(out, -1),
    }
}

/// A header within the reply to a multi.
fn result(out: &mut Vec<u8>, kind: i32, is_end: bool, error: i32) {
    int(out, kind);
    out.push(is_end.into());
    int(out, error);
}

/// A stat whose numbers are all different.
fn stat(out: &mut Vec<u8>, length: usize) {
    for long in [11, 12, 1_600_000_000_013, 1_600_000_000_014_i64] {
        out.extend(long.to_be_bytes());
    }
    for number in [5, 6, 7] {
        int(out, number);
    }
    out.extend(8_i64.to_be_bytes());
    int(out, i32::try_from(length).unwrap_or(i32::MAX));
    int(out, 10);
    out.extend(15_i64.to_be_bytes());
}
