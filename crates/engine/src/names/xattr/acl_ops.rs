//! ACLs of inodes: reading, setting, inheritance, chmod(2).
use super::Acl;
use super::Xattrs;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::transaction::Op;
use segno_format::inode::RawInode;
use segno_format::xattr::{find, index, updated};
use zerocopy::little_endian::U16;

/// Mode and attributes that a new file inherits.
pub struct Inherited {
    pub(crate) mode: u16,
    /// The whole attribute area; empty for none.
    pub(crate) attrs: Vec<u8>,
}

impl Xattrs {
    /// The stored ACL of an index.
    pub(super) fn acl(&self, inode: &Inode, index: u8) -> Result<Option<Acl>> {
        let area = self.load(inode)?;
        let value = find(&area, index, b"", inode.ino.0)?;
        value.map(|v| Acl::from_disk(v, inode.ino)).transpose()
    }

    /// Sets or removes an ACL. The caller holds the inode's lock exclusively; `area` was read before the gate.
    pub(super) fn set_acl(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        index: u8,
        acl: Option<&Acl>,
        area: &[u8],
    ) -> Result<()> {
        let is_access = index == index::ACL_ACCESS;
        let stored = acl.filter(|a| !(is_access && a.is_plain())).map(Acl::to_disk);
        self.store(op, inode, &updated(area, index, b"", stored.as_deref(), inode.ino.0)?)?;
        if let Some(acl) = acl.filter(|_| is_access) {
            self.nodes.cache.modify_inode(op, &inode.frame, |i| {
                i.i_mode = U16::new(acl.mode(i.i_mode.get()));
            });
        }
        Ok(())
    }

    /// Checks whether the inode can have this ACL.
    pub(super) fn check_acl_target(&self, inode: &Inode, index: u8, acl: Option<&Acl>) -> Result<()> {
        if inode.get(RawInode::is_symlink) {
            return Err(Error::NotSupported("a symbolic link has no ACL"));
        }
        if index == index::ACL_DEFAULT && acl.is_some() && !inode.is_dir() {
            return Err(Error::Access);
        }
        Ok(())
    }

    /// Mode and attributes of a new file. A default ACL replaces the umask.
    pub fn inherit(&self, dir: &Inode, mode: u16, umask: u16) -> Result<Inherited> {
        let kind = mode & 0o170_000;
        if kind == 0o120_000 {
            return Ok(Inherited { mode, attrs: Vec::new() });
        }
        let default = if self.base.opts.acl { self.acl(dir, index::ACL_DEFAULT)? } else { None };
        let Some(default) = default else {
            return Ok(Inherited { mode: mode & !(umask & 0o777), attrs: Vec::new() });
        };
        let (access, mode) = default.inherit(mode);
        let mut attrs = Vec::new();
        if !access.is_plain() {
            attrs = updated(&attrs, index::ACL_ACCESS, b"", Some(&access.to_disk()), dir.ino.0)?;
        }
        if kind == 0o040_000 {
            attrs = updated(&attrs, index::ACL_DEFAULT, b"", Some(&default.to_disk()), dir.ino.0)?;
        }
        Ok(Inherited { mode, attrs })
    }

    /// The attribute area after chmod(2); `None` if it does not change.
    pub fn after_chmod(&self, inode: &Inode, mode: u16) -> Result<Option<Vec<u8>>> {
        let area = self.load(inode)?;
        let Some(value) = find(&area, index::ACL_ACCESS, b"", inode.ino.0)? else { return Ok(None) };
        let acl = Acl::from_disk(value, inode.ino)?.with_mode(mode);
        Ok(Some(updated(&area, index::ACL_ACCESS, b"", Some(&acl.to_disk()), inode.ino.0)?))
    }
}
