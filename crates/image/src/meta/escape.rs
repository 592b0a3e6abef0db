//! Names as text: bytes that would break a line or a field are written as `\ooo`.

/// The path with every byte escaped that is a blank, a backslash, or not printable ASCII or UTF-8.
pub(crate) fn escaped_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c.is_whitespace() || c == '\\' {
                let mut utf8 = [0; 4];
                c.encode_utf8(&mut utf8).bytes().for_each(|b| push(&mut out, b));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|&b| push(&mut out, b));
    }
    out
}

fn push(out: &mut String, byte: u8) {
    out.push_str(&format!("\\{byte:03o}"));
}

/// The bytes of such a path.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let octal = if byte == b'\\' { tail.get(..3).and_then(octal) } else { None };
        out.push(octal.unwrap_or(byte));
        if octal.is_some() {
            rest = tail.get(3..).unwrap_or_default();
        }
    }
    out
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for name in
            [&b"plain/name.txt"[..], b"a b\tc\nd", b"back\\slash\\101", b"\xff\xfe", "ü\u{a0}".as_bytes()]
        {
            let text = escaped_path(name);
            assert!(!text.contains([' ', '\n', '\t']), "{text}");
            assert_eq!(unescaped(text.as_bytes()), name);
        }
        assert_eq!(escaped_path(b"a b"), "a\\040b");
        assert_eq!(unescaped(b"a\\9b\\"), b"a\\9b\\");
    }
}
