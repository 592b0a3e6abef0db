//! Any bytes as one word of printable ASCII.

use std::fmt::Write;

/// Letters, digits and most signs stand for themselves; the rest, blank and backslash as `\xHH`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn no_byte_breaks_a_line_or_a_word() {
        assert_eq!(escape(b"a b\n\\\xff/="), "a\\x20b\\x0a\\x5c\\xff/=");
        let all: Vec<u8> = (0..=255).collect();
        assert!(escape(&all).bytes().all(|byte| byte.is_ascii_graphic()));
    }
}
