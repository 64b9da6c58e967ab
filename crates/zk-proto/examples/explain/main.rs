//! Prints the meaning of every byte of a recorded connection.
//!
//! ```text
//! cargo run -p zk-proto --example explain -- 0000000ffffffffe0000000b...
//! cargo run -p zk-proto --example explain -- --server recording.s2c
//! cargo run -p zk-proto --example explain -- --pair recording.c2s recording.s2c
//! ```

pub(crate) mod dump;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use dump::{Direction, End, Stream};

/// Prints the meaning of every byte of a stream of the ZooKeeper protocol
///
/// A recording may end inside a frame, which is reported but is no error. Bytes that cannot be a
/// frame are an error with exit code 2.
#[derive(Debug, Parser)]
struct Arguments {
    /// What a client sent: a file, `-` for the standard input, or hexadecimal digits
    ///
    /// Blanks, colons, commas and 0x may separate the digits.
    #[arg(required_unless_present = "pair", conflicts_with = "pair")]
    input: Option<String>,
    /// The input is what a server sent
    #[arg(long, conflicts_with = "pair")]
    server: bool,
    /// Both directions of one connection; replies are matched to requests by their xid
    #[arg(long, num_args = 2, value_names = ["C2S", "S2C"])]
    pair: Option<Vec<String>>,
    /// Print long fields in full
    #[arg(long)]
    full: bool,
}

fn main() -> ExitCode {
    match run(std::env::args_os(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the standard error is closed, nobody reads the message.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the tool. An error is one line.
pub(crate) fn run<A: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = A>,
    out: &mut dyn Write,
) -> Result<(), String> {
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => explain(&arguments, out),
        Err(help) if !help.use_stderr() => print(help.render(), out),
        Err(error) => {
            let message = error.to_string();
            let lines: Vec<_> =
                message.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            Err(lines.join(" ").trim_start_matches("error: ").to_owned())
        }
    }
}

fn explain(arguments: &Arguments, out: &mut dyn Write) -> Result<(), String> {
    let (streams, frames);
    let loaded: Vec<_>;
    if let Some(pair) = arguments.pair.as_deref() {
        loaded = pair.iter().map(|input| load(input)).collect::<Result<_, _>>()?;
        streams = [Direction::ToServer, Direction::ToClient]
            .into_iter()
            .zip(&loaded)
            .map(|(direction, bytes)| Stream::new(bytes, direction))
            .collect::<Vec<_>>();
        frames = dump::pair(&streams[0].frames, &streams[1].frames);
    } else {
        let direction = if arguments.server { Direction::ToClient } else { Direction::ToServer };
        loaded = vec![load(arguments.input.as_deref().unwrap_or("-"))?];
        streams = vec![Stream::new(&loaded[0], direction)];
        frames = streams[0].frames.clone();
    }
    for frame in &frames {
        print(frame.dump(arguments.full) + "\n", out)?;
    }
    for stream in &streams {
        match stream.end {
            End::Whole => {}
            End::Unfinished(bytes) => {
                print(
                    format!("{bytes} bytes at byte {} are an incomplete frame\n", stream.length),
                    out,
                )?;
            }
            End::Impossible(error) => return Err(format!("{error} at byte {}", stream.length)),
        }
    }
    Ok(())
}

fn print(text: impl Display, out: &mut dyn Write) -> Result<(), String> {
    write!(out, "{text}").map_err(|error| error.to_string())
}

fn load(input: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if input == "-" {
        io::stdin().lock().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    } else if Path::new(input).exists() {
        bytes = std::fs::read(input).map_err(|error| format!("{input}: {error}"))?;
    } else {
        return unhex(input.as_bytes())
            .ok_or_else(|| format!("{input:?} is neither a file nor hexadecimal digits"));
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
