//! Extended attributes.
use super::attr::{ACCESS_ACL, ADVISE_NAME, DEFAULT_ACL, mode_of};
use super::{Model, ROOT};
use crate::fs::{Node, Res, errno};
use segno_engine::XattrMode;
use segno_format::dentry::FileType;

/// The format's arithmetic: an area in the inode and one block make one string of header, entries and an end mark.
const NODE_BYTES: usize = 4072;
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 4;

impl Model {
    pub(super) fn attribute(&self, node: Node, name: &[u8]) -> Res<Vec<u8>> {
        check_name(name)?;
        self.get(node)?.xattrs.get(name).cloned().ok_or(errno::ENODATA)
    }

    pub(super) fn set_attribute(
        &mut self,
        node: Node,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Res<()> {
        if name == ADVISE_NAME {
            return self.change_advise(node, value);
        }
        check_name(name)?;
        self.check_kind(node, name)?;
        // The formatter gives the root no room in the inode.
        let inline = if node == ROOT { 0 } else { self.limits.inline_xattr };
        let room = inline + NODE_BYTES;
        if value.len() > room - HEADER_BYTES - ENTRY_BYTES {
            return Err(errno::E2BIG);
        }
        let inode = self.get(node)?;
        match (mode, inode.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(errno::EEXIST),
            (XattrMode::Replace, false) => return Err(errno::ENODATA),
            _ => {}
        }
        let mut xattrs = inode.xattrs.clone();
        xattrs.insert(name.to_vec(), value.to_vec());
        let bytes = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            let stored = name.iter().position(|&b| b == b'.').map_or(0, |dot| name.len() - dot - 1);
            (ENTRY_BYTES + stored + value.len()).next_multiple_of(4)
        };
        if HEADER_BYTES + xattrs.iter().map(bytes).sum::<usize>() > room {
            return Err(errno::E2BIG);
        }
        let inode = self.change(node)?;
        inode.xattrs = xattrs;
        if name == ACCESS_ACL {
            inode.mode = inode.mode & 0o7000 | mode_of(value)?;
        }
        Ok(())
    }

    pub(super) fn remove_attribute(&mut self, node: Node, name: &[u8]) -> Res<()> {
        check_name(name)?;
        self.check_kind(node, name)?;
        if !self.get(node)?.xattrs.contains_key(name) {
            return Err(errno::ENODATA);
        }
        self.change(node)?.xattrs.remove(name);
        Ok(())
    }

    fn check_kind(&self, node: Node, name: &[u8]) -> Res<()> {
        let kind = self.get(node)?.kind;
        match name {
            ACCESS_ACL | DEFAULT_ACL if kind == FileType::Symlink => Err(errno::EOPNOTSUPP),
            DEFAULT_ACL if kind != FileType::Directory => Err(errno::EACCES),
            _ if !name.starts_with(b"user.") => Ok(()),
            _ if matches!(kind, FileType::Regular | FileType::Directory) => Ok(()),
            _ => Err(errno::EPERM),
        }
    }
}

fn check_name(name: &[u8]) -> Res<()> {
    if name == ACCESS_ACL || name == DEFAULT_ACL {
        return Ok(());
    }
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match prefixes.iter().find_map(|p| name.strip_prefix(*p)) {
        None => Err(errno::EOPNOTSUPP),
        Some(b"") => Err(errno::EINVAL),
        Some(_) => Ok(()),
    }
}
