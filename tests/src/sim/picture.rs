//! Draws a recorded run as SVG: time to the right, one row for each server, session and contender.
//!
//! | row | shows |
//! |---|---|
//! | a server | when it is dead, partitioned or held back |
//! | a client | the state of its session, and the faults that hit it |
//! | a client, below a lock | when it waits, holds the lock, or does not know whether it does |
//!
//! An arrow leads from the contender whose node was deleted to the one whose watch fired. A red
//! line is a violation. The picture depends on the run alone, so one seed has one picture.

use alloc::collections::BTreeMap;
use core::fmt::Write;
use core::time::Duration;

use zk_recipes::machine::Event as LockEvent;
use zk_session::State;

use super::{AttemptId, ClientEvent, Fault, LockKind, Moment, Sim, What};

/// What of a run to draw.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The start of the picture.
    pub from: Duration,
    /// The end of the picture. By default, the last fault or the last event of a lock.
    pub to: Option<Duration>,
    /// Draws only this lock.
    pub lock: Option<String>,
}

/// Returns the paths of the locks in a [recorded](super::Options::record) run.
pub fn locks(sim: &Sim) -> Vec<String> {
    Chart::new(sim).locks.into_keys().collect()
}

/// Draws a [recorded](super::Options::record) run.
pub fn svg(sim: &Sim, view: &View) -> String {
    let chart = Chart::new(sim);
    let to = view.to.unwrap_or(chart.busy_until).max(view.from + Duration::from_millis(10));
    chart.draw(&Window { from: view.from, to }, view.lock.as_deref())
}

const LABEL: f64 = 118.0;
const ROW: f64 = 18.0;
const HEADER: f64 = 58.0;
/// The least and the greatest width of the time axis.
const WIDTH: (f64, f64) = (800.0, 6_000.0);
const PER_SECOND: f64 = 140.0;

const STYLE: &str = "\
text{font:11px sans-serif;fill:#222}.t{font-weight:bold}.n{font-size:9px;fill:#555}\
.g{stroke:#ddd}.r{stroke:#eee}.w{fill:#f3d27a}.h{fill:#2e8b57}.s{fill:#9b6fc3}.e{fill:#d9d9d9}\
.c{fill:#bcd9f5}.o{fill:#7fb8a4}.u{fill:#fff;stroke:#9b6fc3;stroke-dasharray:3 2}\
.d{fill:#c0504d}.p{fill:#e59f9d}.l{fill:#e5cf9d}.f{stroke:#c0504d;stroke-width:1.5}\
.k{stroke:#1f5fa8;fill:none}.v{stroke:#d00;stroke-width:2}.vt{fill:#d00}";

/// The meaning of each colour.
const LEGEND: [(&str, &str); 11] = [
    ("e", "enters or leaves"),
    ("w", "waits"),
    ("h", "holds"),
    ("s", "held, but unsure"),
    ("c", "connected"),
    ("o", "read-only"),
    ("u", "suspended"),
    ("d", "dead, crashed"),
    ("p", "partitioned, paused"),
    ("l", "held back, delayed"),
    ("f", "fault"),
];

/// A bar of a row.
#[derive(Clone, Debug)]
struct Bar {
    from: Duration,
    to: Duration,
    class: &'static str,
    title: String,
}

#[derive(Debug)]
struct Attempt {
    lock: String,
    kind: LockKind,
    since: Duration,
    class: &'static str,
}

/// A watch that fired: the client that it woke, and the owner of the node.
#[derive(Debug)]
struct Wake {
    at: Duration,
    lock: String,
    woken: usize,
    owner: Option<usize>,
    path: String,
}

/// A fault that has no duration, and hits a client or a server.
#[derive(Debug)]
struct Mark {
    at: Duration,
    name: &'static str,
    title: String,
}

