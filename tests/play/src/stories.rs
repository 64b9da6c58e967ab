//! The told stories: films with a paragraph at each stop, and a question.

use core::time::Duration;

use crate::film::{Film, Setting};
use crate::json::{list, quoted};
use crate::sim::{Bug, Cut, Fault, LockKind};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A told story.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// Its name in links.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Its films, with their titles.
    films: fn() -> Vec<(&'static str, Film)>,
}

/// All told stories, in the order in which a student reads them.
pub const ALL: [Story; 10] = [
    Story { name: "free", title: "A free lock", about: "One client, one round trip.", films: free },
    Story {
        name: "queue",
        title: "Three in a queue",
        about: "Three clients want the same lock, one after the other.",
        films: queue,
    },
    Story {
        name: "herd",
        title: "The herd and its cure",
        about: "Six clients, twice: with one watch for all, and with one each.",
        films: herd,
    },
    Story {
        name: "lost-create",
        title: "A create whose reply is lost",
        about: "Was it applied or not?",
        films: lost_create,
    },
    Story {
        name: "server",
        title: "The holder's server dies",
        about: "The server of the holder fails. What of the lock?",
        films: server,
    },
    Story {
        name: "lease",
        title: "A holder that is cut off",
        about: "Messages are lost in both directions.",
        films: lease,
    },
    Story {
        name: "pause",
        title: "A pause and a late write",
        about: "A process stops between its check and its write.",
        films: pause,
    },
    Story {
        name: "readers",
        title: "Readers and a writer",
        about: "A queue in which some wait for nobody.",
        films: readers,
    },
    Story {
        name: "semaphore",
        title: "A semaphore",
        about: "Three permits, four clients.",
        films: semaphore,
    },
    Story {
        name: "renewal",
        title: "A session that is renewed",
        about: "What a waiter does when its session expires.",
        films: renewal,
    },
];

impl Story {
    /// Returns the file of the page that contains the story.
    ///
    /// Films are shown in turns, from stop to stop.
    pub fn script(&self) -> String {
        let films = (self.films)();
        let casts = list(films.iter().map(|(title, film)| film.cast(title)));
        let (mut steps, mut stops) = (Vec::new(), Vec::new());
        let count = films.iter().map(|(_, film)| film.stops().len()).max().unwrap_or_default();
        for index in 0..=count {
            for (_, film) in &films {
                let end_of = |index: usize| match film.stops().get(index) {
                    Some((end, _)) => *end,
                    None => film.steps().len(),
                };
                let first = if index == 0 { 0 } else { end_of(index - 1) };
                let shown = &film.steps()[first..end_of(index)];
                steps.extend(shown.iter().map(|step| format!("{step}}}")));
                if let Some((_, stop)) = film.stops().get(index) {
                    stops.push(format!("{{\"step\":{},{stop}}}", steps.len() - 1));
                }
            }
        }
        let (name, title, about) = (quoted(self.name), quoted(self.title), quoted(self.about));
        format!(
            "play.story({{\"name\":{name},\"title\":{title},\"about\":{about},\n\"runs\":{casts},\n\
             \"stops\":[\n{}\n],\n\"steps\":[\n{}\n]}});\n",
            stops.join(",\n"),
            steps.join(",\n")
        )
    }
}

/// Returns the file of the page that lists the stories.
pub fn index() -> String {
    let stories = ALL.iter().map(|story| {
        let (name, title, about) = (quoted(story.name), quoted(story.title), quoted(story.about));
        format!("\n{{\"name\":{name},\"title\":{title},\"about\":{about}}}")
    });
    format!("play.index({});\n", list(stories))
}

fn one(film: Film) -> Vec<(&'static str, Film)> {
    vec![("", film)]
}

