//! Bytes that others chose, as text: names, labels, link targets, paths and messages that hold them.
//!
//! A terminal obeys control characters, and bidirectional controls reorder what is seen. [`name`] writes a
//! name on one line, and different names differ; [`line`] and [`lines`] take text that already holds names
//! written so. A byte is written `\xNN`, a character beyond ASCII `\uNNNN`, as JSON has it, and in names `\`
//! is `\\`; `printf %b` reverses it.
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// A name or path: one line, and no other bytes give the same text.
#[must_use]
pub fn name(bytes: &[u8]) -> String {
    escaped(bytes, |c| c == '\\')
}

/// Text on one line, without anything that a terminal obeys.
#[must_use]
pub fn line(text: &[u8]) -> String {
    escaped(text, |_| false)
}

/// Text of several lines, without anything else that a terminal obeys.
#[must_use]
pub fn lines(text: &[u8]) -> String {
    let lines: Vec<String> = text.split(|&b| b == b'\n').map(line).collect();
    lines.join("\n")
}

/// Text for a field of JSON, which holds all characters: the bytes themselves, or as [`name`] writes them if
/// they are not UTF-8. Then the second value has all bytes in hexadecimal, for a second field.
#[must_use]
pub fn field(bytes: &[u8]) -> (String, Option<String>) {
    match core::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (name(bytes), Some(bytes.iter().map(|b| format!("{b:02x}")).collect())),
    }
}

/// The text of a [`field`] as [`name`] writes it; `hex` is whether the field had a second value.
#[must_use]
pub fn of_field(text: &str, hex: bool) -> String {
    if hex { text.to_owned() } else { name(text.as_bytes()) }
}

fn escaped(bytes: &[u8], also: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    // Writing to a string does not fail.
    let byte = |out: &mut String, b: u8| _ = write!(out, "\\x{b:02x}");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' if also(c) => out.push_str("\\\\"),
                '\0'..='\x1f' => byte(&mut out, c as u8),
                _ if is_obeyed(c) => _ = write!(out, "\\u{:04x}", u32::from(c)),
                _ => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&b| byte(&mut out, b));
    }
    out
}

/// Controls beyond C0: DEL and C1, marks, embeddings, overrides and isolates of direction, separators of
/// lines and paragraphs.
fn is_obeyed(c: char) -> bool {
    matches!(c, '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (bytes, text) in [
            (&b"plain name.txt"[..], "plain name.txt"),
            ("Grüße 日本 é".as_bytes(), "Grüße 日本 é"),
            (b"\x1b[31m\r\n\x07\x7f", "\\x1b[31m\\x0d\\x0a\\x07\\u007f"),
            ("a\u{9b}2J\u{202e}b\u{2066}".as_bytes(), "a\\u009b2J\\u202eb\\u2066"),
            (b"a\xff\xfe", "a\\xff\\xfe"),
            (b"cut \xe6\x97", "cut \\xe6\\x97"),
            (b"a\\xff", "a\\\\xff"),
        ] {
            assert_eq!(name(bytes), text);
        }
        assert_eq!(line(b"kept \\xff\nescaped \x1b"), "kept \\xff\\x0aescaped \\x1b");
        assert_eq!(lines(b"one\x1b\ntwo\n"), "one\\x1b\ntwo\n");
    }

    /// All names of up to four bytes that consist of the characters of escapes and some escaped ones.
    #[test]
    fn different_names_have_different_text() {
        let bytes = b"\\xu0f9\n\x1b\xc2\x9b\xff";
        let mut names = vec![Vec::new()];
        for _ in 0..4 {
            let longer =
                names.iter().flat_map(|n: &Vec<u8>| bytes.iter().map(|&b| [n.as_slice(), &[b]].concat()));
            let longer: Vec<_> = longer.collect();
            names.extend(longer);
            names.sort();
            names.dedup();
        }
        let texts: std::collections::HashSet<String> = names.iter().map(|n| name(n)).collect();
        assert_eq!(texts.len(), names.len());
        let fields: std::collections::HashSet<_> = names.iter().map(|n| field(n)).collect();
        assert_eq!(fields.len(), names.len());
    }

    #[test]
    fn a_field_has_the_bytes_of_what_is_not_text() {
        assert_eq!(field(b"a\\b\n"), ("a\\b\n".into(), None));
        assert_eq!(field(b"a\xff"), ("a\\xff".into(), Some("61ff".into())));
        for bytes in [&b"a\\b\n"[..], b"a\xff"] {
            let (text, hex) = field(bytes);
            assert_eq!(of_field(&text, hex.is_some()), name(bytes));
        }
    }
}
