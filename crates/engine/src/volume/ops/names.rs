//! Names: creation, removal, renaming, listing.
use crate::error::Result;
use crate::names::{Names, Renamed};
use crate::types::{Attr, DirEntry, Owner, RenameMode};
use crate::volume::Volume;
use segno_format::Ino;

impl Volume {
    /// Looks up a name.
    pub fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.admission.admit_read();
        self.names.lookup(dir, name)
    }

    /// Lists a directory from a position, including `.` and `..`, until `each` returns false; that entry is not
    /// consumed. A position is file block × 214 + slot, as in Linux, so it is stable while other names are added or
    /// removed.
    pub fn readdir(&self, dir: Ino, pos: u64, each: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.admission.admit_read();
        self.names.dirs.readdir(dir, pos, each)
    }

    /// Creates a regular file, device, FIFO or socket, by the format bits of `mode`; none mean a regular file.
    pub fn mknod(&self, dir: Ino, name: &[u8], mode: u16, rdev: (u32, u32), owner: Owner) -> Result<Attr> {
        self.make(|names| names.mknod(dir, name, mode, rdev, owner))
    }

    /// Creates a regular file and opens it, atomically.
    pub fn create(&self, dir: Ino, name: &[u8], mode: u16, owner: Owner) -> Result<Attr> {
        self.make(|names| names.create(dir, name, mode, owner))
    }

    /// Creates a directory.
    pub fn mkdir(&self, dir: Ino, name: &[u8], mode: u16, owner: Owner) -> Result<Attr> {
        self.make(|names| names.mkdir(dir, name, mode, owner))
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], owner: Owner) -> Result<Attr> {
        self.make(|names| names.symlink(dir, name, target, owner))
    }

    /// Creates a regular file without a name. It starts with one open handle and is freed with the last one unless
    /// linked.
    pub fn tmpfile(&self, dir: Ino, mode: u16, owner: Owner) -> Result<Attr> {
        self.admission.admit_change()?;
        self.names.tmpfile(dir, mode, owner)
    }

    /// Adds a name to an inode. For a file created without a name it is the first.
    pub fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.make(|names| names.link(ino, dir, name))
    }

    /// Removes a name of an inode that is not a directory.
    pub fn unlink(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.admission.admit_change()?;
        self.finish(self.names.unlink(dir, name)?)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, dir: Ino, name: &[u8]) -> Result<()> {
        self.admission.admit_change()?;
        self.finish(self.names.rmdir(dir, name)?)
    }

    /// Renames, exchanges two names, or leaves a whiteout. `owner` is the owner of the whiteout.
    pub fn rename(
        &self,
        old_dir: Ino,
        old_name: &[u8],
        new_dir: Ino,
        new_name: &[u8],
        mode: RenameMode,
        owner: Owner,
    ) -> Result<()> {
        self.admission.admit_change()?;
        self.finish(self.names.rename(old_dir, old_name, new_dir, new_name, mode, owner)?)
    }

    /// Makes an inode or a name.
    fn make(&self, make: impl FnOnce(&Names) -> Result<(Attr, Renamed)>) -> Result<Attr> {
        self.admission.admit_change()?;
        let (attr, made) = make(&self.names)?;
        self.finish(made).map(|()| attr)
    }

    /// Commits if a directory or the mount is synchronous, and frees an inode that has lost its last name.
    fn finish(&self, renamed: Renamed) -> Result<()> {
        if renamed.is_synchronous() || self.base.opts.dirsync {
            self.commit.sync_metadata()?;
        }
        renamed.unnamed.map_or(Ok(()), |inode| self.names.free_if_unnamed(&inode))
    }
}
