//! How the words of a scene compare with what was seen.

use zk_proto::explain::{self, MessageKind};
use zk_proto::{Decode as _, Reader, RequestHeader};

use super::player::{Played, fail, framed};

/// Returns the opcode and the fields of a request, such as `GET_DATA path=/a watch=true`.
pub(super) fn explained(payload: &[u8]) -> Result<String, String> {
    let header =
        RequestHeader::decode(&mut Reader::new(payload)).map_err(|error| error.to_string())?;
    let fields = fields(payload, MessageKind::Request)?;
    Ok(format!("{} {fields}", header.opcode))
}

/// Returns the fields of a message, such as `xid=1 zxid=0x5 err=OK path=/a`.
pub(super) fn fields(payload: &[u8], kind: MessageKind) -> Result<String, String> {
    let mut text = String::new();
    explain::frame(&framed(payload), kind, &mut |field| {
        let path = field.path.to_string();
        if let Some((_, name)) = path.split_once('.')
            && !["length", "opcode"].contains(&name)
        {
            let value = field.value.to_string();
            let value = value.strip_prefix("b\"").unwrap_or(&value).trim_matches('"');
            text += &format!("{name}={value} ");
        }
    })
    .map_err(|error| format!("{text}: {error}"))?;
    text.pop();
    Ok(text)
}

/// Returns the beginning of long text.
pub(super) fn abridged(text: &str) -> &str {
    text.char_indices().nth(400).map_or(text, |(end, _)| &text[..end])
}

/// Returns whether an explained request has the opcode and the fields.
pub(super) fn has_fields(words: &[String], text: &str) -> bool {
    let fields: Vec<_> = text.split(' ').collect();
    words.iter().enumerate().all(|(index, word)| match index {
        0 if !word.contains('=') => fields.first().is_some_and(|first| word_matches(word, first)),
        _ => fields.iter().any(|field| word_matches(word, field)),
    })
}

/// Compares text with a pattern, word by word. A last word `*` stands for any rest.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.split_whitespace(), text.split_whitespace());
    loop {
        match (pattern.next(), text.next()) {
            (Some("*"), _) if pattern.clone().next().is_none() => return true,
            (Some(word), Some(other)) if word_matches(word, other) => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// Compares a word with alternatives, which may end with `*`.
pub(super) fn word_matches(pattern: &str, word: &str) -> bool {
    pattern.split('|').any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None => word == pattern,
    })
}

pub(super) fn integer(text: &str) -> Played<i64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.or_else(|error| fail(format!("{text}: {error}")))
}

pub(super) fn parse(word: Option<&String>) -> Played<usize> {
    let number = integer(word.map_or("", String::as_str))?;
    usize::try_from(number).or_else(|error| fail(error.to_string()))
}

pub(super) fn parse_byte(text: &str) -> Played<u8> {
    u8::try_from(integer(text)?).or_else(|error| fail(error.to_string()))
}

/// Returns the number behind `key=`.
pub(super) fn number(words: &[String], key: &str, default: i32) -> Played<i32> {
    let found = words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    match found {
        Some(value) => i32::try_from(integer(value)?).or_else(|error| fail(error.to_string())),
        None => Ok(default),
    }
}
