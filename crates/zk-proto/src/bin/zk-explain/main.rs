//! `zk-explain`: what a connection of ZooKeeper says, byte by byte, line by line, or as a picture.

mod input;
mod lanes;
mod locks;
mod output;
mod packet;
mod pcap;
mod pcap_writer;
mod proxy;
mod record;
mod recorded;
mod resync;
mod show;
mod story;
mod tracker;
mod wireshark;

use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use zk_proto::OpCode;
use zk_proto::conversation::Direction;

use crate::output::{Filter, Output};

/// An error, printed on one line.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// Explain the bytes of ZooKeeper's client protocol
///
/// Reads a file, hexadecimal digits, a recording, a packet capture, or a live connection. Every
/// byte of every message is explained, or one line for each message, or a diagram.
///
/// A stream may end inside a frame, which is reported but is no error. Bytes that cannot be a frame
/// are an error with exit code 2.
#[derive(Debug, Parser)]
#[command(
    name = "zk-explain",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Subject>,
    /// What a client sent: a file, `-` for the standard input, or hexadecimal digits
    ///
    /// `wireshark` prints a dissector for Wireshark instead.
    ///
    /// Blanks, colons, commas and 0x may separate the digits. A folder, or the name of a recording
    /// without its ending, is read with both directions and their order. So is what a client of
    /// zk-session has recorded about itself.
    #[arg(required_unless_present_any = ["pair", "pcap", "proxy"], conflicts_with_all = ["pair", "pcap", "proxy"])]
    input: Option<String>,
    /// The input is what a server sent, as is every file that ends in .s2c
    #[arg(long, conflicts_with_all = ["pair", "pcap", "proxy"])]
    server: bool,
    /// The input is what a server sent, and its replies answer this operation, such as getData
    #[arg(long, value_name = "OPERATION", value_parser = operation, conflicts_with_all = ["pair", "pcap", "proxy"])]
    reply_to: Option<OpCode>,
    /// Both directions of one connection; replies are matched to requests by their xid
    #[arg(long, num_args = 2, value_names = ["C2S", "S2C"])]
    pair: Option<Vec<String>>,
    /// A packet capture, in the format of tcpdump or of Wireshark (pcap, pcapng), or `-`
    ///
    /// It may be compressed by gzip. Tunnels such as VXLAN and GRE are read, and fragments of IP.
    /// Where bytes are missing, the next frame is searched for.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pair", "proxy"])]
    pcap: Option<PathBuf>,
    /// In a capture, the port of the server; other connections are left out
    ///
    /// Without it, connections to port 2181 are read, and those that begin with a handshake.
    #[arg(long, requires = "pcap")]
    port: Option<u16>,
    /// Pass connections on to a server, and explain them as they happen
    #[arg(long, num_args = 2, value_names = ["LISTEN", "SERVER"], conflicts_with = "pair")]
    proxy: Option<Vec<String>>,
    /// With --proxy: end after this number of connections
    #[arg(long, requires = "proxy", value_name = "NUMBER")]
    connections: Option<usize>,
    /// Save each connection in this folder: NAME.c2s, NAME.s2c, and NAME.seq with order and times
    ///
    /// Only you can read the files: they have the passwords of the connection.
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Save everything as a packet capture for Wireshark, which only you can read
    #[arg(long, value_name = "FILE")]
    write_pcap: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value = "dump")]
    format: Format,
    /// Only messages about this path or a path below it
    #[arg(long)]
    path: Option<String>,
    /// Only these operations, such as create,GET_DATA, and the replies to them
    #[arg(long, value_name = "OPERATION", value_delimiter = ',', value_parser = operation)]
    op: Vec<OpCode>,
    /// Only replies that report an error
    #[arg(long)]
    errors: bool,
    /// Print long fields in full
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Every byte of every message
    Dump,
    /// One line for each message
    Lines,
    /// One JSON object for each message, on a line
    Json,
    /// A sequence diagram: one column for each client
    Lanes,
    /// The same as an image
    Svg,
    /// A story for the page docs/play
    Play,
    /// What `zk-explain locks` prints
    #[value(skip)]
    Locks(LocksFormat),
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Show who queued for each lock, who held it for how long, and how it was handed over
    ///
    /// It knows the locks of Curator, of kazoo and of zk-recipes, and others with ephemeral
    /// sequential nodes, from the messages alone. A hand-over begins when the client ahead asks to
    /// delete its node, or with its last message if its session expired. It ends when the next
    /// client learns that it is first. All servers are taken for one ensemble.
    Locks {
        /// A packet capture, `-` for one from the standard input, or a folder of recordings
        capture: String,
        /// The port of the server
        #[arg(long)]
        port: Option<u16>,
        /// Only locks at this path or below it
        #[arg(long)]
        path: Option<String>,
        /// What to print
        #[arg(long, value_enum, default_value = "text")]
        format: LocksFormat,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LocksFormat {
    /// A table and a histogram for each lock
    Text,
    /// One JSON object for each lock, on a line
    Json,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads the rest.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // If the standard error is closed, nobody reads the message.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::BrokenPipe)
}

fn run() -> Result<(), Failure> {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(help) if !help.use_stderr() => return Ok(help.print()?),
        Err(error) => {
            let message = error.to_string();
            let lines: Vec<_> =
                message.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            return Err(lines.join(" ").trim_start_matches("error: ").into());
        }
    };
    if let Some(Subject::Locks { capture, port, path, format }) = arguments.command {
        return show_locks(&capture, port, path, format);
    }
    if arguments.input.as_deref() == Some("wireshark") {
        return Ok(io::stdout().write_all(wireshark::dissector().as_bytes())?);
    }
    let filter = Filter {
        path: arguments.path.clone(),
        operations: arguments.op.clone(),
        errors: arguments.errors,
    };
    let mut output = Output::new(arguments.format, filter, arguments.full);
    if let Some(folder) = &arguments.record {
        output.record_in(folder)?;
    }
    if let Some(file) = &arguments.write_pcap {
        output.write_pcap_to(file)?;
    }
    match (&arguments.pcap, arguments.proxy.as_deref()) {
        (Some(file), _) => pcap::read(file, arguments.port, &mut output)?,
        (_, Some([listen, server])) => {
            proxy::run(listen, server, arguments.connections, &mut output)?;
        }
        _ => read_inputs(&arguments, &mut output)?,
    }
    output.finish()
}

