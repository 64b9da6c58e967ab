//! Text from other clients, made safe for a terminal.

use std::io;

use serde::Serialize;

/// The ranges of letters written from right to left. One such letter in a row is enough for a
/// terminal to reorder its neighbours.
const RIGHT_TO_LEFT: [(char, char); 5] = [
    ('\u{590}', '\u{8ff}'),
    ('\u{fb1d}', '\u{fdff}'),
    ('\u{fe70}', '\u{feff}'),
    ('\u{10800}', '\u{10fff}'),
    ('\u{1e800}', '\u{1efff}'),
];

/// Escapes every character that does not print or that moves its neighbours: control and format
/// characters, line separators, combining marks, letters written from right to left.
pub(crate) fn line(text: &str) -> String {
    text.chars().fold(String::new(), |mut line, c| {
        if RIGHT_TO_LEFT.iter().any(|(first, last)| (*first..=*last).contains(&c)) {
            line.extend(c.escape_unicode());
        } else if matches!(c, '"' | '\'' | '\\') {
            line.push(c);
        } else {
            line.extend(c.escape_debug());
        }
        line
    })
}

/// Escapes like [`line`], for a cell of a table: two spaces occur only between columns.
pub(crate) fn cell(text: &str) -> String {
    line(text).replace("  ", " \\u{20}")
}

/// Breaks a line between words where it exceeds `width` columns. Later lines begin with `indent`. Text
/// in backquotes stays on one line.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let (mut wrapped, mut column, mut is_quoted) = (String::new(), 0, false);
    let words = text.split(|c| {
        is_quoted ^= c == '`';
        c == ' ' && !is_quoted
    });
    for (number, word) in words.enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > width {
            wrapped += &format!("\n{indent}");
            column = indent.chars().count();
        } else if number > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += length;
    }
    wrapped
}

/// Returns an object on one line, in ASCII: a terminal may show it.
pub(crate) fn json(object: &impl Serialize) -> io::Result<String> {
    Ok(ascii(&serde_json::to_string(object)?) + "\n")
}

/// Escapes every character of compact JSON text outside ASCII, and DEL. They occur in strings only.
fn ascii(json: &str) -> String {
    let escaped = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    json.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests;
