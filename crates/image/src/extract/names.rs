//! Names for hosts that cannot store the real ones.

/// Characters that some hosts refuse.
const REFUSED: &[u8] = b"%\\:*?\"<>|";
/// Maximum bytes of a substitute before a mark is appended.
const LONGEST: usize = 240;

/// A name of printable ASCII that stands for another one; other bytes are written as `%XX`. The number of the
/// attempt makes it differ from earlier attempts.
pub(super) fn substitute(name: &[u8], attempt: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_graphic() && !REFUSED.contains(&byte) || byte == b' ' {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    if out.len() > LONGEST {
        out.truncate(LONGEST);
        out.extend_from_slice(b"%");
    }
    if attempt > 0 {
        out.extend_from_slice(format!("%~{attempt}").as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutes_are_plain_and_distinct() {
        assert_eq!(substitute(b"a:b\xff", 0), b"a%3Ab%FF");
        assert_eq!(substitute(b"Readme", 2), b"Readme%~2");
        assert!(substitute(&[b'?'; 255], 3).len() < 255);
    }
}
