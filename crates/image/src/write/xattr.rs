//! Extended attributes as the byte string that inodes store.
use crate::meta::LABEL;
use crate::tree::Inode;
use segno_engine::Acl;
use segno_format::text;
use segno_format::xattr::{ACL_NAMES, PREFIXES, XATTR_NODE_BYTES, updated};
use std::path::PathBuf;

/// Bytes after the last attribute that must be zeros.
const END: usize = 4;
const NAME_MAX: usize = 255;

/// The attributes of an inode; empty without any. The label comes first, so that it is in the inode's own block.
pub(crate) fn area(inode: &Inode, path: &dyn Fn() -> PathBuf) -> crate::Result<Vec<u8>> {
    let (label, others): (Vec<_>, Vec<_>) = inode.xattrs.iter().partition(|(name, _)| *name == LABEL);
    let mut area = Vec::new();
    for (name, value) in label.into_iter().chain(others) {
        let added = add(&area, name, value);
        area = added.map_err(|why| crate::Error::Xattr { name: text::name(name), path: path(), why })?;
    }
    Ok(area)
}

fn add(area: &[u8], name: &[u8], value: &[u8]) -> Result<Vec<u8>, String> {
    if name.len() > NAME_MAX || value.len() > XATTR_NODE_BYTES {
        return Err(format!("a name of {} and a value of {} bytes are too long", name.len(), value.len()));
    }
    let damaged = |e: segno_format::Corrupt| e.to_string();
    if let Some(&(index, _)) = ACL_NAMES.iter().find(|(_, n)| *n == name) {
        return match Acl::from_user(value) {
            Ok(Some(acl)) => updated(area, index, b"", Some(&acl.to_disk()), 0).map_err(damaged),
            Ok(None) => Ok(area.to_vec()),
            Err(e) => Err(e.to_string()),
        };
    }
    let found = PREFIXES.iter().find_map(|&(index, prefix)| Some((index, name.strip_prefix(prefix)?)));
    match found {
        Some((_, b"")) | None => {
            Err("names start with user., trusted., security. or system.posix_acl_".into())
        }
        Some((index, rest)) => updated(area, index, rest, Some(value), 0).map_err(damaged),
    }
}

/// Splits the area into the part in the inode, up to `room` bytes, and the part in an xattr node; `None` if
/// it is too large for both.
pub(crate) fn split(area: &[u8], room: usize) -> Option<(&[u8], &[u8])> {
    let (inline, rest) = area.split_at(area.len().min(room));
    (rest.len() + END <= XATTR_NODE_BYTES).then_some((inline, rest))
}
