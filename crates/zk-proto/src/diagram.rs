//! Sequence diagrams, as text and as SVG.
//!
//! A [`Diagram`] has lanes from left to right, and rows from top to bottom. Each row is a message
//! from one lane to another, or a note on a lane. Between rows, a lane shows what it does: it is
//! [waiting](Activity::Waiting), [holding](Activity::Holding), or [down](Activity::Down).
//!
//! [`Display`](core::fmt::Display) renders text, [`Diagram::to_svg`] an image that is readable in light
//! and in dark mode. Both are determined by the calls alone, so a test can compare them. Rows
//! appear in the order of the calls; times are labels and are not sorted.
//!
//! ```
//! use core::time::Duration;
//! use zk_proto::diagram::{Activity, Diagram, Style};
//!
//! let mut diagram = Diagram::new("One lock, two clients");
//! let [first, second] = ["first", "second"].map(|name| diagram.lane(name));
//! let ms = |ms| Some(Duration::from_millis(ms));
//! diagram.note(ms(0), first, Style::Plain, "CREATE lock-1");
//! diagram.activity(first, Activity::Holding);
//! diagram.note(ms(3), second, Style::Plain, "CREATE lock-2");
//! diagram.activity(second, Activity::Waiting);
//! diagram.note(ms(20), first, Style::Plain, "DELETE lock-1");
//! diagram.activity(first, Activity::Idle);
//! diagram.message(ms(21), first, second, Style::Event, "NODE_DELETED");
//! diagram.activity(second, Activity::Holding);
//! diagram.note(None, second, Style::Error, "fails");
//!
//! assert_eq!(diagram.to_string(), "\
//! One lock, two clients
//!
//!                first            second
//!     0.000 ms     │ CREATE lock-1   │
//!     3.000 ms     █                 │ CREATE lock-2
//!    20.000 ms     █ DELETE lock-1   ┊
//!    21.000 ms     │══NODE_DELETED══▶┊
//!                  │                 █ ! fails
//! ");
//! assert!(diagram.to_svg().starts_with("<svg "));
//! ```

mod svg;
mod text;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// A lane of a [`Diagram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(usize);

/// The looks of a row, by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Style {
    /// A request, or something that a lane does.
    Plain,
    /// A reply.
    Reply,
    /// A watch event, or another message that nobody asked for.
    Event,
    /// A failure.
    Error,
    /// A message that does not arrive.
    Lost,
}

/// What a lane does between rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Activity {
    /// The lane has not begun, or has ended: no line.
    Absent,
    /// Nothing in particular: a thin line.
    #[default]
    Idle,
    /// Waits, for example in the queue of a lock: a dotted line.
    Waiting,
    /// Holds, for example a lock: a thick line.
    Holding,
    /// Stopped, crashed or cut off: a line of crosses.
    Down,
}

/// A sequence diagram.
///
/// It keeps every row, so a caller with endless input has to stop adding rows.
#[derive(Clone, Debug)]
pub struct Diagram {
    title: String,
    lanes: Vec<String>,
    steps: Vec<DiagramStep>,
    label_limit: usize,
}

#[derive(Clone, Debug)]
enum DiagramStep {
    Row(Row),
    Activity(Lane, Activity),
}

#[derive(Clone, Debug)]
struct Row {
    time: Option<Duration>,
    from: Lane,
    /// The receiver. A note has none.
    to: Option<Lane>,
    style: Style,
    text: String,
}

impl Diagram {
    /// Creates a diagram without lanes. A title may be empty.
    pub fn new(title: &str) -> Self {
        Self { title: printable(title), lanes: Vec::new(), steps: Vec::new(), label_limit: 56 }
    }

    /// Sets the length beyond which labels are cut, in characters. It is 56 by default.
    ///
    /// In an SVG, a label that was cut shows its whole text under the pointer.
    pub fn set_label_limit(&mut self, characters: usize) {
        self.label_limit = characters.max(1);
    }

    /// Adds a lane to the right of all others.
    pub fn lane(&mut self, name: &str) -> Lane {
        self.lanes.push(printable(name));
        Lane(self.lanes.len() - 1)
    }

    /// Adds a row: a message from one lane to another. From a lane to itself, it is a note.
    ///
    /// Lanes of another diagram are treated as the last lane of this one.
    pub fn message(
        &mut self,
        time: Option<Duration>,
        from: Lane,
        to: Lane,
        style: Style,
        text: &str,
    ) {
        let (to, text) = ((from != to).then_some(to), printable(text));
        self.steps.push(DiagramStep::Row(Row { time, from, to, style, text }));
    }

