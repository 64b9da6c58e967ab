//! Programs in C with the library, on the embedded ensemble.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::runtime::Runtime;
use zk_session::blocking::Client;
use zk_test_server::serve::Embedded;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn ensemble() -> (Runtime, Embedded) {
    let runtime = Runtime::new().expect("a runtime");
    let embedded = runtime.block_on(Embedded::start(3)).expect("loopback");
    (runtime, embedded)
}

/// Compiles a program with the static library, with warnings denied.
fn compiled(source: &str, flags: &[&str], to: &Path) -> PathBuf {
    let program = to.join("program");
    let built = std::env::current_exe().expect("this test");
    let library = built.parent().expect("a folder").join("libzk.a");
    let status = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(format!("{HERE}/include"))
        .args(flags)
        .arg(format!("{HERE}/{source}"))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status();
    assert!(status.expect("cc runs").success());
    program
}

/// Runs the program that uses all, in which a lock is lost.
fn uses_all(mut command: Command) {
    let (_runtime, embedded) = ensemble();
    command.arg(embedded.connect_string()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().map(|line| line.expect("text"));
    assert_eq!(line().as_deref(), Some("held"));
    let nodes = embedded.with(|ensemble| {
        let nodes = ensemble.paths().filter(|path| path.starts_with("/c/lock/"));
        nodes.map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(nodes.len(), 1);
    let client = Client::connect(&embedded.connect_string()).expect("connected");
    client.delete(&nodes[0], None).wait().expect("deleted");
    assert_eq!(line().as_deref(), Some("done"));
    assert!(child.wait().expect("an ended child").success());
}

#[test]
fn all_functions_with_sanitizers() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    uses_all(Command::new(compiled("tests/use.c", &flags, folder.path())));
}

#[test]
fn all_functions_with_valgrind() {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|it| it.status.success()) {
        println!("SKIPPED no valgrind");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("valgrind");
    // Threads that end with the process are "possibly" lost.
    command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
    command.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    command.arg(compiled("tests/use.c", &[], folder.path()));
    uses_all(command);
}

#[test]
fn the_example_holds_a_lock() {
    let (_runtime, embedded) = ensemble();
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("examples/lock.c", &[], folder.path());
    let run = |servers: &str| {
        Command::new(&program).args([servers, "/locks/c"]).output().expect("it starts")
    };
    let held = run(&embedded.connect_string());
    let text = String::from_utf8_lossy(&held.stdout).into_owned();
    assert!(held.status.success() && text.starts_with("held, token "), "{held:?}");
    let refused = run("zk1:port");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).starts_with("lock: "), "{refused:?}");
}

/// With `ZK_BLESS=1` it writes the header.
#[test]
fn the_header_is_that_of_the_sources() {
    let configuration = cbindgen::Config::from_file(format!("{HERE}/cbindgen.toml"));
    let builder = cbindgen::Builder::new().with_config(configuration.expect("a configuration"));
    let sources = ["error", "watching", "lib"].map(|name| format!("{HERE}/src/{name}.rs"));
    let builder = sources.iter().fold(builder, |builder, source| builder.with_src(source));
    let mut header = Vec::new();
    builder.generate().expect("a header").write(&mut header);
    let header = String::from_utf8(header).expect("text");
    let path = format!("{HERE}/include/zk.h");
    if std::env::var_os("ZK_BLESS").is_some() {
        std::fs::write(&path, &header).expect("written");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("the header"), header);
    let functions =
        header.lines().filter(|line| line.contains(" *zk_") || line.starts_with("int")).count();
    assert!(functions <= 20, "{functions}");
}
