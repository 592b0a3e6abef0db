//! Permitted changes of a file's data, by its type and flags.
use super::Inode;
use crate::error::{Error, Result};
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};

/// Checks for a regular file whose data can be read.
pub fn check_readable(inode: &Inode) -> Result<()> {
    inode.get(|i| {
        if i.is_dir() {
            return Err(Error::IsDir);
        }
        if !i.is_reg() {
            return Err(Error::Invalid("not a regular file"));
        }
        if i.advise().contains(Advise::ENCRYPT) {
            return Err(Error::NotPermitted("encrypted, no key"));
        }
        Ok(())
    })
}

/// Checks for a regular file whose data and size can be changed.
pub fn check_changeable(inode: &Inode) -> Result<()> {
    check_readable(inode)?;
    inode.get(|i| {
        let flags = i.flags();
        if flags.contains(InodeFlags::IMMUTABLE) {
            return Err(Error::NotPermitted("the file is immutable"));
        }
        if flags.contains(InodeFlags::DEVICE_ALIAS) {
            return Err(Error::NotPermitted("the file is a device alias"));
        }
        if i.advise().contains(Advise::VERITY) {
            return Err(Error::NotPermitted("the file is sealed by fs-verity"));
        }
        Ok(())
    })
}

/// Rejects changes of an append-only file other than appending.
pub fn check_not_append_only(inode: &Inode) -> Result<()> {
    if inode.get(RawInode::flags).contains(InodeFlags::APPEND) {
        return Err(Error::NotPermitted("the file is append-only"));
    }
    Ok(())
}

/// Rejects changes of a file whose saved blocks were released.
pub fn check_not_released(inode: &Inode) -> Result<()> {
    if inode.get(RawInode::inline).contains(Inline::COMPRESS_RELEASED) {
        return Err(Error::NotPermitted("the blocks that compression saved were released"));
    }
    Ok(())
}
