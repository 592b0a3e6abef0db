//! What may be done to a file's data, by its type and flags.
use crate::error::{Error, Result};
use crate::inode::Inode;
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};

/// A regular file whose data can be read.
pub(super) fn check_readable(inode: &Inode) -> Result<()> {
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

/// A regular file whose data and size can be changed.
pub(super) fn check_changeable(inode: &Inode) -> Result<()> {
    check_readable(inode)?;
    inode.get(|i| {
        let flags = i.flags();
        if flags.contains(InodeFlags::IMMUTABLE) {
            return Err(Error::NotPermitted("the file is immutable"));
        }
        if flags.contains(InodeFlags::DEVICE_ALIAS) {
            return Err(Error::NotPermitted("the file stands for a device"));
        }
        if i.advise().contains(Advise::VERITY) {
            return Err(Error::NotPermitted("the file is sealed by fs-verity"));
        }
        Ok(())
    })
}

/// A change of anything but the end of an append-only file is refused.
pub(super) fn check_not_append_only(inode: &Inode) -> Result<()> {
    if inode.get(RawInode::flags).contains(InodeFlags::APPEND) {
        return Err(Error::NotPermitted("the file is append-only"));
    }
    Ok(())
}

/// A file whose saved blocks were given back cannot grow or change.
pub(super) fn check_not_released(inode: &Inode) -> Result<()> {
    if inode.get(RawInode::inline).contains(Inline::COMPRESS_RELEASED) {
        return Err(Error::NotPermitted("the blocks that compression saved were released"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::test_rig::Rig;
    use super::*;
    use segno_format::Features;

    #[test]
    fn encrypted_and_sealed_files() {
        let rig = Rig::new(Features::empty());
        let inode = rig.create(b"f");
        let v = &rig.volume;
        assert_eq!(v.write(inode.ino, 0, b"data").unwrap(), 4);
        let advise = |a: Advise| {
            v.nodes.modify(&v.gate.enter(), &inode.frame, |b| b.view_mut::<RawInode>().i_advise = a.bits());
        };
        let forbidden = |r: Result<usize>| assert!(matches!(r, Err(Error::NotPermitted(_))), "{r:?}");
        advise(Advise::VERITY);
        assert_eq!(rig.read(inode.ino, 0, 9), b"data");
        forbidden(v.write(inode.ino, 0, b"x"));
        forbidden(rig.truncate(inode.ino, 0).map(|()| 0));
        advise(Advise::ENCRYPT);
        forbidden(v.read(inode.ino, 0, &mut [0; 9]));
        forbidden(v.write(inode.ino, 0, b"x"));
    }
}
