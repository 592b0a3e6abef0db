//! Human-readable sizes: 4G, 256M, 65536.
use alloc::format;
use alloc::string::String;

/// Reads a number with an optional K, M, G or T (powers of 1024, as in f2fs-tools and dd).
pub fn parse(text: &str) -> Result<u64, String> {
    let unit = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let last = unit.char_indices().last();
    let power = last.and_then(|(at, c)| Some((at, "KMGT".find(c.to_ascii_uppercase())? + 1)));
    let (digits, power) = power.unwrap_or((unit.len(), 0));
    unit.get(..digits)
        .and_then(|digits| digits.parse::<u64>().ok())
        .and_then(|n| n.checked_mul(1 << (10 * power)))
        .ok_or_else(|| format!("{text:?} is not a size; examples: 4G, 256M, 65536"))
}

/// Formats a size with a binary unit.
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("4K", 4096),
            ("256m", 256 << 20),
            ("4GiB", 4 << 30),
            ("1TB", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1", "1.5G", "4X", "99999999999T", "é"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(4 << 30), "4.0 GiB");
        assert_eq!(human(3 << 40), "3.0 TiB");
    }
}
