//! The SQL of `docs/services.md` on PostgreSQL: it refuses a late token of a lock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use tempfile::TempDir;
use zk_recipes::Mutex;
use zk_testkit::contention::clients;
use zk_testkit::real;

const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// What psql prints for a statement that returns no row where one is needed.
const LATE: &str = "no rows returned for \\gset";

/// A server with an empty database, which listens on a socket in its folder.
struct Postgres {
    process: Child,
    programs: PathBuf,
    folder: TempDir,
}

impl Postgres {
    fn start_or_skip() -> Option<Self> {
        let programs = real::or_skip(find)?;
        let folder = TempDir::with_prefix("postgres-").expect("a temporary folder");
        let data = folder.path().join("data");
        // The server does not run as root.
        let owner = Command::new("chown").args(["postgres:", "--"]).arg(folder.path()).output();
        let is_root = owner.is_ok_and(|output| output.status.success());
        let run = |program: &str| {
            let mut command = match is_root {
                true => Command::new("setpriv"),
                false => Command::new(programs.join(program)),
            };
            if is_root {
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
                command.arg(programs.join(program));
            }
            command.current_dir(folder.path()).arg("-D").arg(&data);
            command
        };
        let mut init = run("initdb");
        init.args(["--auth=trust", "--username=postgres", "--no-sync", "--locale=C"]);
        let output = init.output().expect("initdb starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut server = run("postgres");
        server.args(["-F", "-h", "", "-k"]).arg(folder.path());
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let process = server.stdout(Stdio::null()).stderr(log).spawn().expect("postgres starts");
        let postgres = Self { process, programs, folder };
        let begun = Instant::now();
        while !postgres.run("SELECT 1;", 0).status.success() {
            let log = fs::read_to_string(postgres.folder.path().join("log"));
            assert!(begun.elapsed() < Duration::from_secs(60), "{log:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let [table, _] = sql();
        let table = format!("{table}CREATE TABLE report (text TEXT);");
        assert!(postgres.run(&table, 0).status.success());
        Some(postgres)
    }

    fn psql(&self, token: i64) -> Child {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"]);
        psql.arg(self.folder.path()).args(["-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate"]);
        psql.arg("-v").arg(format!("token={token}"));
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        psql.spawn().expect("psql starts")
    }

    fn run(&self, script: &str, token: i64) -> Output {
        let mut psql = self.psql(token);
        // It may fail before it has read everything.
        let _ = psql.stdin.take().expect("piped").write_all(script.as_bytes());
        psql.wait_with_output().expect("a child")
    }

    /// Writes as the holder with this token. Returns the error, if there is one.
    fn write(&self, token: i64, text: &str) -> Result<(), String> {
        let write = format!("INSERT INTO report VALUES ('{text}');");
        let output = self.run(&format!("BEGIN;\n{}{write}\nCOMMIT;\n", fence()), token);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(message) }
    }

    fn written(&self) -> String {
        let output = self.run("SELECT string_agg(text, '') FROM report;", 0);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its processes end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the folder with the programs of PostgreSQL.
fn find() -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let mut folders = env::split_paths(&path).chain(debian);
    let has =
        |folder: &PathBuf| ["initdb", "postgres", "psql"].map(|name| folder.join(name).exists());
    let found = folders.find(|folder| has(folder) == [true; 3]);
    found.ok_or_else(|| "PostgreSQL is not installed".into())
}

/// Returns the SQL of the page: the table, and the statement.
fn sql() -> [String; 2] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/services.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks = page.split("```sql\n").skip(1);
    let blocks: Vec<_> =
        blocks.map(|rest| rest.split("```").next().expect("text").into()).collect();
    blocks.try_into().expect("two blocks")
}

/// Returns the statement, which fails if it returns no row.
fn fence() -> String {
    let [_, statement] = sql();
    format!("{} \\gset fenced_\n", statement.trim_end().strip_suffix(';').expect("a statement"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_holder_writes_nothing() {
    let Some(postgres) = Postgres::start_or_skip() else { return };
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let clients = clients(&ensemble.connect_string(), 2, SESSION_TIMEOUT).await;
    let [one, other] = [0, 1].map(|at| Mutex::new(&clients[at], "/locks/report").expect("valid"));
    let late = one.acquire().await.expect("acquired");
    postgres.write(late.fencing_token().0, "a").expect("the holder writes");
    postgres.write(late.fencing_token().0, "b").expect("it writes again");
    clients[1].delete(&late.node_path(), None).await.expect("deleted");
    let guard = other.acquire().await.expect("acquired");
    postgres.write(guard.fencing_token().0, "c").expect("the next holder writes");
    let error = postgres.write(late.fencing_token().0, "d").expect_err("a late token");
    assert!(error.contains(LATE), "{error}");
    postgres.write(guard.fencing_token().0, "e").expect("the next holder goes on");
    assert_eq!(postgres.written(), "abce");
}

#[test]
fn a_holder_within_a_transaction_delays_the_next_one() {
    let Some(postgres) = Postgres::start_or_skip() else { return };
    // It stops within a transaction, until the server ends that.
    let mut stopped = postgres.psql(5);
    let mut script = stopped.stdin.take().expect("piped");
    let begin = "SET idle_in_transaction_session_timeout = 500;\nBEGIN;\n";
    let work = "INSERT INTO report VALUES ('a');\nSELECT 'inside';\n";
    script.write_all(format!("{begin}{}{work}", fence()).as_bytes()).expect("it reads");
    let mut line = String::new();
    let mut lines = BufReader::new(stopped.stdout.take().expect("piped"));
    lines.read_line(&mut line).expect("text");
    assert_eq!(line, "inside\n");
    let impatient = postgres.run(&format!("SET lock_timeout = 50;\n{}", fence()), 7);
    // The lock is not available.
    let error = String::from_utf8_lossy(&impatient.stderr).into_owned();
    assert!(!impatient.status.success() && error.contains("55P03"), "{error}");
    postgres.write(7, "b").expect("written after a moment");
    let _ = script.write_all(b"COMMIT;\n");
    drop(script);
    assert!(!stopped.wait().expect("a child").success());
    assert_eq!(postgres.written(), "b");

    // With a snapshot from before, the server refuses the late one by an error of its own.
    let mut late = postgres.psql(7);
    let mut script = late.stdin.take().expect("piped");
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 'inside' FROM report;\n";
    script.write_all(snapshot.as_bytes()).expect("it reads");
    let mut lines = BufReader::new(late.stdout.take().expect("piped"));
    lines.read_line(&mut line).expect("text");
    postgres.write(9, "c").expect("the next holder writes");
    script.write_all(fence().as_bytes()).expect("it reads");
    drop(script);
    let output = late.wait_with_output().expect("a child");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("40001"), "{error}");
}
