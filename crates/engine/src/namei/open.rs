//! Handles. The engine only counts them: an inode without a name lives until the last is closed.
use crate::dir::encode_nokey;
use crate::error::{Error, Result};
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::Ino;
use segno_format::inode::{Advise, RawInode};

impl Volume {
    /// Counts a handle.
    pub fn open(&self, ino: Ino) -> Result<()> {
        self.bound_clean();
        let inode = self.inode(ino)?;
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

    /// Gives a handle back; the last one of an inode without a name frees it.
    pub fn release(&self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        let before = inode.opens.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        let last = before.map_err(|_| Error::Invalid("released more often than opened"))? == 1;
        let unnamed = inode.get(|i| i.i_links.get()) == 0;
        if last && unnamed && self.check_writable().is_ok() { self.free_inode(&inode) } else { Ok(()) }
    }

    /// The target of a symbolic link; of an encrypted one a text that stands for it.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.bound_clean();
        let inode = self.inode(ino)?;
        if !inode.get(RawInode::is_symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        let _lock = inode.lock.read();
        let target = self.read_all_link(&inode)?;
        if inode.get(|i| i.advise().contains(Advise::ENCRYPT)) {
            // Two bytes of length come before the encrypted target.
            return Ok(encode_nokey(0, target.get(2..).unwrap_or_default()));
        }
        Ok(target)
    }
}
