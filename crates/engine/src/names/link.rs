//! link(2).
use super::locks::lock_all;
use super::perm::{check_mutable, check_same_project};
use crate::error::{Error, Result};
use crate::names::{Names, Renamed};
use crate::nodes::Change;
use crate::times::{set_ctime, touch};
use crate::types::Attr;
use segno_format::Ino;
use segno_format::dentry::FileType;
use segno_format::inode::Advise;
use zerocopy::little_endian::U32;

impl Names {
    /// Adds a name to an inode. For a file created without a name it is the first.
    pub fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<(Attr, Renamed)> {
        let (inode, dir) = (self.files.inode(ino)?, self.files.inode(dir)?);
        if inode.is_dir() {
            return Err(Error::NotPermitted("a directory has one name only"));
        }
        {
            let _locks = lock_all(&[&inode, &dir]);
            let (name, room) = self.room_for_name(&dir, name)?;
            let (links, named) = inode.get(|i| (i.i_links.get(), i.i_namelen.get() > 0));
            if inode.is_gone() || (links == 0 && named) {
                return Err(Error::NotFound);
            }
            if links == u32::MAX {
                return Err(Error::TooManyLinks);
            }
            check_mutable(&inode)?;
            check_same_project(&dir, &inode)?;
            let kind = FileType::of_mode(inode.get(|i| i.i_mode.get()));
            let op = self.base.tx.begin();
            self.dirs.insert_at(&op, &dir, &name, room, inode.ino, kind)?;
            let now = self.base.now();
            self.nodes.cache.modify_inode(&op, &inode.frame, |i| {
                i.i_links = U32::new(links + 1);
                i.set_name(dir.ino, name.raw());
                if links > 0 {
                    i.i_advise = (i.advise() | Advise::LOST_PINO).bits();
                }
                set_ctime(i, now);
            });
            self.nodes.cache.modify_inode(&op, &dir.frame, |i| touch(i, now));
            self.nodes.since.add(inode.ino, Change::Renamed);
            self.nodes.since.remove_orphan(inode.ino);
        }
        Ok((self.attr_of(&inode)?, Renamed::one(dir, None)))
    }
}
