//! Renders a diagram as text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{Activity, Diagram, Style, TIME_WIDTH, clock, length};

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
