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
    let mut words: Vec<String> = Vec::new();
    let mut is_quoted = false;
    for word in text.split(' ') {
        match words.last_mut() {
            Some(quoted) if is_quoted => *quoted += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
        is_quoted ^= word.matches('`').count() % 2 == 1;
    }
    let mut words = words.into_iter();
    let mut wrapped = words.next().unwrap_or_default();
    let mut column = wrapped.chars().count();
    for word in words {
        let separator = match column + 1 + word.chars().count() > width {
            true => {
                column = 0;
                format!("\n{indent}")
            }
            false => " ".to_owned(),
        };
        column += separator.trim_start_matches('\n').chars().count() + word.chars().count();
        wrapped += &separator;
        wrapped += &word;
    }
    wrapped
}

/// Returns an object on one line, in ASCII: a terminal may show it.
pub(crate) fn json(object: &impl Serialize) -> io::Result<String> {
    Ok(ascii(&serde_json::to_string(object)?) + "\n")
}

/// Escapes every character of JSON text outside ASCII, and DEL. They occur in strings only.
fn ascii(json: &str) -> String {
    json.chars().fold(String::new(), |mut ascii, c| {
        match c {
            '\u{7f}' => ascii.push_str("\\u007f"),
            c if c.is_ascii() => ascii.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    ascii.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        ascii
    })
}

#[cfg(test)]
mod tests;