fn free() -> Vec<(&'static str, Film)> {
    let mut film = Film::new(Setting { clients: &["A"], servers: 1, ..Setting::default() }, 0);
    film.tell(
        "Client A has a session. The bar shows how long A can still be sure that the servers keep \
         its session. The lock is an empty node, /lock: a node has a path, as a file has, and may \
         have nodes below it.",
    );
    film.contend(0, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.tell(
        "Two requests travelled together: a create of a node with a number at its end, and a list \
         of the nodes. The node of A is the only one, so A holds the lock after one round trip. \
         Each change at the servers gets the next zxid, the number of its transaction. The zxid of \
         the create is A's token, which tells it from earlier and later holders.",
    );
    film.ask(
        "Which kind of node did A create?",
        &[
            (
                "ephemeral and sequential",
                "Yes. The servers add the number, and delete the node \
              with the session.",
            ),
            ("ephemeral only", "Then there would be no number, and no order."),
            ("persistent and sequential", "Then the lock would outlive a dead holder, for ever."),
        ],
    );
    film.wait(60 * MS);
    film.release(0);
    film.wait(40 * MS);
    film.tell(
        "A release is one delete. A stopped relying on the lock before it sent it. The reply is \
         not needed: the next holder, if there is one, learns of the delete by a watch.",
    );
    one(film)
}

fn queue() -> Vec<(&'static str, Film)> {
    let mut film = Film::new(Setting::default(), 0);
    film.tell("Three clients are connected to three servers. All will want the same lock.");
    film.contend(0, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.wait(20 * MS);
    film.contend(1, LockKind::Mutex);
    film.wait(30 * MS);
    film.tell(
        "B is second. It has set a watch on the node of A, its predecessor, and one on its own \
         node. The arrow in the queue is the first watch. B does not ask again: the servers will \
         tell it.",
    );
    film.contend(2, LockKind::Mutex);
    film.wait(40 * MS);
    film.tell("C is third. It watches B, not A.");
    film.ask(
        "A will release. Which waiters get an event?",
        &[
            ("B alone", "Yes. Only B watches the node of A."),
            ("B and C", "C watches the node of B, which stays."),
            ("nobody: clients ask", "A watch is there so that nobody needs to ask."),
        ],
    );
    film.release(0);
    film.until(|film| film.holds(1));
    film.tell(
        "The delete reached B as a watch event, and B holds the lock at that moment, without \
         another request: its list had shown one contender ahead, and nobody can come in between. \
         (A gets an event too: it watched its own node, to learn of its loss.)",
    );
    film.wait(40 * MS);
    film.release(1);
    film.until(|film| film.holds(2));
    film.wait(30 * MS);
    film.tell(
        "C holds the lock. It had to list again first: its list had shown two nodes ahead, and the \
         event said only that the nearest is gone. Compare the tokens: each holder's is greater \
         than the one before.",
    );
    film.release(2);
    film.wait(30 * MS);
    film.tell("The queue is empty again.");
    one(film)
}

fn herd() -> Vec<(&'static str, Film)> {
    let clients = &["A", "B", "C", "D", "E", "F"];
    let setting = Setting { clients, servers: 1, ..Setting::default() };
    let bug = Some(Bug::WatchesParent);
    let mut films = [Film::new(Setting { bug, ..setting }, 0), Film::new(setting, 1)];
    let [parent, predecessor] = &mut films;
    for film in [&mut *parent, &mut *predecessor] {
        for client in 0..6 {
            film.contend(client, LockKind::Mutex);
            film.wait(15 * MS);
        }
        film.begin("Six clients are in the queue. A holds the lock.");
    }
    parent.tell(
        "First the herd: five waiters, and all watch the same node, the lock path. The checker of \
         the simulator counts every needless wake-up as a violation.",
    );
    predecessor.tell(
        "The same six clients, and each watches the node ahead of its own. Compare the two queues.",
    );
    predecessor.ask(
        "A releases in both. How many waiters will be woken?",
        &[
            ("5 and 1", "Yes. In the herd all are woken, though only one can be next."),
            ("1 and 1", "In the herd all five watch the same node, so all five get the event."),
            ("5 and 5", "With one watch each, only the next one watches the deleted node."),
        ],
    );
    for film in [&mut *parent, &mut *predecessor] {
        film.release(0);
        film.wait(60 * MS);
    }
    parent.tell(
        "All waiters woke up, each asked for the whole list, and each set its watch again. One of \
         them holds the lock.",
    );
    predecessor.tell("One event, and B holds the lock. The others slept.");
    for film in [&mut *parent, &mut *predecessor] {
        film.release(1);
        film.wait(60 * MS);
    }
    parent.tell("The second release again wakes all who are left.");
    predecessor.tell(
        "Compare the counts at the queues. With a hundred waiters, a release in the herd \
         costs about 600,000 bytes, and one in the queue about 200.",
    );
    let [parent, predecessor] = films;
    vec![("Everybody watches the lock path", parent), ("Each watches its predecessor", predecessor)]
}

fn lost_create() -> Vec<(&'static str, Film)> {
    let mut film = Film::new(Setting { clients: &["A", "B"], ..Setting::default() }, 0);
    film.wait(MS);
    film.contend(0, LockKind::Mutex);
    // The requests arrive.
    film.wait_for_step(SECOND);
    film.inject(Fault::Cut(0, Cut::AFTER_APPLIED));
    film.until(|film| film.reached(0, "no connection"));
    film.tell(
        "A sent its create. The server applied it, but the connection is broken and the reply is \
         lost (the arrow with a cross). Look at the queue: the node is there. A does not know. \
         The servers chose the number at the end of its name; the long number in the middle, the \
         GUID, is chosen by A.",
    );
    film.ask(
        "What should A do on its next connection?",
        &[
            (
                "look for a node with its GUID",
                "Yes. A chose it, and nobody else uses it, so \
              the list shows whether the create was applied.",
            ),
            (
                "create again",
                "Then there would be two nodes of A, and the first would block \
              everybody, A as well.",
            ),
            ("give up", "The node stays until the session ends, and blocks the lock."),
        ],
    );
    film.contend(1, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.tell(
        "On its new connection, A first sent a sync, because this server may be behind. Then it \
         listed the children, and found its node by the GUID. It checked that the node belongs to \
         its session. Then it held the lock. B was never ahead.",
    );
    film.wait(20 * MS);
    film.release(0);
    film.until(|film| film.holds(1));
    film.wait(20 * MS);
    film.tell("No second node was left behind: B took over as usual.");
    one(film)
}

fn server() -> Vec<(&'static str, Film)> {
    let mut film = Film::new(Setting { clients: &["A", "B"], ..Setting::default() }, 0);
    film.wait(MS);
    film.contend(0, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.contend(1, LockKind::Mutex);
    film.wait(50 * MS);
    film.tell("A holds the lock, and B waits. Now the server that A is connected to dies.");
    film.ask(
        "Does A lose the lock?",
        &[
            (
                "not yet: its session lives",
                "Yes. The session belongs to the ensemble, and two of \
              three servers are alive.",
            ),
            ("yes, at once", "The node belongs to the session, not to the connection."),
            ("only if that server was the leader", "A new leader knows all sessions as well."),
        ],
    );
    let server = film.server_of(0);
    film.inject(Fault::Kill(server, 20 * SECOND));
    film.wait(5 * MS);
    film.tell(
        "A has no connection. Until its lease ends, nobody else can get the lock; A waits for a \
         new connection.",
    );
    film.until(|film| film.holds(0));
    film.tell(
        "A connected to another server with the same session and its last zxid. It asked for its \
         node. The node was there, so the lock was held all the time.",
    );
    film.wait(50 * MS);
    film.release(0);
    film.until(|film| film.holds(1));
    film.wait(30 * MS);
    film.tell("B takes over. Two servers of three are enough.");
    one(film)
}

fn lease() -> Vec<(&'static str, Film)> {
    let mut film = Film::new(Setting { clients: &["A", "B"], ..Setting::default() }, 0);
    film.wait(MS);
    film.contend(0, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.contend(1, LockKind::Mutex);
    film.wait(50 * MS);
    film.tell(
        "A holds the lock, and B waits. Now nothing that A sends arrives any more, and nothing \
         reaches A. Watch its lease. (Pings, which keep a session alive, are not drawn.)",
    );
    film.ask(
        "Who will notice first that A's lock is over?",
        &[
            (
                "A itself",
                "Yes. It counts from the moment when it sent its last answered request. \
              The servers count from when that arrived, which is later.",
            ),
            ("the servers", "They heard of A later than A sent, so their clock ends later."),
            ("B", "B only learns of it from the servers, when the node is deleted."),
        ],
    );
    film.inject(Fault::Isolate(0, 20 * SECOND));
    film.until(|film| !film.contends(0));
    film.tell(
        "A heard nothing for two thirds of its session timeout of 4 s, and dropped the connection. \
         Its lease ended 3.8 s after it sent its last answered request: the timeout less a safety \
         margin of 5 %. A has stopped relying on the lock. The servers still have A's node, and B \
         waits.",
    );
    film.until(|film| film.holds(1));
    film.tell(
        "Now the session has expired. The servers count coarsely: they expire sessions only every \
         2 s, so this one lived for almost 6 s. They deleted A's node, and B holds the lock with a \
         greater token. Between A's end and B's start, nobody held it. This gap is what makes the \
         lock safe.",
    );
    film.wait(30 * MS);
    one(film)
}

fn pause() -> Vec<(&'static str, Film)> {
    let setting = Setting { clients: &["A", "B"], storage: Some(true), ..Setting::default() };
    let mut film = Film::new(setting, 0);
    film.wait(MS);
    film.contend(0, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.write(0);
    film.contend(1, LockKind::Mutex);
    film.wait(50 * MS);
    film.tell(
        "A holds the lock, and writes to a storage with its token. It checks once more that it \
         holds the lock, and is about to write again. At this moment the process stops: a garbage \
         collection, or a full memory.",
    );
    film.inject(Fault::Pause(0, 12 * SECOND));
    film.until(|film| film.holds(1));
    film.tell(
        "A sent no ping, so its session has expired. B holds the lock now. A knows nothing of it: \
         it does not run.",
    );
    film.write(1);
    film.wait(10 * MS);
    film.tell("B has written with its token, and the storage remembers it. Now A runs again.");
    film.ask(
        "A continues with its write. What protects the storage?",
        &[
            (
                "it compares the tokens",
                "Yes. It keeps the greatest one that it has seen, and A's is smaller.",
            ),
            ("A's timer", "A continues where it stopped, before any timer of its own can run."),
            (
                "the session, which has expired",
                "The storage is no part of ZooKeeper, and does not \
              know of sessions.",
            ),
        ],
    );
    film.until_runs(0);
    film.write(0);
    film.tell("The late write carried the old token, and the storage refused it.");
    film.until(|film| !film.contends(0));
    film.wait(30 * MS);
    film.tell(
        "Only now A learns that its session is over. Without the token, it would have written over \
         B's data. See it in [free play with no fencing](#try/5/2/0/0).",
    );
    one(film)
}

fn readers() -> Vec<(&'static str, Film)> {
    let clients = &["reader A", "reader B", "writer C", "reader D"];
    let mut film = Film::new(Setting { clients, servers: 1, ..Setting::default() }, 0);
    film.wait(MS);
    for reader in [0, 1] {
        film.contend(reader, LockKind::Read);
        film.until(|film| film.holds(reader));
        film.wait(10 * MS);
    }
    film.tell("Two readers hold the lock together. A reader waits only for writers ahead of it.");
    film.contend(2, LockKind::Write);
    film.wait(30 * MS);
    film.contend(3, LockKind::Read);
    film.wait(30 * MS);
    film.tell(
        "The writer needs everybody ahead to leave; it watches only the nearest. Reader D came \
         later. It watches the writer, so that the writer gets its turn. (__WRIT__ and __READ__ \
         are the names on the wire.)",
    );
    film.ask(
        "B, the newer reader, releases first. What does the writer do?",
        &[
            ("it waits behind A", "Yes. It lists again, and finds A still ahead."),
            ("it writes", "A still reads, and would see half of the change."),
            ("nothing, it gets no event", "It watched the node of B, which is deleted."),
        ],
    );
    film.release(1);
    film.wait(30 * MS);
    film.tell("The event woke the writer, which listed again. Now it watches A.");
    film.release(0);
    film.until(|film| film.holds(2));
    film.wait(20 * MS);
    film.tell("All readers ahead are gone: the writer holds the lock alone.");
    film.release(2);
    film.until(|film| film.holds(3));
    film.wait(20 * MS);
    film.tell("The writer has released, and reader D holds the lock.");
    one(film)
}

fn semaphore() -> Vec<(&'static str, Film)> {
    let clients = &["A", "B", "C", "D"];
    let mut film = Film::new(Setting { clients, servers: 1, ..Setting::default() }, 0);
    let kind = |count| LockKind::Permits { count, of: 3 };
    // The first to come creates the parent nodes.
    film.contend(0, kind(1));
    film.until(|film| film.holds(0));
    film.release(0);
    film.wait(50 * MS);
    film.begin("A semaphore with three permits. All are free.");
    film.contend(0, kind(2));
    film.until(|film| film.holds(0));
    film.tell(
        "A wanted two permits, and has them: two permit nodes, below /lock/leases. A client gets \
         all its permits at once or none. An inner lock, below /lock/locks, lets one client at a \
         time acquire permits; A needs it for a moment only.",
    );
    film.contend(1, kind(1));
    film.until(|film| film.holds(1));
    film.wait(20 * MS);
    film.tell("B has the third permit.");
    film.contend(2, kind(2));
    film.wait(40 * MS);
    film.contend(3, kind(1));
    film.wait(40 * MS);
    film.tell(
        "C wants two. It has created its permit nodes, but now there are five nodes for three \
         permits. A client gets all its permits at once or none; C keeps the inner lock while it \
         waits. D wants one, and waits for the inner lock.",
    );
    film.ask(
        "B releases one permit. Who gets it?",
        &[
            (
                "nobody yet",
                "Yes. C needs two, and D waits for the inner lock. If D could overtake, C \
                 could wait for ever.",
            ),
            (
                "D, which needs only one",
                "Then a stream of small requests could keep C out for \
              ever.",
            ),
            (
                "C, which takes one and waits",
                "Two such clients could each hold half and wait for \
              the other.",
            ),
        ],
    );
    film.release(1);
    film.wait(60 * MS);
    film.tell("One permit is free, and C still waits, first in line.");
    film.release(0);
    film.until(|film| film.holds(2) && film.holds(3));
    film.wait(30 * MS);
    film.tell("With A's two permits there are three: C takes two, and D the last.");
    one(film)
}

fn renewal() -> Vec<(&'static str, Film)> {
    let setting = Setting { clients: &["A", "B"], renew: true, ..Setting::default() };
    let mut film = Film::new(setting, 0);
    film.wait(MS);
    film.contend(0, LockKind::Mutex);
    film.until(|film| film.holds(0));
    film.contend(1, LockKind::Mutex);
    film.wait(50 * MS);
    film.tell("A holds the lock, and B waits. Then the servers expire B's session.");
    film.ask(
        "Where is B in the queue after that?",
        &[
            ("nowhere, until it creates a new node", "Yes. The node was deleted with the session."),
            ("still second", "Ephemeral nodes die with their session."),
            ("first", "A still holds the lock."),
        ],
    );
    film.inject(Fault::Expire(1));
    film.until(|film| film.reached(1, "renewing"));
    film.tell(
        "B learned that its session has expired. This client renews: it opens a new session \
         itself, and its waiter queues again. (B sent REMOVE_WATCHES before its connection broke; \
         an arrow is drawn when its message arrives.)",
    );
    film.until(|film| film.waits(1));
    film.wait(30 * MS);
    film.tell(
        "B is in the queue with a new session and a new node. The application noticed nothing: \
         acquire still waits. A lock that was held is not restored: it is lost, and its holder \
         learns that.",
    );
    film.release(0);
    film.until(|film| film.holds(1));
    film.wait(30 * MS);
    film.tell("A has released, and B holds the lock, with the token of its new node.");
    one(film)
}