fn show_locks(
    capture: &str,
    port: Option<u16>,
    path: Option<String>,
    format: LocksFormat,
) -> Result<(), Failure> {
    let filter = Filter { path, operations: Vec::new(), errors: false };
    let mut output = Output::new(Format::Locks(format), filter, false);
    match input::recordings(capture)? {
        Some(recordings) => output.recordings(recordings)?,
        None => match std::fs::read(capture).ok().filter(|it| recorded::is_recording(it)) {
            Some(recording) => recorded::read(&recording, &mut output)?,
            None => pcap::read(capture.as_ref(), port, &mut output)?,
        },
    }
    output.finish()
}

fn read_inputs(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if let Some([sent, received]) = arguments.pair.as_deref() {
        let [sent, received] = [input::load(sent)?, input::load(received)?];
        return output.recordings(vec![input::Recording::of(sent, received)]);
    }
    let input = arguments.input.as_deref().unwrap_or("-");
    if let Some(recordings) = input::recordings(input)? {
        return output.recordings(recordings);
    }
    let bytes = input::load(input)?;
    if recorded::is_recording(&bytes) {
        return recorded::read(&bytes, output);
    }
    let is_reply = arguments.server || arguments.reply_to.is_some() || input.ends_with(".s2c");
    let direction = if is_reply { Direction::ToClient } else { Direction::ToServer };
    output.one_direction(direction, bytes, arguments.reply_to)
}

/// Parses the name of an operation, as in ZooKeeper or in this crate, or its number.
fn operation(name: &str) -> Result<OpCode, String> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let known =
        OpCode::KNOWN.iter().find(|opcode| plain(opcode.name().unwrap_or("")) == plain(name));
    known
        .copied()
        .or_else(|| name.parse().ok().map(OpCode))
        .ok_or_else(|| "an operation such as getData, GET_DATA or 4".to_owned())
}
