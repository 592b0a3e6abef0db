//! Names in encrypted directories without the key: a text form of the stored bytes.
//!
//! The format is that of Linux: base64url without padding of the hash (8 bytes, the upper 4 zero) and the stored
//! name. A name longer than 149 bytes keeps the first 149, followed by a checksum of the rest. Linux uses SHA-256
//! there, so only such names differ.
use segno_format::{F2FS_MAGIC, crc};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Stored bytes that are kept.
const BYTES_MAX: usize = 149;

/// Text form of a stored name.
pub fn encode(hash: u32, name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + name.len().min(BYTES_MAX));
    bytes.extend_from_slice(&hash.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    match name.split_at_checked(BYTES_MAX) {
        None => bytes.extend_from_slice(name),
        Some((kept, [])) => bytes.extend_from_slice(kept),
        Some((kept, rest)) => {
            bytes.extend_from_slice(kept);
            bytes.extend_from_slice(&crc(F2FS_MAGIC, rest).to_le_bytes());
        }
    }
    base64(&bytes)
}

/// The hash in a text form; `None` if the text has none.
pub(super) fn hash_of(text: &[u8]) -> Option<u32> {
    // Six characters hold the first four bytes.
    let mut value: u64 = 0;
    for &c in text.first_chunk::<6>()? {
        value = value << 6 | ALPHABET.iter().position(|&a| a == c)? as u64;
    }
    // The low four bits of the last character belong to the next byte.
    Some(((value >> 4) as u32).swap_bytes())
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |w, i| w << 8 | u32::from(group.get(i).copied().unwrap_or(0)));
        // n bytes take n + 1 characters.
        for shift in [18, 12, 6, 0].into_iter().take(group.len() + 1) {
            let index = (word >> shift & 63) as usize;
            out.extend(ALPHABET.get(index));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_vectors() {
        for (bytes, text) in
            [(&b""[..], &b""[..]), (b"f", b"Zg"), (b"fo", b"Zm8"), (b"foo", b"Zm9v"), (b"\xfb\xff", b"-_8")]
        {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn the_hash_round_trips_and_length_stays_legal() {
        for hash in [0, 1, 0x1234_5678, u32::MAX] {
            for len in [16, 149, 150, 255] {
                let text = encode(hash, &vec![0xA5; len]);
                assert!(text.len() <= segno_format::NAME_MAX, "{len}");
                assert_eq!(hash_of(&text), Some(hash));
            }
        }
        assert_eq!(hash_of(b"short"), None);
        assert_eq!(hash_of(b"not base64!"), None);
    }

    #[test]
    fn long_names_that_differ_at_the_end_differ() {
        let (mut a, b) = (vec![7; 200], vec![7; 200]);
        a[199] = 8;
        assert_ne!(encode(1, &a), encode(1, &b));
    }
}
