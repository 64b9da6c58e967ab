//! Sequence diagrams, as text and as SVG.
//!
//! A [`Diagram`] has lanes from left to right, and rows from top to bottom. Each row is a message
//! from one lane to another, or a note on a lane. Between rows, a lane shows what it does: it is
//! [waiting](Activity::Waiting), [holding](Activity::Holding), or [down](Activity::Down).
//!
//! [`Display`](fmt::Display) renders text, [`Diagram::to_svg`] an image that is readable in light
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

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
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

    fn write_svg(&self, out: &mut String) -> fmt::Result {
        let (columns, width) = self.columns();
        let rows = self.rows();
        let (width, height) = ((width + 2) * CHARACTER, HEAD + (rows.len() + 1) * ROW);
        let title = escaped(&self.title);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{title}</title>\n{STYLE}\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
             <text class=\"title\" x=\"{CHARACTER}\" y=\"22\">{title}</text>"
        )?;
        for (lane, (name, column)) in self.lanes.iter().zip(&columns).enumerate() {
            let (x, half) = (column * CHARACTER, (length(name) + 2) * CHARACTER / 2);
            let (left, wide) = (x - half, 2 * half);
            writeln!(
                out,
                "<rect class=\"lane\" x=\"{left}\" y=\"34\" width=\"{wide}\" height=\"24\" rx=\"4\"/>\
                 <text class=\"name\" x=\"{x}\" y=\"50\">{}</text>",
                escaped(name)
            )?;
            // One line for each run of rows in which the lane does the same.
            let mut row = 0;
            while let Some((_, activities)) = rows.get(row) {
                let activity = activities[lane];
                let same = rows[row..].iter().take_while(|(_, other)| other[lane] == activity);
                let end = row + same.count();
                let class = match activity {
                    Activity::Absent => None,
                    Activity::Idle => Some("idle"),
                    Activity::Waiting => Some("waiting"),
                    Activity::Holding => Some("holding"),
                    Activity::Down => Some("down"),
                };
                if let Some(class) = class {
                    let top = if row == 0 { HEAD - 14 } else { HEAD + row * ROW };
                    let bottom = HEAD + end * ROW;
                    writeln!(
                        out,
                        "<line class=\"{class}\" x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\"/>"
                    )?;
                }
                row = end;
            }
        }
        for (number, (row, _)) in rows.iter().enumerate() {
            let y = HEAD + number * ROW + ROW / 2;
            let base = y + 4;
            if let Some(time) = row.time {
                let x = TIME_WIDTH * CHARACTER;
                writeln!(
                    out,
                    "<text class=\"time\" x=\"{x}\" y=\"{base}\">{}</text>",
                    clock(time)
                )?;
            }
            let class = match row.style {
                Style::Plain => "plain",
                Style::Reply => "reply",
                Style::Event => "event",
                Style::Error => "error",
                Style::Lost => "lost",
            };
            let (left, right, leftwards) = self.ends(row);
            let Some((left, right)) = columns.get(left).zip(columns.get(right)) else { continue };
            let (left, right) = (left * CHARACTER, right * CHARACTER);
            let label = self.label(row);
            let mut tip = String::new();
            if row.text.chars().count() > self.label_limit {
                tip = ["<title>", &escaped(&row.text), "</title>"].concat();
            }
            let label = escaped(&label) + &tip;
            if left == right {
                let x = left + CHARACTER + 4;
                writeln!(
                    out,
                    "<text class=\"note {class}\" x=\"{x}\" y=\"{base}\">{label}</text>"
                )?;
                continue;
            }
            let (start, end) = if leftwards { (right, left) } else { (left, right) };
            // A message that is lost ends halfway, at a cross.
            let is_lost = row.style == Style::Lost;
            let end = if is_lost { usize::midpoint(start, end) } else { end };
            let y = y + 7;
            let head = match (is_lost, leftwards) {
                (true, _) => {
                    let (x1, x2, y1, y2) = (end - 5, end + 5, y - 5, y + 5);
                    alloc::format!("M{x1} {y1}L{x2} {y2}M{x1} {y2}L{x2} {y1}")
                }
                (false, true) => {
                    alloc::format!("M{} {}L{end} {y}L{} {}", end + 7, y - 4, end + 7, y + 4)
                }
                (false, false) => {
                    alloc::format!("M{} {}L{end} {y}L{} {}", end - 7, y - 4, end - 7, y + 4)
                }
            };
            let (x, base) = (usize::midpoint(left, right), base - 2);
            writeln!(
                out,
                "<path class=\"arrow {class}\" d=\"M{start} {y}L{end} {y}\"/>\
                 <path class=\"head {class}\" d=\"{head}\"/>\
                 <text class=\"over {class}\" x=\"{x}\" y=\"{base}\">{label}</text>"
            )?;
        }
        out.write_str("</svg>\n")
    }
}

