//! Hot and cold files by extension.
use segno_format::inode::Advise;
use segno_format::superblock::RawSuperblock;

/// The advise bit for a new file, from the first matching extension of the superblock's list, which has cold ones
/// first.
#[must_use]
pub fn temperature(sb: &RawSuperblock, name: &[u8]) -> Advise {
    let cold = sb.extension_count.get() as usize;
    let all = cold.saturating_add(sb.hot_ext_count.into());
    let dotted = dotted(name);
    let found = sb.extension_list.iter().take(all).position(|e| matches(dotted, trimmed(e)));
    match found {
        None => Advise::empty(),
        Some(i) if i < cold => Advise::COLD,
        Some(_) => Advise::HOT,
    }
}

/// Whether the name has one of the extensions of hot files.
pub(super) fn is_hot(sb: &RawSuperblock, name: &[u8]) -> bool {
    let (cold, hot) = (sb.extension_count.get() as usize, sb.hot_ext_count.into());
    let list = sb.extension_list.iter().skip(cold).take(hot);
    list.map(trimmed).any(|e| matches(dotted(name), e))
}

/// An extension without its padding.
fn trimmed(e: &[u8; 8]) -> &[u8] {
    e.split(|&b| b == 0).next().unwrap_or_default()
}

/// The name from its first dot on, ignoring a leading dot.
fn dotted(name: &[u8]) -> &[u8] {
    name.iter().skip(1).position(|&b| b == b'.').and_then(|i| name.get(i + 1..)).unwrap_or_default()
}

/// As in F2FS, matches after any dot but a leading one, with any suffix: `a.mp3.part` is an `mp3`.
fn matches(dotted: &[u8], extension: &[u8]) -> bool {
    if extension == b"*" {
        return true;
    }
    let n = extension.len();
    n > 0
        && dotted.windows(n + 1).any(|w| match w {
            [b'.', rest @ ..] => rest.eq_ignore_ascii_case(extension),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_rules() {
        for name in ["a.mp3", "a.MP3", "a.mp3.tmp", "a.mp3x", "x.y.mp3"] {
            assert!(matches(dotted(name.as_bytes()), b"mp3"), "{name}");
        }
        for name in [".mp3", "mp3", "a.mp", "amp3", "", "a.", ".", "..mp"] {
            assert!(!matches(dotted(name.as_bytes()), b"mp3"), "{name}");
        }
        assert!(matches(dotted(b"anything"), b"*"));
    }
}
