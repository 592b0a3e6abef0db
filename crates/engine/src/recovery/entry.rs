//! Replay of the directory entry of a new file.
use super::chain::broken;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::dir::{DirName, Probe};
use crate::recovery::Recovery;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags, RawInode};
use segno_format::{BlockAddr, Ino};
use std::sync::Arc;
use zerocopy::FromZeros;

impl Recovery<'_> {
    /// Points the logged name to the inode. An inode with that name in the checkpoint had lost it when the file was
    /// synced.
    pub(super) fn replay_entry(&self, ino: Ino, at: BlockAddr) -> Result<()> {
        let block = self.base.dev.read(at)?;
        let logged: &RawInode = block.view();
        let dir = self.files.inode(Ino(logged.i_pino.get()))?;
        if !dir.is_dir() || logged.name().is_empty() {
            return Err(broken(at, "a name without a directory", dir.ino.0.into(), 0).into());
        }
        let name = self.logged_name(&dir, logged.name(), logged)?;
        let kind = FileType::of_mode(logged.i_mode.get());
        loop {
            match self.names.dirs.probe(&dir, &name)? {
                Probe::Found(found) if found.ino == ino => return Ok(()),
                Probe::Found(found) => {
                    let other = self.files.inode(found.ino)?;
                    if other.is_dir() && !self.names.dirs.is_empty(&other)? {
                        return self.name_by_number(&dir, ino, kind);
                    }
                    self.names.remove_entry(&self.base.tx.begin(), &dir, &name, &other, &found)?;
                }
                Probe::Missing(room) => {
                    return self.names.dirs.insert_at(&self.base.tx.begin(), &dir, &name, room, ino, kind);
                }
            }
        }
    }

    /// The name as the directory stores it; encrypted names need no key.
    fn logged_name<'a>(&self, dir: &Inode, name: &'a [u8], logged: &RawInode) -> Result<DirName<'a>> {
        let (advise, flags) = dir.get(|i| (i.advise(), i.flags()));
        if !advise.contains(Advise::ENCRYPT) {
            return self.names.dirs.name(dir, name);
        }
        let behind = logged.i_name.get(logged.name().len()..).and_then(|rest| rest.first_chunk::<4>());
        let hash = behind.filter(|_| flags.contains(InodeFlags::CASEFOLD)).map(|h| u32::from_le_bytes(*h));
        Ok(DirName::encrypted(name, hash))
    }

    /// Replay does not repeat removals, so a directory that was emptied and removed before the file took its name
    /// still has its entries. Both are kept: the file is named by its number, as in lost+found.
    fn name_by_number(&self, dir: &Arc<Inode>, ino: Ino, kind: FileType) -> Result<()> {
        let inode = self.files.inode(ino)?;
        let text = format!("#{ino}");
        let name = self.logged_name(dir, text.as_bytes(), &RawInode::new_zeroed())?;
        let Probe::Missing(room) = self.names.dirs.probe(dir, &name)? else { return Err(Error::Exists) };
        let op = self.base.tx.begin();
        self.names.dirs.insert_at(&op, dir, &name, room, ino, kind)?;
        self.files.nodes.cache.modify_inode(&op, &inode.frame, |i| i.set_name(dir.ino, text.as_bytes()));
        Ok(())
    }
}
