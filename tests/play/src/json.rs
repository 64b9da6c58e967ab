//! Writes JSON.

use core::fmt::{Display, Write};

/// Appends a string in quotes.
pub fn string(out: &mut String, text: impl Display) {
    out.push('"');
    for char in text.to_string().chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            // Not `<`, so that no text ends the script that contains it.
            '\0'..=' ' | '<' if char != ' ' => {
                // Writing to a `String` does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
}

/// Returns a string in quotes.
pub fn quoted(text: impl Display) -> String {
    let mut out = String::new();
    string(&mut out, text);
    out
}

/// Returns a list of values.
pub fn list(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(","))
}

/// Returns a value, or `null`.
pub fn or_null(value: Option<impl Display>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}
