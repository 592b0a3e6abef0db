//! File names: every length that matters to a dentry block, and bytes of every kind.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use segno_testkit::Rng;

pub const NAME_MAX: usize = 255;

/// Lengths around the eight bytes of a dentry slot, and the limits.
const EDGE_LENGTHS: [usize; 14] = [1, 2, 7, 8, 9, 15, 16, 17, 24, 63, 64, 128, 254, NAME_MAX];
/// Some are on f2fs's lists of hot and cold files.
const EXTENSIONS: [&str; 6] = [".db", ".mp4", ".gz", ".txt", ".so", ".jpg"];
/// These take no more bytes when their case is folded.
const LETTERS: [&str; 6] = ["Ω", "名", "ﬁ", "ж", "😀", "ß"];
const GROWING_LETTERS: [&str; 5] = ["é", "İ", "Å", "e\u{301}", "ﬃ"];
/// Where the folded name is longer than 255 bytes, Linux hashes the name as it is; fsck.f2fs 1.15 does not know that.
const GROWING_MAX: usize = 160;

/// A name of 1 to 255 bytes without a slash or a zero byte.
pub fn name(rng: &mut Rng) -> OsString {
    let length =
        if rng.chance(40) { rng.choose(&EDGE_LENGTHS).copied().unwrap_or(1) } else { rng.index(20) + 3 };
    let mut name = match rng.below(10) {
        0 => any_bytes(rng, length),
        1 | 2 => letters(rng, length),
        _ => plain(rng, length),
    };
    if rng.chance(20) {
        let extension = rng.choose(&EXTENSIONS).copied().unwrap_or_default();
        name.truncate(NAME_MAX - extension.len());
        name.extend_from_slice(extension.as_bytes());
    }
    if name == b"." || name == b".." {
        name = b"dots".to_vec();
    }
    OsString::from_vec(name)
}

fn plain(rng: &mut Rng, length: usize) -> Vec<u8> {
    const SIGNS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    (0..length).map(|_| rng.choose(SIGNS).copied().unwrap_or(b'x')).collect()
}

fn any_bytes(rng: &mut Rng, length: usize) -> Vec<u8> {
    (0..length)
        .map(|_| match rng.between(1, 255) as u8 {
            b'/' => b'|',
            byte => byte,
        })
        .collect()
}

fn letters(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut name = String::new();
    while name.len() < length {
        let grows = length <= GROWING_MAX && rng.chance(50);
        let letter =
            rng.choose(if grows { &GROWING_LETTERS[..] } else { &LETTERS[..] }).copied().unwrap_or("x");
        name.push_str(if name.len() + letter.len() <= length { letter } else { "x" });
    }
    name.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_are_legal_and_reach_both_limits() {
        let mut rng = Rng::new(1);
        let names: Vec<_> = (0..5000).map(|_| name(&mut rng)).collect();
        for name in &names {
            let bytes = name.as_bytes();
            assert!((1..=NAME_MAX).contains(&bytes.len()), "{name:?}");
            assert!(!bytes.contains(&0) && !bytes.contains(&b'/'), "{name:?}");
        }
        assert!(names.iter().any(|name| name.len() == 1));
        assert!(names.iter().any(|name| name.len() == NAME_MAX));
    }
}
