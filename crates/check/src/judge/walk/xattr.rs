//! Extended attributes: the area parses, names are not repeated, values of known attributes have their form.
use super::file::File;
use crate::evidence::reader::{is_zero, nonzero};
use crate::report::{Kind, Rules};
use segno_format::inode::{Advise, Inline, RawInode};
use segno_format::xattr::{HEADER_BYTES, XATTR_MAGIC, XATTR_NODE_BYTES, XattrEntry, index, iter};
use segno_format::{Block, Corrupt, Structure, Unit};
use std::collections::HashSet;

/// Bytes of a verity descriptor's location.
const VERITY_LOCATION: usize = 16;
/// Bytes of an encryption context of version 1 and 2.
const CONTEXTS: [usize; 2] = [28, 40];

/// Rules for the attributes of an inode and its node for them.
pub(super) fn check(file: &File, block: &Block, node: Option<&Block>) -> Rules {
    let raw: &RawInode = block.view();
    let mut area = Vec::new();
    if raw.inline().contains(Inline::XATTR) {
        area.extend_from_slice(block.0.get(file.layout.xattr_range()).unwrap_or_default());
    }
    if let Some(node) = node {
        area.extend_from_slice(node.0.get(..XATTR_NODE_BYTES).unwrap_or_default());
    }
    let mut rules = Rules::new(Kind::Xattr, Structure::Xattr, Unit::Nid, file.ino);
    judge(&mut rules, &area, file.ino).unwrap_or_else(|e| rules.add(e));
    let needs = [
        (Advise::ENCRYPT, index::ENCRYPTION, "encrypted inode without its context"),
        (Advise::VERITY, index::VERITY, "verity file without the place of its descriptor"),
    ];
    for (flag, index, why) in needs {
        let has = || iter(&area, file.ino).flatten().any(|e| e.index == index);
        let lacks = raw.advise().contains(flag) && !has();
        rules.of(Kind::Xattr).require(!lacks, why, 0u64, index);
    }
    rules
}

fn judge(rules: &mut Rules, area: &[u8], ino: u32) -> Result<(), Corrupt> {
    let magic = area.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
    if magic != XATTR_MAGIC {
        // Readers take such an area for an empty one.
        if !is_zero(area) {
            rules.of(Kind::Padding).equal("magic number of an area in use", magic, XATTR_MAGIC);
        }
        return Ok(());
    }
    let mut end = HEADER_BYTES;
    let mut seen = HashSet::new();
    for entry in iter(area, ino) {
        let entry = entry?;
        end += (4 + entry.name.len() + entry.value.len()).next_multiple_of(4);
        let new = seen.insert((entry.index, entry.name));
        rules.require(new, "attribute stored twice, of index", entry.index, 0u64);
        if let Some(why) = bad_value(&entry) {
            rules.require(false, why, entry.value.len() as u64, entry.index);
        }
    }
    let rest = area.get(end..).unwrap_or_default();
    if !is_zero(rest) {
        rules.of(Kind::Padding).equal("bytes in use after the last attribute", nonzero(rest), 0u64);
    }
    Ok(())
}

/// Why the value of a known attribute is not one.
#[must_use]
pub fn bad_value(entry: &XattrEntry<'_>) -> Option<&'static str> {
    let (name, value) = (entry.name, entry.value);
    match entry.index {
        index::USER | index::TRUSTED | index::SECURITY if name.is_empty() => Some("attribute without a name"),
        index::ACL_ACCESS | index::ACL_DEFAULT if !name.is_empty() => Some("ACL with a name"),
        index::ACL_ACCESS | index::ACL_DEFAULT if !is_acl(value) => Some("ACL is malformed"),
        index::ENCRYPTION if !CONTEXTS.contains(&value.len()) => Some("length of the encryption context"),
        index::VERITY if value.len() != VERITY_LOCATION => Some("length of the verity location"),
        _ => None,
    }
}

/// Version 1, then entries of 4 bytes, or 8 for named users and groups, each tag in its place.
fn is_acl(value: &[u8]) -> bool {
    let Some((&[1, 0, 0, 0], mut rest)) = value.split_first_chunk::<4>() else { return false };
    let mut last = 0;
    let mut tags = Vec::new();
    while let Some((&[tag, 0, perm, 0], _)) = rest.split_first_chunk::<4>() {
        let size = match tag {
            0x02 | 0x08 => 8,
            0x01 | 0x04 | 0x10 | 0x20 => 4,
            _ => return false,
        };
        let repeated = tag == last && size == 4;
        if tag < last || repeated || perm > 7 {
            return false;
        }
        let Some(tail) = rest.get(size..) else { return false };
        rest = tail;
        last = tag;
        tags.push(tag);
    }
    let has = |tag: u8| tags.contains(&tag);
    let needs_mask = has(0x02) || has(0x08);
    rest.is_empty() && has(0x01) && has(0x04) && has(0x20) && (!needs_mask || has(0x10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::xattr::updated;

    const ACL: &[u8] =
        &[1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 4, 0, 0xe8, 3, 0, 0, 4, 0, 4, 0, 0x10, 0, 4, 0, 0x20, 0, 4, 0];

    #[test]
    fn acls() {
        assert!(is_acl(ACL));
        assert!(!is_acl(&ACL[..26]), "cut");
        assert!(!is_acl(&[ACL, &[0x20, 0, 4, 0]].concat()), "tag twice");
        assert!(!is_acl(&[1, 0, 0, 0]), "empty");
    }

    #[test]
    fn areas() {
        let good = updated(&[], index::ACL_ACCESS, b"", Some(ACL), 4).unwrap();
        let good = updated(&good, index::USER, b"a", Some(b"1"), 4).unwrap();
        let kinds = |area: &[u8]| {
            let mut rules = Rules::new(Kind::Xattr, Structure::Xattr, Unit::Nid, 4u32);
            judge(&mut rules, area, 4).unwrap_or_else(|e| rules.add(e));
            rules.broken.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&good), []);
        assert_eq!(kinds(&[&good[..], &good[HEADER_BYTES..]].concat()), [Kind::Xattr, Kind::Xattr]);
        assert_eq!(kinds(&[&good[..], &[0, 0, 0, 0, 9]].concat()), [Kind::Padding]);
        assert_eq!(kinds(&[0, 0, 0, 0, 9]), [Kind::Padding]);
        let bad = updated(&good, index::ENCRYPTION, b"c", Some(&[0; 5]), 4).unwrap();
        assert_eq!(kinds(&bad), [Kind::Xattr]);
    }
}