/// Renders the diagram as text, in box-drawing characters. No line ends in blanks.
impl fmt::Display for Diagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, width) = self.columns();
        if !self.title.is_empty() {
            writeln!(f, "{}\n", self.title)?;
        }
        let mut names = alloc::vec![' '; width + 1];
        for (name, column) in self.lanes.iter().zip(&columns) {
            write_at(&mut names, column - length(name) / 2, name);
        }
        write_line(f, &names)?;
        for (row, activities) in self.rows() {
            let mut line = alloc::vec![' '; width + 1];
            if let Some(time) = row.time {
                let time = clock(time);
                write_at(&mut line, TIME_WIDTH.saturating_sub(length(&time)), &time);
            }
            for (column, activity) in columns.iter().zip(activities) {
                line[*column] = match activity {
                    Activity::Absent => ' ',
                    Activity::Idle => '│',
                    Activity::Waiting => '┊',
                    Activity::Holding => '█',
                    Activity::Down => '✗',
                };
            }
            let (left, right, leftwards) = self.ends(row);
            if let Some((&left, &right)) = columns.get(left).zip(columns.get(right)) {
                let label = self.label(row);
                if left == right {
                    write_at(&mut line, left + 2, &label);
                } else {
                    let stroke = match row.style {
                        Style::Plain => '─',
                        Style::Event => '═',
                        Style::Reply | Style::Error | Style::Lost => '╌',
                    };
                    line[left + 1..right].fill(stroke);
                    let head = match (row.style, leftwards) {
                        (Style::Lost, _) => '✗',
                        (_, true) => '◀',
                        (_, false) => '▶',
                    };
                    line[if leftwards { left + 1 } else { right - 1 }] = head;
                    let spare = right - left - 1 - length(&label);
                    write_at(&mut line, left + 1 + spare / 2, &label);
                }
            }
            write_line(f, &line)?;
        }
        Ok(())
    }
}

/// The characters for the time, on the left.
const TIME_WIDTH: usize = 12;
/// The characters that a message needs besides its label.
const MESSAGE_ROOM: usize = 6;
/// The characters that a note needs besides its label.
const NOTE_ROOM: usize = 5;

// Sizes in an SVG, in pixels.
const CHARACTER: usize = 8;
const ROW: usize = 26;
const HEAD: usize = 72;

/// Classes instead of attributes, so that one document has both colour schemes.
const STYLE: &str = "<style>\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}\
.page{fill:#fff}.title{font-weight:bold}.name,.over{text-anchor:middle}\
.time{text-anchor:end;fill:#59636e}.lane{fill:#eef1f4;stroke:#8b949e}\
line,path{fill:none;stroke:#59636e;stroke-width:1.5}\
.waiting{stroke:#9a6700;stroke-width:3;stroke-dasharray:3 4}.holding{stroke:#1a7f37;stroke-width:9}\
.down{stroke:#cf222e;stroke-width:3;stroke-dasharray:8 4}\
.arrow.reply,.arrow.error,.arrow.lost{stroke-dasharray:5 3}\
path.event{stroke:#0969da;stroke-width:2.5}text.event{fill:#0969da}\
path.error,path.lost{stroke:#cf222e}text.error,text.lost{fill:#cf222e}\
.arrow.event,.head{stroke-dasharray:none}\
@media(prefers-color-scheme:dark){\
text{fill:#e6edf3}.page{fill:#0d1117}.time{fill:#9198a1}.lane{fill:#21262d;stroke:#6e7681}\
line,path{stroke:#9198a1}.waiting{stroke:#d29922}.holding{stroke:#3fb950}.down{stroke:#f85149}\
path.event{stroke:#58a6ff}text.event{fill:#58a6ff}\
path.error,path.lost{stroke:#f85149}text.error,text.lost{fill:#f85149}}\
</style>";

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

fn write_at(line: &mut Vec<char>, column: usize, text: &str) {
    for (offset, character) in text.chars().enumerate() {
        match line.get_mut(column + offset) {
            Some(place) => *place = character,
            None => line.push(character),
        }
    }
}

fn write_line(f: &mut fmt::Formatter<'_>, line: &[char]) -> fmt::Result {
    let text: String = line.iter().collect();
    writeln!(f, "{}", text.trim_end())
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

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            _ => out.push(character),
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