#[derive(Debug, Default)]
struct Chart {
    seed: u64,
    busy_until: Duration,
    servers: Vec<Vec<Bar>>,
    server_marks: Vec<Vec<Mark>>,
    sessions: Vec<Vec<Bar>>,
    marks: Vec<Vec<Mark>>,
    /// The bars of each client at each lock.
    locks: BTreeMap<String, BTreeMap<usize, Vec<Bar>>>,
    wakes: Vec<Wake>,
    violations: Vec<(Duration, String)>,
    acquisitions: u64,
    // ---- While the moments are read ------------------------------------------------------------
    attempts: BTreeMap<(usize, AttemptId), Attempt>,
    states: BTreeMap<usize, (Duration, &'static str, String)>,
    /// The client of each lock node.
    owners: BTreeMap<String, usize>,
}

impl Chart {
    fn new(sim: &Sim) -> Self {
        let mut chart = Self {
            seed: sim.options.seed,
            servers: vec![Vec::new(); sim.options.servers],
            sessions: vec![Vec::new(); sim.options.clients],
            acquisitions: sim.report().acquisitions,
            ..Self::default()
        };
        chart.server_marks.resize_with(sim.options.servers, Vec::new);
        chart.marks.resize_with(sim.options.clients, Vec::new);
        for moment in sim.moments() {
            chart.add(moment);
        }
        let open: Vec<_> = chart.attempts.keys().copied().collect();
        open.into_iter().for_each(|key| chart.turn(sim.now(), key, None));
        for client in 0..sim.options.clients {
            chart.change_state(sim.now(), client, None);
        }
        chart
    }

    fn add(&mut self, Moment { at, what }: &Moment) {
        let at = *at;
        match what {
            What::Begun(client) => {
                self.change_state(at, *client, Some(("u", "connecting".to_owned())));
            }
            What::Client(client, event) => self.event(at, *client, event),
            What::Gone(client) => {
                let of = |(other, _): &&(usize, AttemptId)| other == client;
                let open: Vec<_> = self.attempts.keys().filter(of).copied().collect();
                open.into_iter().for_each(|key| self.turn(at, key, None));
                self.change_state(at, *client, None);
            }
            What::Fault(fault) => self.fault(at, fault),
            What::Healed => {
                // A fault that would last longer ends here.
                let rows = self.servers.iter_mut().chain(&mut self.sessions);
                for bar in rows.flatten().filter(|bar| matches!(bar.class, "d" | "p" | "l")) {
                    bar.to = bar.to.min(at);
                }
                self.busy_until = self.busy_until.max(at);
            }
            What::Sent { .. } | What::Arrived(..) => {}
            What::Violation(violation) => {
                self.violations.push((at, violation.clone()));
                self.busy_until = self.busy_until.max(at + Duration::from_millis(200));
            }
        }
    }

    fn fault(&mut self, at: Duration, fault: &Fault) {
        self.busy_until = self.busy_until.max(at);
        let title = format!("{fault:?}");
        let (row, marks, class, time) = match fault {
            Fault::Kill(server, time) => (&mut self.servers, *server, "d", *time),
            Fault::Partition(server, time) => (&mut self.servers, *server, "p", *time),
            Fault::Hold(server, time) => (&mut self.servers, *server, "l", *time),
            Fault::Pause(client, time) => (&mut self.sessions, *client, "p", *time),
            Fault::Crash(client, time) => (&mut self.sessions, *client, "d", *time),
            Fault::Isolate(client, time)
            | Fault::Stall(client, _, time)
            | Fault::Slow(client, _, time) => (&mut self.sessions, *client, "l", *time),
            Fault::Step(server) => {
                return self.server_marks[*server].push(Mark { at, name: fault.name(), title });
            }
            // They concern no single server.
            Fault::Outage(..) | Fault::Forbid(..) | Fault::Clean(_) | Fault::Contend(..) => {
                for marks in &mut self.server_marks {
                    marks.push(Mark { at, name: fault.name(), title: title.clone() });
                }
                return;
            }
            Fault::Cut(client, _) | Fault::Swallow(client) | Fault::Expire(client) => {
                return self.marks[*client].push(Mark { at, name: fault.name(), title });
            }
        };
        row[marks].push(Bar { from: at, to: at + time, class, title: title.clone() });
        let is_client = !matches!(fault, Fault::Kill(..) | Fault::Partition(..) | Fault::Hold(..));
        if is_client {
            self.marks[marks].push(Mark { at, name: fault.name(), title });
        }
    }

