//! The program `zk-test-server`, as a user runs it.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use zk_recipes::session::{blocking::Client, proto::NodeKind};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-test-server"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A server that runs until the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it runs until it is killed");
    }
}

/// Starts the program. Returns it with the addresses that it prints.
fn start(arguments: &[&str]) -> (Running, String) {
    let mut child = program(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let output = child.stdout.take().expect("piped");
    let running = Running(child);
    let mut servers = String::new();
    BufReader::new(output).read_line(&mut servers).expect("its addresses");
    (running, servers.trim().to_owned())
}

#[test]
fn it_prints_its_addresses_and_serves_without_an_input() {
    for (arguments, count) in [(&[][..], 3), (&["1"], 1)] {
        let (mut running, servers) = start(arguments);
        assert_eq!(servers.split(',').count(), count, "{servers}");

        let client = Client::connect(&servers).expect("it serves");
        client.create("/a", b"", NodeKind::Ephemeral).wait().expect("a new node");
        assert_eq!(running.0.try_wait().expect("its state"), None);
    }
    let usual = "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183";
    let is_in_use = |address| TcpListener::bind(address).is_err();
    let (running, servers) = start(&[]);
    assert!(servers == usual || usual.split(',').any(is_in_use), "{servers}");
    drop(running);
    // Unless somebody else has the port, and may release it.
    if let Ok(_usual) = TcpListener::bind("127.0.0.1:2182") {
        let (_running, servers) = start(&[]);
        assert!(!servers.contains(":218"), "{servers}");
        Client::connect(&servers).expect("it serves");
    }
}

#[test]
fn it_explains_itself_if_the_arguments_are_no_number_of_servers() {
    for arguments in [&["three"][..], &["0"], &["256"], &["-1"], &["3", "4"], &[""]] {
        let output = program(arguments).output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stderr.starts_with(b"usage: zk-test-server [SERVERS]\n"), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_no_text_is_no_number() {
    use std::os::unix::ffi::OsStrExt as _;

    let output = program(&[]).arg(std::ffi::OsStr::from_bytes(b"\xff")).output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.starts_with(b"usage: "), "{output:?}");
}

#[test]
fn it_explains_itself_on_request() {
    for help in ["-h", "--help"] {
        let output = program(&[help]).output().expect("it ends");
        assert!(output.status.success(), "{help}");
        assert!(output.stdout.starts_with(b"usage: zk-test-server [SERVERS]\n"), "{help}");
    }
}
