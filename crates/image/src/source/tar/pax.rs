//! Extended headers of POSIX archives: records `LENGTH KEY=VALUE`.
use segno_engine::Time;
use std::collections::BTreeMap;

/// Keys and values; later records replace earlier ones.
pub(crate) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads the records of an extended header.
pub(crate) fn parse(bytes: &[u8]) -> Result<Records, String> {
    let mut records = Records::new();
    let mut rest = bytes;
    while rest.first().is_some_and(|&b| b != 0) {
        let broken = || "an extended header has a record without length, key and value".to_owned();
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let length: usize = decimal(rest.get(..digits).unwrap_or_default()).ok_or_else(broken)?;
        let record = rest.get(digits..length).and_then(|r| r.strip_prefix(b" "));
        let record = record.and_then(|r| r.strip_suffix(b"\n")).ok_or_else(broken)?;
        let equals = record.iter().position(|&b| b == b'=').ok_or_else(broken)?;
        let (key, value) = record.split_at(equals);
        records.insert(key.to_vec(), value.get(1..).unwrap_or_default().to_vec());
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(records)
}

/// A decimal number.
pub(crate) fn decimal<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Seconds with a fraction, which may be negative.
pub(crate) fn time(bytes: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (secs, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nsec = digits.fold(0u32, |n, d| n * 10 + u32::from(d - b'0'));
    let whole: i64 = secs.parse().ok()?;
    // -1.25 is a quarter before -1.
    if text.starts_with('-') && nsec > 0 {
        return Some(Time { secs: whole.checked_sub(1)?, nsec: 1_000_000_000 - nsec });
    }
    Some(Time { secs: whole, nsec })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split_by_their_length() {
        let records = parse(b"12 path=a=b\n20 SCHILY.xattr.a=\n\n6 a=\0\n\0\0").unwrap();
        let found: Vec<_> = records.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        assert_eq!(found, [(&b"SCHILY.xattr.a"[..], &b"\n"[..]), (b"a", b"\0"), (b"path", b"a=b")]);
        for bad in [&b"x"[..], b"99 a=b\n", b"5 ab\n", b"3 =", b"18446744073709551615 a=b\n", b"0 a=b\n"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_have_fractions() {
        let at = |secs, nsec| Some(Time { secs, nsec });
        assert_eq!(time(b"1700000000"), at(1_700_000_000, 0));
        assert_eq!(time(b"3.000000005"), at(3, 5));
        assert_eq!(time(b"3.1234567891"), at(3, 123_456_789));
        assert_eq!(time(b"-1.25"), at(-2, 750_000_000));
        assert_eq!(time(b"-0.25"), at(-1, 750_000_000));
        assert!(time(b"x").is_none() && time(b"1.x").is_none());
    }
}