    /// Adds a row: a note on the right of a lane.
    pub fn note(&mut self, time: Option<Duration>, lane: Lane, style: Style, text: &str) {
        let text = printable(text);
        self.steps.push(DiagramStep::Row(Row { time, from: lane, to: None, style, text }));
    }

    /// Says what a lane does from the next row on. Every lane begins as [`Activity::Idle`].
    pub fn activity(&mut self, lane: Lane, activity: Activity) {
        self.steps.push(DiagramStep::Activity(lane, activity));
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, DiagramStep::Row(_)))
    }

    /// Returns each row with the activities of all lanes beside it.
    fn rows(&self) -> Vec<(&Row, Vec<Activity>)> {
        let mut current = alloc::vec![Activity::default(); self.lanes.len()];
        let mut rows = Vec::new();
        for step in &self.steps {
            match step {
                DiagramStep::Row(row) => rows.push((row, current.clone())),
                DiagramStep::Activity(lane, activity) => {
                    if let Some(place) = current.get_mut(lane.0) {
                        *place = *activity;
                    }
                }
            }
        }
        rows
    }

    /// Returns the ends of a row, the left one first, and whether it points to the left.
    fn ends(&self, row: &Row) -> (usize, usize, bool) {
        let last = self.lanes.len().saturating_sub(1);
        let from = row.from.0.min(last);
        let to = row.to.map_or(from, |to| to.0.min(last));
        let (left, right) = (from.min(to), from.max(to));
        (left, right, from != left)
    }

    fn label(&self, row: &Row) -> String {
        let mark = match (row.style, row.to) {
            (Style::Plain | Style::Reply, _) => "",
            (Style::Event, Some(_)) | (Style::Lost, Some(_)) => "",
            (Style::Event, None) => "* ",
            (Style::Error | Style::Lost, _) => "! ",
        };
        let text = row.text.as_str();
        match text.char_indices().nth(self.label_limit) {
            None => [mark, text].concat(),
            Some(_) => {
                let kept = text.chars().take(self.label_limit - 1);
                mark.chars().chain(kept).chain(['…']).collect()
            }
        }
    }

    /// Returns the column of each lane, and the width of everything, in characters.
    fn columns(&self) -> (Vec<usize>, usize) {
        let mut columns: Vec<usize> = Vec::new();
        let mut width = TIME_WIDTH;
        for (lane, name) in self.lanes.iter().enumerate() {
            let half = length(name).div_ceil(2);
            let mut column = width + 2 + half;
            for step in &self.steps {
                let DiagramStep::Row(row) = step else { continue };
                let (left, right, _) = self.ends(row);
                let label = length(&self.label(row));
                if left < right && right == lane {
                    column = column.max(columns[left] + label + MESSAGE_ROOM);
                } else if left == right && left + 1 == lane {
                    column = column.max(columns[left] + label + NOTE_ROOM);
                }
            }
            width = column + half;
            columns.push(column);
        }
        for step in &self.steps {
            let DiagramStep::Row(row) = step else { continue };
            let (left, right, _) = self.ends(row);
            if let (true, Some(column)) = (left == right, columns.get(left)) {
                width = width.max(column + length(&self.label(row)) + NOTE_ROOM);
            }
        }
        (columns, width)
    }

    /// Renders an SVG document.
    ///
    /// It has its own background, uses the system's monospace font, and needs nothing else.
    pub fn to_svg(&self) -> String {
        let mut out = String::new();
        // A string has room.
        let _ = self.write_svg(&mut out);
        out
    }
}

/// The characters for the time, on the left.
const TIME_WIDTH: usize = 12;
/// The characters that a message needs besides its label.
const MESSAGE_ROOM: usize = 6;
/// The characters that a note needs besides its label.
const NOTE_ROOM: usize = 5;

/// Returns milliseconds with three digits, or seconds from the hundredth on.
fn clock(time: Duration) -> String {
    match time.as_secs() {
        0..100 => alloc::format!("{}.{:03} ms", time.as_millis(), time.subsec_micros() % 1000),
        seconds => alloc::format!("{seconds}.{:03} s", time.subsec_millis()),
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Escapes characters that are not visible, or that change the direction of others.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out.extend(character.escape_unicode());
            }
            character if character.is_control() => out.extend(character.escape_default()),
            character => out.push(character),
        }
    }
    out
}

formatted_by_debug! {
    [] Activity;
    [] Diagram;
    [] Lane;
    [] Style;
}

#[cfg(test)]
mod tests;