    fn event(&mut self, at: Duration, client: usize, event: &ClientEvent) {
        match event {
            ClientEvent::State(state) => {
                let (class, text) = match state {
                    State::Connected { server, .. } => ("c", format!("{server}")),
                    State::ReadOnly { server, .. } => ("o", format!("{server}")),
                    State::Ended(end) => {
                        self.change_state(at, client, None);
                        let title = format!("the session has ended: {end:?}");
                        return self.marks[client].push(Mark { at, name: "end", title });
                    }
                    state => ("u", format!("{state:?}")),
                };
                self.change_state(at, client, Some((class, text)));
            }
            ClientEvent::AttemptStarted(id, lock, kind) => {
                self.locks.entry(lock.clone()).or_default().entry(client).or_default();
                let attempt = Attempt { lock: lock.clone(), kind: *kind, since: at, class: "e" };
                self.attempts.insert((client, *id), attempt);
            }
            ClientEvent::Lock(id, event) => self.lock_event(at, (client, *id), event),
            ClientEvent::Woken(id, path) => {
                let Some(attempt) = self.attempts.get(&(client, *id)) else { return };
                let owner = self.owners.get(path).copied();
                // A client that deletes its own node needs no mark.
                if owner == Some(client) && attempt.class == "e" {
                    return;
                }
                let (lock, path) = (attempt.lock.clone(), path.clone());
                self.wakes.push(Wake { at, lock, woken: client, owner, path });
            }
            ClientEvent::Released(id) => self.turn(at, (client, *id), Some("e")),
            ClientEvent::AttemptFinished(id) => self.turn(at, (client, *id), None),
            _ => return,
        }
        if !matches!(event, ClientEvent::State(_)) {
            self.busy_until = self.busy_until.max(at);
        }
    }

    fn lock_event(&mut self, at: Duration, key: (usize, AttemptId), event: &LockEvent) {
        match event {
            LockEvent::Enqueued { node, .. } | LockEvent::Acquired { node, .. } => {
                if let Some(attempt) = self.attempts.get(&key) {
                    let parents: &[&str] = match attempt.kind {
                        LockKind::Permits { .. } => &["/locks", "/leases"],
                        _ => &[""],
                    };
                    for parent in parents {
                        self.owners.insert(format!("{}{parent}/{node}", attempt.lock), key.0);
                    }
                }
            }
            _ => {}
        }
        match event {
            LockEvent::Enqueued { .. } | LockEvent::Waiting { .. } => self.turn(at, key, Some("w")),
            LockEvent::Acquired { .. } | LockEvent::Resumed => self.turn(at, key, Some("h")),
            LockEvent::Suspended => self.turn(at, key, Some("s")),
            LockEvent::Lost(_) | LockEvent::Failed(_) | LockEvent::Refused(_) => {
                self.turn(at, key, Some("e"));
            }
            LockEvent::Released => self.turn(at, key, None),
            _ => {}
        }
    }

    /// Ends the bar of an attempt, and begins another one with this class.
    fn turn(&mut self, at: Duration, key: (usize, AttemptId), class: Option<&'static str>) {
        let Some(attempt) = self.attempts.get_mut(&key) else { return };
        if class == Some(attempt.class) {
            return;
        }
        let bar = Bar {
            from: attempt.since,
            to: at,
            class: attempt.class,
            title: format!("client {}, attempt {}: {:?}", key.0, key.1, attempt.kind),
        };
        let rows = self.locks.entry(attempt.lock.clone()).or_default();
        rows.entry(key.0).or_default().push(bar);
        match class {
            Some(class) => (attempt.since, attempt.class) = (at, class),
            None => drop(self.attempts.remove(&key)),
        }
    }

