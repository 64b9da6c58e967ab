//! Tests of hostile text.

use super::*;

#[test]
fn characters_that_move_the_cursor_or_reorder_a_row_are_escaped() {
    let hostile = [
        "\u{1b}[2J",
        "\u{9b}2J",
        "a\nb",
        "\r",
        "\t",
        "\u{7}",
        "\u{8}",
        "\u{85}", // controls
        "\u{202e}",
        "\u{202a}",
        "\u{2066}",
        "\u{2069}",
        "\u{200e}",
        "\u{200f}",
        "\u{61c}",
        "\u{2028}",
        "\u{2029}",
        "\u{200b}",
        "\u{200d}",
        "\u{feff}",
        "\u{ad}",
        "\u{2060}",
        "e\u{301}",
        "\u{e0041}",
        "\u{fff9}",
        "\u{e000}",
        "\u{378}",
        "\u{a0}",
        "\u{3000}",
        "\u{5d0}",
        "\u{627}",
        "\u{7c0}",
        "\u{fb2a}",
        "\u{10800}",
        "\u{1e900}",
    ];
    for text in hostile {
        let shown = cell(text);
        assert!(shown.is_ascii() && !shown.contains(|c: char| c.is_control()), "{shown:?}");
    }
    assert_eq!(line("\u{202e}a  \\n\n"), r"\u{202e}a  \n\n");
}

#[test]
fn printable_text_is_unchanged() {
    for text in ["b\u{fc}ro-7 pid 12: it's \"sh\"", "\u{434}\u{43e}\u{43c}", "\u{6771}\u{4eac}"] {
        assert_eq!((cell(text), line(text)), (text.to_owned(), text.to_owned()));
    }
}

#[test]
fn a_long_line_is_broken_between_words_but_not_in_a_command() {
    for (text, expected) in [
        ("note    one two", "note    one two"),
        ("note    one two three four", "note    one two\n  three four"),
        ("run `zk-lock ls /a` or end", "run\n  `zk-lock ls /a`\n  or end"),
        ("averyveryverylongword it", "averyveryverylongword\n  it"),
        ("it averyveryverylongword", "it\n  averyveryverylongword"),
        ("", ""),
    ] {
        assert_eq!(wrap(text, 15, "  "), expected, "{text}");
    }
}

#[test]
fn a_cell_has_no_column_separator() {
    for text in ["a  b", "a   b", "    "] {
        assert!(!cell(text).contains("  "), "{}", cell(text));
    }
}

#[test]
fn json_is_printed_in_ascii() {
    assert_eq!(ascii("\"a\u{202e}\u{7f}\u{1f600}\""), r#""a\u202e\u007f\ud83d\ude00""#);
}
