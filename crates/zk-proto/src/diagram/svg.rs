//! Renders a diagram as SVG.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use super::{Activity, Diagram, Row, Style, TIME_WIDTH, clock, length};

// Sizes in an SVG, in pixels.
const CHARACTER: usize = 8;
const ROW: usize = 26;
const HEAD: usize = 72;

impl Diagram {
    pub(super) fn write_svg(&self, out: &mut String) -> fmt::Result {
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
            let activities: Vec<_> = rows.iter().map(|(_, activities)| activities[lane]).collect();
            write_lane(out, name, column * CHARACTER, &activities)?;
        }
        for (number, (row, _)) in rows.iter().enumerate() {
            self.write_row(out, row, &columns, HEAD + number * ROW + ROW / 2)?;
        }
        out.write_str("</svg>\n")
    }

    fn write_row(&self, out: &mut String, row: &Row, columns: &[usize], y: usize) -> fmt::Result {
        let base = y + 4;
        if let Some(time) = row.time {
            let (x, time) = (TIME_WIDTH * CHARACTER, clock(time));
            writeln!(out, "<text class=\"time\" x=\"{x}\" y=\"{base}\">{time}</text>")?;
        }
        let class = match row.style {
            Style::Plain => "plain",
            Style::Reply => "reply",
            Style::Event => "event",
            Style::Error => "error",
            Style::Lost => "lost",
        };
        let (left, right, leftwards) = self.ends(row);
        let Some((left, right)) = columns.get(left).zip(columns.get(right)) else { return Ok(()) };
        let (left, right) = (left * CHARACTER, right * CHARACTER);
        let mut label = escaped(&self.label(row));
        if row.text.chars().count() > self.label_limit {
            label += &["<title>", &escaped(&row.text), "</title>"].concat();
        }
        if left == right {
            let x = left + CHARACTER + 4;
            return writeln!(
                out,
                "<text class=\"note {class}\" x=\"{x}\" y=\"{base}\">{label}</text>"
            );
        }
        let (start, end) = if leftwards { (right, left) } else { (left, right) };
        // A message that is lost ends halfway, at a cross.
        let is_lost = row.style == Style::Lost;
        let end = if is_lost { usize::midpoint(start, end) } else { end };
        let head = head(end, y + 7, is_lost, leftwards);
        let (x, y, base) = (usize::midpoint(left, right), y + 7, base - 2);
        writeln!(
            out,
            "<path class=\"arrow {class}\" d=\"M{start} {y}L{end} {y}\"/>\
             <path class=\"head {class}\" d=\"{head}\"/>\
             <text class=\"over {class}\" x=\"{x}\" y=\"{base}\">{label}</text>"
        )
    }
}

/// Writes the name of a lane, and below it a line for each run of rows in which it does the same.
fn write_lane(out: &mut String, name: &str, x: usize, activities: &[Activity]) -> fmt::Result {
    let half = (length(name) + 2) * CHARACTER / 2;
    let (left, wide) = (x - half, 2 * half);
    writeln!(
        out,
        "<rect class=\"lane\" x=\"{left}\" y=\"34\" width=\"{wide}\" height=\"24\" rx=\"4\"/>\
         <text class=\"name\" x=\"{x}\" y=\"50\">{}</text>",
        escaped(name)
    )?;
    let mut row = 0;
    for run in activities.chunk_by(|one, next| one == next) {
        let top = if row == 0 { HEAD - 14 } else { HEAD + row * ROW };
        row += run.len();
        let bottom = HEAD + row * ROW;
        let class = match run[0] {
            Activity::Absent => continue,
            Activity::Idle => "idle",
            Activity::Waiting => "waiting",
            Activity::Holding => "holding",
            Activity::Down => "down",
        };
        writeln!(
            out,
            "<line class=\"{class}\" x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\"/>"
        )?;
    }
    Ok(())
}

/// Returns the path of a message's head: an arrow, or a cross if it is lost.
fn head(end: usize, y: usize, is_lost: bool, leftwards: bool) -> String {
    if is_lost {
        let (x1, x2, y1, y2) = (end - 5, end + 5, y - 5, y + 5);
        return alloc::format!("M{x1} {y1}L{x2} {y2}M{x1} {y2}L{x2} {y1}");
    }
    let back = if leftwards { end + 7 } else { end - 7 };
    alloc::format!("M{back} {}L{end} {y}L{back} {}", y - 4, y + 4)
}

/// Classes instead of attributes, so that one document has both colour schemes.
pub(super) const STYLE: &str = "<style>\
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