    fn change_state(&mut self, at: Duration, client: usize, to: Option<(&'static str, String)>) {
        let state = to.map(|(class, text)| (at, class, text));
        let before = match state {
            Some(state) => self.states.insert(client, state),
            None => self.states.remove(&client),
        };
        if let Some((from, class, text)) = before {
            self.sessions[client].push(Bar { from, to: at, class, title: text });
        }
    }
}

/// The part of the time that is drawn.
struct Window {
    from: Duration,
    to: Duration,
}

impl Window {
    fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }

    fn scale(&self) -> f64 {
        (self.seconds() * PER_SECOND).clamp(WIDTH.0, WIDTH.1) / self.seconds()
    }

    /// Returns the position of a time, within the bounds of the window.
    fn x(&self, at: Duration) -> f64 {
        let at = at.clamp(self.from, self.to) - self.from;
        LABEL + at.as_secs_f64() * self.scale()
    }

    fn contains(&self, at: Duration) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// An SVG that grows downwards.
struct Page<'a> {
    body: String,
    window: &'a Window,
    y: f64,
}

impl Page<'_> {
    fn add(&mut self, element: core::fmt::Arguments<'_>) {
        // Writing to a `String` does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    fn title(&mut self, text: &str) {
        self.y += ROW * 0.6;
        let y = self.y + 13.0;
        self.add(format_args!("<text class=\"t\" x=\"4\" y=\"{y:.1}\">{}</text>", escape(text)));
        self.y += ROW;
    }

    /// Draws a row, and returns the position of its middle.
    fn row(&mut self, label: &str, bars: &[Bar]) -> f64 {
        let y = self.y;
        let end = self.window.x(self.window.to);
        let line = y + ROW;
        self.add(format_args!("<text x=\"12\" y=\"{:.1}\">{label}</text>", y + 13.0));
        self.add(format_args!("<path class=\"r\" d=\"M{LABEL:.1} {line:.1}H{end:.1}\"/>"));
        for bar in bars {
            if bar.to < self.window.from || bar.from > self.window.to {
                continue;
            }
            let (x, end) = (self.window.x(bar.from), self.window.x(bar.to));
            // Faults are drawn above the state that they change.
            let (top, height) =
                if matches!(bar.class, "d" | "p" | "l") { (2.0, 5.0) } else { (4.0, 11.0) };
            let title = escape(&bar.title);
            let (top, width) = (y + top, (end - x).max(1.0));
            self.add(format_args!(
                "<rect class=\"{}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height}\"><title>{title}</title></rect>",
                bar.class
            ));
            if matches!(bar.class, "c" | "o") && width > 60.0 {
                let (x, y) = (x + 4.0, y + 13.0);
                self.add(format_args!(
                    "<text class=\"n\" x=\"{x:.1}\" y=\"{y:.1}\">server {title}</text>"
                ));
            }
        }
        self.y += ROW;
        y + ROW / 2.0
    }

    fn marks(&mut self, middle: f64, marks: &[Mark]) {
        for mark in marks.iter().filter(|mark| self.window.contains(mark.at)) {
            let (x, top, text) =
                (self.window.x(mark.at), middle - 8.0, self.window.x(mark.at) + 3.0);
            let (name, title, low) = (mark.name, escape(&mark.title), middle + 4.0);
            self.add(format_args!(
                "<g><title>{title}</title><path class=\"f\" d=\"M{x:.1} {top:.1}v16\"/>\
                 <text class=\"n\" x=\"{text:.1}\" y=\"{low:.1}\">{name}</text></g>"
            ));
        }
    }
}

