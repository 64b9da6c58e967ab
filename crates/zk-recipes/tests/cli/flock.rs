//! The manual page of flock(1), line by line, with `flock` and `zk-lock`.
//!
//! The table in `docs/zk-lock.md` shows the same lines.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use zk_recipes::session::proto::path;
use zk_testkit::real;

use crate::{PATH, World, ended, out, output, ready, unignoring};

/// The two programs: `flock FILE` and `zk-lock run PATH`, with the same options.
struct Programs {
    /// The servers of `zk-lock`.
    connect: String,
    folder: TempDir,
}

impl Programs {
    fn new(connect: String) -> Self {
        Self { connect, folder: TempDir::new().expect("a temporary folder") }
    }

    /// Returns a shell that runs `script`, in which `LOCK` stands for the program and `NAME` for
    /// the name of its lock.
    fn shell(&self, is_flock: bool, name: &str, script: &str) -> Command {
        let (lock, name) = match is_flock {
            true => ("flock".to_owned(), self.folder.path().join(name).display().to_string()),
            false => {
                let (program, at) = (env!("CARGO_BIN_EXE_zk-lock"), &self.connect);
                let program = format!("'{program}' --connect {at} run");
                (program, path::child("/flock", name))
            }
        };
        let mut shell = unignoring("sh");
        let script = script.replace("ZK_LOCK_", "\0").replace("LOCK", &lock).replace("NAME", &name);
        shell.args(["-c", &script.replace('\0', "ZK_LOCK_")]);
        shell.env("SHELL", "/bin/sh");
        shell
    }

    /// Runs `script` with each program, while `holder` holds the lock if it is not empty. Returns
    /// the exit codes and outputs.
    fn both(&self, holder: &str, script: &str) -> [(Option<i32>, String); 2] {
        [true, false].map(|is_flock| {
            let name = "lock";
            let holding = (!holder.is_empty()).then(|| {
                let script = format!("{holder} -c 'echo ready; read x'");
                let mut shell = self.shell(is_flock, name, &script);
                shell.stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut holding = shell.spawn().expect("sh starts");
                ready(&mut holding);
                holding
            });
            let done = output(self.shell(is_flock, name, script));
            if let Some(mut holding) = holding {
                holding.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
                assert_eq!(ended(holding).status.code(), Some(0));
            }
            (done.status.code(), out(&done))
        })
    }
}

#[test]
fn each_line_of_the_manual_of_flock_does_the_same() {
    let world = World::new();
    each_line(&Programs::new(world.embedded.connect_string()));
}

#[test]
fn each_line_of_the_manual_does_the_same_on_a_real_server() {
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    each_line(&Programs::new(ensemble.connect_string()));
}

fn each_line(programs: &Programs) {
    let held = "LOCK NAME";
    let held_shared = "LOCK -s NAME";
    let held_exclusive = "LOCK -x NAME";
    let pid = programs.folder.path().join("pid").display().to_string();
    let stays = |option: &str| {
        format!(
            "LOCK {option} NAME sh -c 'sleep 60 > /dev/null 2>&1 & echo $! > {pid}'; \
             LOCK -n NAME echo free; kill $(cat {pid})"
        )
    };
    for (holder, script, code, text) in [
        // The command.
        ("", "LOCK NAME echo 'a b c'", 0, "a b c\n"),
        ("", "LOCK -x NAME echo 'a b c'", 0, "a b c\n"),
        ("", "LOCK NAME sh -c 'exit 3'", 3, ""),
        ("", "LOCK NAME sh -c 'kill -9 $$'", 137, ""),
        // -c, --command
        ("", "LOCK NAME -c 'echo $((1 + 2)) | cat'", 0, "3\n"),
        ("", "LOCK NAME --command 'exit 4'", 4, ""),
        ("", "SHELL=/bin/dash LOCK NAME -c 'echo $0'", 0, "/bin/dash\n"),
        ("", "LOCK NAME -c true argument", 64, ""),
        // -n, --nb, --nonblock
        ("", "LOCK -n NAME echo free", 0, "free\n"),
        (held, "LOCK -n NAME echo held", 1, ""),
        (held, "LOCK --nb NAME echo held", 1, ""),
        (held, "LOCK --nonblock NAME echo held", 1, ""),
        // -w, --wait, --timeout, with fractions
        ("", "LOCK -w 0 NAME echo free", 0, "free\n"),
        ("", "LOCK -w 60.5 NAME echo free", 0, "free\n"),
        // Shorter than the way to a server and back.
        ("", "LOCK -w .000001 NAME echo free", 0, "free\n"),
        (held, "LOCK -w 0 NAME echo held", 1, ""),
        (held, "LOCK -w .007 NAME echo held", 1, ""),
        (held, "LOCK --wait 0.007 NAME echo held", 1, ""),
        (held, "LOCK --timeout 0.007 NAME echo held", 1, ""),
        (held, "LOCK -n -w 60 NAME echo held", 1, ""),
        ("", "LOCK -w soon NAME true", 64, ""),
        // -E, --conflict-exit-code
        (held, "LOCK -n -E 9 NAME echo held", 9, ""),
        (held, "LOCK -w .007 --conflict-exit-code 0 NAME echo held", 0, ""),
        ("", "LOCK -n -E 9 NAME sh -c 'exit 3'", 3, ""),
        ("", "LOCK -E 256 NAME true", 64, ""),
        // -s, --shared and -x, -e, --exclusive
        (held_shared, "LOCK -s -w 60.5 NAME echo shared", 0, "shared\n"),
        (held_shared, "LOCK --shared -n NAME echo shared", 0, "shared\n"),
        (held_shared, "LOCK -x -w .007 NAME echo alone", 1, ""),
        (held_shared, "LOCK -en NAME echo alone", 1, ""),
        (held_exclusive, "LOCK --shared -n NAME echo shared", 1, ""),
        (held_exclusive, "LOCK --exclusive -n NAME echo alone", 1, ""),
        (held_shared, "LOCK -x -s -n NAME echo shared", 0, "shared\n"),
        // -o, --close: what stays behind does not hold the lock.
        ("", &stays("-o"), 0, "free\n"),
        ("", &stays("--close"), 0, "free\n"),
        // -h, -V
        ("", "LOCK -h > /dev/null && LOCK -V > /dev/null", 0, ""),
        // Wrong options, and none.
        ("", "LOCK --bogus NAME true", 64, ""),
        ("", "LOCK", 64, ""),
        ("", "LOCK NAME", 64, ""),
        ("", "LOCK --help > /dev/full", 70, ""),
    ] {
        let expected = (Some(code), text.to_owned());
        let [flock, zk_lock] = programs.both(holder, script);
        // flock(1) has another code for a full disk.
        if code != 70 {
            assert_eq!(flock, expected, "flock: {script}");
        }
        assert_eq!(zk_lock, expected, "zk-lock: {script}");
    }
}

