//! The extended attribute area: one byte string made of the inline area and the xattr node.
use crate::{Corrupt, Structure};
use alloc::vec::Vec;

/// Magic at the start of an area that has attributes.
pub const XATTR_MAGIC: u32 = 0xF2F5_2011;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 24;
/// Bytes of an xattr node that hold attributes.
pub const XATTR_NODE_BYTES: usize = 4072;

/// Name index of an attribute.
pub mod index {
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`; the name is empty.
    pub const ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`; the name is empty.
    pub const ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// `system.advise`, which is kept in `i_advise`.
    pub const ADVISE: u8 = 7;
    /// The encryption context of fscrypt, not shown to users.
    pub const ENCRYPTION: u8 = 9;
    /// The place of the fs-verity descriptor, not shown to users.
    pub const VERITY: u8 = 11;
}

/// Kinds of attributes and the prefixes of their names.
pub const PREFIXES: [(u8, &[u8]); 3] =
    [(index::USER, b"user."), (index::TRUSTED, b"trusted."), (index::SECURITY, b"security.")];
/// The access control lists, whose stored names are empty.
pub const ACL_NAMES: [(u8, &[u8]); 2] =
    [(index::ACL_ACCESS, b"system.posix_acl_access"), (index::ACL_DEFAULT, b"system.posix_acl_default")];

/// The name that system calls use; `None` for attributes that are not shown.
#[must_use]
pub fn full_name(index: u8, name: &[u8]) -> Option<Vec<u8>> {
    let (_, prefix) = PREFIXES.iter().chain(&ACL_NAMES).find(|(i, _)| *i == index)?;
    Some([prefix, name].concat())
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrEntry<'a> {
    /// Name index, see [`index`].
    pub index: u8,
    /// Name without its prefix.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

fn entry_bytes(name_len: usize, value_len: usize) -> usize {
    (4 + name_len + value_len).next_multiple_of(4)
}

/// Walks the attributes of an area; stops with an error at the first damaged entry.
pub fn iter(area: &[u8], ino: u32) -> impl Iterator<Item = Result<XattrEntry<'_>, Corrupt>> {
    let magic = area.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
    let start = if magic == Some(XATTR_MAGIC) { HEADER_BYTES } else { area.len() };
    let mut pos = Some(start);
    core::iter::from_fn(move || {
        let at = pos?;
        match entry_at(area, at, ino) {
            Ok(None) => {
                pos = None;
                None
            }
            Ok(Some(e)) => {
                pos = Some(at + entry_bytes(e.name.len(), e.value.len()));
                Some(Ok(e))
            }
            Err(e) => {
                pos = None;
                Some(Err(e))
            }
        }
    })
}

fn entry_at(area: &[u8], at: usize, ino: u32) -> Result<Option<XattrEntry<'_>>, Corrupt> {
    let Some(&[index, name_len, v0, v1]) = area.get(at..).and_then(|s| s.first_chunk::<4>()) else {
        return Ok(None);
    };
    if (index, name_len, v0, v1) == (0, 0, 0, 0) {
        return Ok(None);
    }
    let value_len = usize::from(u16::from_le_bytes([v0, v1]));
    let name_end = at + 4 + usize::from(name_len);
    let (Some(name), Some(value)) = (area.get(at + 4..name_end), area.get(name_end..name_end + value_len))
    else {
        return Err(Corrupt::nid(
            Structure::Xattr,
            ino,
            "attribute runs past the area",
            (name_end + value_len) as u64,
            area.len() as u64,
        ));
    };
    Ok(Some(XattrEntry { index, name, value }))
}

/// Value of an attribute.
pub fn find<'a>(area: &'a [u8], index: u8, name: &[u8], ino: u32) -> Result<Option<&'a [u8]>, Corrupt> {
    for e in iter(area, ino) {
        let e = e?;
        if e.index == index && e.name == name {
            return Ok(Some(e.value));
        }
    }
    Ok(None)
}

/// The area with one attribute replaced, added (`Some`) or removed (`None`); without padding at the end.
/// Empty when no attribute is left.
pub fn updated(
    area: &[u8],
    index: u8,
    name: &[u8],
    value: Option<&[u8]>,
    ino: u32,
) -> Result<Vec<u8>, Corrupt> {
    let mut out = Vec::with_capacity(area.len());
    out.extend_from_slice(&XATTR_MAGIC.to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes());
    out.resize(HEADER_BYTES, 0);
    for e in iter(area, ino) {
        let e = e?;
        if e.index != index || e.name != name {
            push(&mut out, &e);
        }
    }
    if let Some(value) = value {
        push(&mut out, &XattrEntry { index, name, value });
    }
    if out.len() == HEADER_BYTES {
        out.clear();
    }
    Ok(out)
}

fn push(out: &mut Vec<u8>, e: &XattrEntry<'_>) {
    out.push(e.index);
    // Callers limit names to 255 and values to a block, so neither length is cut.
    out.push(e.name.len() as u8);
    out.extend_from_slice(&(e.value.len() as u16).to_le_bytes());
    out.extend_from_slice(e.name);
    out.extend_from_slice(e.value);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_replaces_in_order() {
        let a = updated(&[], 1, b"one", Some(b"1"), 4).unwrap();
        let b = updated(&a, 6, b"selinux", Some(b"label"), 4).unwrap();
        let c = updated(&b, 1, b"one", Some(b"12345"), 4).unwrap();
        let names: Vec<_> = iter(&c, 4).map(|e| e.unwrap().name.to_vec()).collect();
        assert_eq!(names, [b"selinux".to_vec(), b"one".to_vec()]);
        assert_eq!(find(&c, 1, b"one", 4).unwrap(), Some(&b"12345"[..]));
        let d = updated(&c, 1, b"one", None, 4).unwrap();
        assert!(updated(&d, 6, b"selinux", None, 4).unwrap().is_empty());
    }

    #[test]
    fn damaged_length_is_an_error() {
        let mut a = updated(&[], 1, b"one", Some(b"1"), 4).unwrap();
        a[HEADER_BYTES + 2] = 200;
        assert!(iter(&a, 4).next().unwrap().is_err());
    }
}
