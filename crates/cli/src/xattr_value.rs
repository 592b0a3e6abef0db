//! Values of extended attributes as text, as setfattr(1) reads and getfattr(1) prints them.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use segno_format::text;

/// Text, with or without quotation marks, in which \ begins three octal digits or a character that stands for itself; or bytes,
/// as 0x… in hexadecimal or as 0s… in base64.
pub fn decode(value: &[u8]) -> Result<Vec<u8>, String> {
    match value {
        [b'0', b'x' | b'X', digits @ ..] => {
            hexadecimal(digits).ok_or_else(|| "0x takes pairs of hexadecimal digits".into())
        }
        [b'0', b's' | b'S', digits @ ..] => {
            STANDARD.decode(digits).map_err(|e| format!("0s takes base64: {e}"))
        }
        [b'"', inner @ .., b'"'] => Ok(unescaped(inner)),
        text => Ok(unescaped(text)),
    }
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => {
            let digit = |d: &u8| char::from(*d).to_digit(16);
            u8::try_from(digit(high)? << 4 | digit(low)?).ok()
        }
        _ => None,
    });
    pairs.collect()
}

fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    loop {
        text = match text {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
                out.push(*literal);
                rest
            }
            [] => return out,
        };
    }
}

/// In quotation marks if it is text, else in base64. Like getfattr(1), a value counts as text if up to one
/// byte in eight is not printable, unless it contains bytes that a terminal would interpret.
pub fn encode(value: &[u8]) -> String {
    let end = value.strip_suffix(b"\0").unwrap_or(value);
    let odd = end.iter().filter(|b| !(b' '..=b'~').contains(b)).count();
    let mut quoted = vec![b'"'];
    for &b in end {
        match b {
            b'\0' | b'\n' | b'\r' => quoted.extend(format!("\\{b:03o}").into_bytes()),
            b'"' | b'\\' => quoted.extend([b'\\', b]),
            b => quoted.push(b),
        }
    }
    quoted.push(b'"');
    match String::from_utf8(quoted) {
        Ok(quoted) if odd * 8 <= end.len() && text::line(quoted.as_bytes()) == quoted => quoted,
        _ => format!("0s{}", STANDARD.encode(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back() {
        for value in [
            &b""[..],
            b"text",
            b"a \"b\" \\c",
            b"line\nfeed and more",
            b"\0\x01\x02",
            b"esc\x1b[2J and more text",
            b"\xff\xfe",
        ] {
            assert_eq!(decode(encode(value).as_bytes()), Ok(value.to_vec()));
        }
        for bad in [&b"0x1"[..], b"0xzz", b"0s!"] {
            assert!(decode(bad).is_err());
        }
    }
}
