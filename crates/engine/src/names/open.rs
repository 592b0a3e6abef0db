//! Handles. The engine only counts them: an inode without a name is kept until its last handle is closed.
use crate::error::{Error, Result};
use crate::names::Names;
use crate::names::dir::encode_nokey;
use crate::sync::atomic::Ordering;
use segno_format::Ino;
use segno_format::inode::{Advise, RawInode};

impl Names {
    /// Counts an open handle.
    pub fn open(&self, ino: Ino) -> Result<()> {
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.read();
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        if inode.get(|i| i.is_reg() && i.advise().contains(Advise::ENCRYPT)) {
            return Err(Error::NotPermitted("the file is encrypted and there is no key"));
        }
        inode.opens.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Closes a handle; the last one of an inode without a name frees the inode.
    pub fn release(&self, ino: Ino) -> Result<()> {
        let inode = self.files.inode(ino)?;
        let before = inode.opens.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        let last = before.map_err(|_| Error::Invalid("released more often than opened"))? == 1;
        let unnamed = inode.get(|i| i.i_links.get()) == 0;
        if last && unnamed && self.base.health.check_writable().is_ok() {
            self.free_inode(&inode)
        } else {
            Ok(())
        }
    }

    /// The target of a symbolic link, in text form if it is encrypted.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.files.inode(ino)?;
        if !inode.get(RawInode::is_symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        let _lock = inode.lock.read();
        let target = self.files.read_all_link(&inode)?;
        if inode.get(|i| i.advise().contains(Advise::ENCRYPT)) {
            // Two bytes of length precede the encrypted target.
            return Ok(encode_nokey(0, target.get(2..).unwrap_or_default()));
        }
        Ok(target)
    }
}