/// The boilerplate of the manual, at the top of a script that runs itself under a lock.
#[test]
fn a_script_can_run_itself_under_a_lock() {
    let world = World::new();
    let programs = Programs::new(world.embedded.connect_string());
    for is_flock in [true, false] {
        let script = programs.folder.path().join("script");
        let guard = match is_flock {
            true => {
                "[ \"${FLOCKER}\" != \"$0\" ] && exec env FLOCKER=\"$0\" flock -en \"$0\" \"$0\" \"$@\" || :"
            }
            false => {
                "case ${ZK_LOCK_NODE-} in NAME/*) ;; *) exec LOCK -n NAME \"$0\" \"$@\";; esac"
            }
        };
        let text =
            format!("#!/bin/sh\n{guard}\necho \"under the lock: $1 ${{ZK_LOCK_NODE%/*}}\"\n");
        let shell = programs.shell(is_flock, "script", &text);
        let text = shell.get_args().last().expect("the script");
        std::fs::write(&script, text.as_encoded_bytes()).expect("a script");
        // Also under another lock.
        let line = "chmod +x \"$0\"; \"$0\" one; LOCK NAME-other \"$0\" two";
        let mut run = programs.shell(is_flock, "script", line);
        run.arg(&script);
        let done = output(run);
        let lock = if is_flock { "" } else { "/flock/script" };
        assert_eq!(
            out(&done),
            format!("under the lock: one {lock}\nunder the lock: two {lock}\n"),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// What differs on purpose.
#[test]
fn other_exit_codes_tell_more() {
    let world = World::new();
    let programs = Programs::new(world.embedded.connect_string());
    for (script, flock, zk_lock) in [
        ("LOCK NAME /no/such/command", 69, 127),
        ("LOCK NAME /tmp", 69, 126),
        // The lock cannot be reached.
        ("LOCK NAME/no/such/place/ true", 66, 64),
        ("LOCK -w -1 NAME true", 71, 64),
    ] {
        let [(by_flock, _), (by_zk_lock, _)] = programs.both("", script);
        assert_eq!((by_flock, by_zk_lock), (Some(flock), Some(zk_lock)), "{script}");
    }
}

#[test]
fn verbose_reports_how_long_the_lock_took() {
    let world = World::new();
    let done = world.run(&["run", "-v", "/flock/verbose", "true"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("acquired after 0.") && text.contains(" s: token "), "{text}");
    assert!(text.contains("/flock/verbose/_c_"), "{text}");
}

/// As `flock -u`: what follows does not hold the lock, also in the background.
#[test]
fn a_command_can_release_its_lock_and_continue() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_zk-lock");
    let at = world.embedded.connect_string();
    let script = format!(
        "setsid sh -c 'read x <&3' 3<&0 & '{program}' release & one=$!; '{program}' release && \
         wait $one && '{program}' release && \
         '{program}' --connect {at} run -n {PATH} echo other && echo ready; read x; exit 5"
    );
    for how in [&[][..], &["-s"], &["--permits", "1", "--of", "1"]] {
        let name = format!("{PATH}/{}", how.len());
        let script = script.replace(PATH, &name);
        let mut command = world.command(&[&["run"], how, &[&name, "-c", &script]].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        let mut lines = [0; 12];
        let stdout = child.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(stdout, &mut lines).expect("two lines");
        assert_eq!(&lines, b"other\nready\n");
        assert!(world.contenders().is_empty());
        drop(child.stdin.take());
        let done = ended(child);
        assert_eq!((done.status.code(), crate::error_message(&done)), (Some(5), String::new()));
    }
    for descriptors in ["", "100,101", "0", "x,y"] {
        let mut outside = unignoring(program);
        outside.arg("release").env("ZK_LOCK_RELEASE", descriptors);
        assert_eq!(output(outside).status.code(), Some(64), "{descriptors}");
    }
}
