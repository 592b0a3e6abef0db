//! getxattr(2), setxattr(2), listxattr(2), removexattr(2).
use super::Xattrs;
use super::acl::Acl;
use super::area::value_max;
use super::name;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::nodes::Change;
use crate::times::set_ctime;
use crate::transaction::Op;
use crate::types::XattrMode;
use segno_format::Ino;
use segno_format::inode::{Advise, InodeFlags};
use segno_format::xattr::{find, index, iter, updated};

/// Bits that users may change through `system.advise`.
const ADVISE_SETTABLE: Advise = Advise::COLD.union(Advise::HOT);

impl Xattrs {
    /// The value of an attribute.
    pub fn get(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let (index, rest) = name::parse(name, &self.base.opts)?;
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.read();
        match index {
            index::ADVISE => Ok(vec![inode.get(|i| i.i_advise)]),
            index::ACL_ACCESS | index::ACL_DEFAULT => {
                self.acl(&inode, index)?.map(|a| a.to_user()).ok_or(Error::NoData)
            }
            _ => {
                let area = self.load(&inode)?;
                let found =
                    self.base.health.record_damage(find(&area, index, rest, ino.0).map_err(Error::from))?;
                found.map(<[u8]>::to_vec).ok_or(Error::NoData)
            }
        }
    }

    /// The names of all attributes, each followed by a NUL.
    pub fn list(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.read();
        let mut out = Vec::new();
        for e in iter(&self.load(&inode)?, ino.0) {
            let e = self.base.health.record_damage(e.map_err(Error::from))?;
            if let Some(full) = name::full(e.index, e.name, &self.base.opts) {
                out.extend_from_slice(&full);
                out.push(0);
            }
        }
        Ok(out)
    }

    /// Sets an attribute.
    pub fn set(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.change(ino, name, Some(value), mode)
    }

    /// Removes an attribute.
    pub fn remove(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.change(ino, name, None, XattrMode::Replace)
    }

    fn change(&self, ino: Ino, name: &[u8], value: Option<&[u8]>, mode: XattrMode) -> Result<()> {
        let (index, rest) = name::parse(name, &self.base.opts)?;
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.write();
        check_changeable(&inode, index)?;
        match index {
            index::ADVISE => self.set_advise(&inode, value),
            index::ACL_ACCESS | index::ACL_DEFAULT => self.change_acl(&inode, index, value),
            _ => self.change_plain(&inode, index, rest, value, mode),
        }
    }

    fn attrs_changed(&self, op: &Op<'_>, inode: &Inode) {
        let now = self.base.now();
        self.nodes.cache.modify_inode(op, &inode.frame, |i| set_ctime(i, now));
        if inode.is_dir() {
            self.nodes.since.add(inode.ino, Change::Directory);
        }
    }

    fn change_plain(
        &self,
        inode: &Inode,
        index: u8,
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        if value.is_some_and(|v| v.len() > self.inline_range(inode).map_or(0, |r| value_max(r.len()))) {
            return Err(Error::XattrTooBig);
        }
        let area = self.load(inode)?;
        match (mode, find(&area, index, name, inode.ino.0)?) {
            (XattrMode::Create, Some(_)) => return Err(Error::Exists),
            (XattrMode::Replace, None) => return Err(Error::NoData),
            _ => {}
        }
        let area = updated(&area, index, name, value, inode.ino.0)?;
        let op = self.base.tx.begin();
        self.store(&op, inode, &area)?;
        self.attrs_changed(&op, inode);
        Ok(())
    }

    fn change_acl(&self, inode: &Inode, index: u8, value: Option<&[u8]>) -> Result<()> {
        let acl = Acl::from_user(value.unwrap_or_default())?;
        self.check_acl_target(inode, index, acl.as_ref())?;
        let area = self.load(inode)?;
        let op = self.base.tx.begin();
        self.set_acl(&op, inode, index, acl.as_ref(), &area)?;
        self.attrs_changed(&op, inode);
        Ok(())
    }

    fn set_advise(&self, inode: &Inode, value: Option<&[u8]>) -> Result<()> {
        let Some(&[bits]) = value else {
            return Err(Error::Invalid("system.advise is one byte and cannot be removed"));
        };
        let bits = Advise::from_bits_retain(bits);
        if !ADVISE_SETTABLE.contains(bits) {
            return Err(Error::Invalid("only the cold and hot bits of system.advise can be set"));
        }
        let op = self.base.tx.begin();
        self.nodes.cache.modify_inode(&op, &inode.frame, |i| {
            i.i_advise = ((i.advise() - ADVISE_SETTABLE) | bits).bits();
        });
        self.attrs_changed(&op, inode);
        Ok(())
    }
}

/// Checks whether the inode allows changes of this attribute.
fn check_changeable(inode: &Inode, index: u8) -> Result<()> {
    let (flags, plain) = inode.get(|i| (i.flags(), i.is_dir() || i.is_reg()));
    if flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
        return Err(Error::NotPermitted("the inode is immutable or append-only"));
    }
    if index == index::USER && !plain {
        return Err(Error::NotPermitted("only files and directories have user attributes"));
    }
    Ok(())
}