impl Chart {
    fn draw(&self, window: &Window, only: Option<&str>) -> String {
        let mut page = Page { body: String::new(), window, y: HEADER };
        page.title("servers");
        for (server, (bars, marks)) in self.servers.iter().zip(&self.server_marks).enumerate() {
            let middle = page.row(&format!("server {server}"), bars);
            page.marks(middle, marks);
        }
        page.title("sessions");
        for (client, (bars, marks)) in self.sessions.iter().zip(&self.marks).enumerate() {
            let mut bars = bars.clone();
            bars.sort_by_key(|bar| matches!(bar.class, "d" | "p" | "l"));
            let middle = page.row(&format!("client {client}"), &bars);
            page.marks(middle, marks);
        }
        for (lock, rows) in self.locks.iter().filter(|(lock, _)| only.is_none_or(|it| it == *lock))
        {
            page.title(lock);
            let mut middles = BTreeMap::new();
            for (client, bars) in rows {
                let middle = page.row(&format!("client {client}"), bars);
                middles.insert(*client, middle);
            }
            let wakes = self.wakes.iter().filter(|wake| wake.lock == *lock);
            for wake in wakes.filter(|wake| window.contains(wake.at)) {
                let Some(to) = middles.get(&wake.woken) else { continue };
                let from = wake.owner.and_then(|owner| middles.get(&owner)).unwrap_or(to);
                // An event about a node of the client itself, or of an unknown one, is a dot.
                let (x, y, title) = (window.x(wake.at), *to, escape(&wake.path));
                if from == to {
                    page.add(format_args!(
                        "<circle class=\"k\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\"><title>event: {title}</title></circle>"
                    ));
                } else {
                    page.add(format_args!(
                        "<path class=\"k\" marker-end=\"url(#a)\" d=\"M{x:.1} {from:.1}V{y:.1}\"><title>event: {title}</title></path>"
                    ));
                }
            }
        }
        self.finish(page, window)
    }

    /// Adds the axis, the legend and the violations.
    fn finish(&self, mut page: Page<'_>, window: &Window) -> String {
        let bottom = page.y + 4.0;
        let mut axis = String::new();
        // At most a dozen labels in the narrowest picture.
        let step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
            .into_iter()
            .find(|step| step * window.scale() >= 60.0)
            .unwrap_or(100.0);
        let first = (window.from.as_secs_f64() / step).ceil() as u64;
        for tick in first.. {
            let at = Duration::from_secs_f64(tick as f64 * step);
            if at > window.to {
                break;
            }
            let (x, top, label) = (window.x(at), HEADER - 4.0, tick as f64 * step);
            let digits = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
            let _ = writeln!(
                axis,
                "<path class=\"g\" d=\"M{x:.1} {HEADER}V{bottom:.1}\"/>\
                 <text class=\"n\" x=\"{x:.1}\" y=\"{top}\" text-anchor=\"middle\">{label:.digits$} s</text>"
            );
        }
        page.y += 10.0;
        for (at, violation) in &self.violations {
            page.y += ROW;
            let (y, text) = (page.y, escape(violation));
            page.add(format_args!(
                "<text class=\"vt\" x=\"4\" y=\"{y:.1}\">{:.3} s: {text}</text>",
                at.as_secs_f64()
            ));
            if window.contains(*at) {
                let x = window.x(*at);
                page.add(format_args!("<path class=\"v\" d=\"M{x:.1} {HEADER}V{bottom:.1}\"/>"));
            }
        }
        let mut legend = String::new();
        for (index, (class, text)) in LEGEND.iter().enumerate() {
            let x = 4.0 + index as f64 * 106.0;
            let mark = match *class {
                "f" => format!("<path class=\"f\" d=\"M{:.1} 26v12\"/>", x + 6.0),
                class => format!(
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"27\" width=\"12\" height=\"10\"/>"
                ),
            };
            let _ = writeln!(
                legend,
                "{mark}<text class=\"n\" x=\"{:.1}\" y=\"36\">{text}</text>",
                x + 15.0
            );
        }
        let width = (window.x(window.to) + 20.0).max(1_190.0);
        let (height, body, seed) = (page.y + 14.0, page.body, self.seed);
        let (acquisitions, violations) = (self.acquisitions, self.violations.len());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>{STYLE}</style>\n\
             <defs><marker id=\"a\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" \
             markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#1f5fa8\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text class=\"t\" x=\"4\" y=\"16\">seed {seed}: {acquisitions} acquisitions, \
             {violations} violations. An arrow is a watch event: from the deleted node to the client that it wakes.</text>\n\
             {legend}{axis}{body}</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
