//! ACLs as text, and in the form of getxattr(2).

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
/// Tags and their words. Only tags of named users and groups have an id.
const TAGS: [(&str, bool, u16); 6] = [
    ("user", false, 0x01),
    ("user", true, 0x02),
    ("group", false, 0x04),
    ("group", true, 0x08),
    ("mask", false, 0x10),
    ("other", false, 0x20),
];

/// Reads entries `TAG:ID:rwx`, apart by commas or lines. Where the second field is a name, the id is in the
/// fourth one.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "an ACL is not text".to_owned())?;
    let mut entries = Vec::new();
    for line in text.split([',', '\n']).map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let bad = || format!("ACL entry {line:?} is not TAG:ID:PERMISSIONS with a number");
        let fields: Vec<&str> = line.split(':').collect();
        let (tag, name, perm, id) = match fields[..] {
            [tag, perm] => (tag, "", perm, None),
            [tag, name, perm] => (tag, name, perm, None),
            [tag, name, perm, id] => (tag, name, perm, Some(id)),
            _ => return Err(bad()),
        };
        let found = TAGS
            .iter()
            .find(|(word, named, _)| word.starts_with(tag) && !tag.is_empty() && *named != name.is_empty());
        let &(_, named, number) = found.ok_or_else(bad)?;
        let id = if named { id.unwrap_or(name).parse().map_err(|_| bad())? } else { NO_ID };
        entries.push((number, id, permissions(perm).ok_or_else(bad)?));
    }
    entries.sort_unstable();
    let mut out = VERSION.to_le_bytes().to_vec();
    for (tag, id, perm) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&perm.to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    Ok(out)
}

fn permissions(text: &str) -> Option<u16> {
    text.bytes().try_fold(0, |bits, b| match b {
        b'r' => Some(bits | 4),
        b'w' => Some(bits | 2),
        b'x' => Some(bits | 1),
        b'-' => Some(bits),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_both_forms() {
        let bytes = parse(b"user::rwx,group::r-x,other::---,mask::r-x,user:1000:r--").unwrap();
        let again = parse(b"user::rwx\nuser:alice:r--:1000\ngroup::r-x\nmask:r-x\nother:---\n").unwrap();
        assert_eq!(bytes, again);
        assert_eq!(bytes[4..20], [1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0xE8, 3, 0, 0]);
        for bad in [&b"user:alice:rwx"[..], b"user::rwz", b"nobody::rwx", b"user", b"\xff"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
