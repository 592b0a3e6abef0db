//! Writes files into a directory of the host.
use crate::attributes::Object;
use crate::dirs::Dirs;
use crate::{Attributes, Entry, Kind, LeftOut, Preserve};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::fs::{linkat, mkdirat, mknodat, openat, renameat, renameat_with, statat, symlinkat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A special file: its kind, major and minor number.
pub type Node = (Kind, u32, u32);

/// A directory that is filled. A path is the list of names below it. A new file is accessible to its owner alone
/// until its attributes are set.
#[derive(Debug)]
pub struct HostTree {
    root: OwnedFd,
    dirs: Dirs,
    preserve: Preserve,
    /// Owners can be set.
    privileged: bool,
    left_out: LeftOut,
}

impl HostTree {
    /// Opens a directory of the caller, which exists.
    pub fn open(path: &Path, preserve: Preserve) -> io::Result<Self> {
        Self::of(&Entry::named(path, true)?, preserve)
    }

    /// Creates a directory of the caller unless it exists, and opens it.
    pub fn create(path: &Path, preserve: Preserve) -> io::Result<Self> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            // A link that replaced it is not followed.
            Ok(()) => Self::of(&Entry::named(path, false)?, preserve),
            Err(Errno::EXIST) => Self::open(path, preserve),
            Err(e) => Err(e.into()),
        }
    }

    fn of(root: &Entry, preserve: Preserve) -> io::Result<Self> {
        let root = root.dir()?;
        let dirs = Dirs::new(rustix::io::fcntl_dupfd_cloexec(&root, 0)?);
        let privileged = rustix::process::geteuid().is_root();
        Ok(Self { root, dirs, preserve, privileged, left_out: LeftOut::default() })
    }

    /// Whether the directory has no entry.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(Entry::list(&self.root)?.is_empty())
    }

    /// Whether owners can be set.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        self.privileged
    }

    /// Properties that were left out so far.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Creates a directory.
    pub fn make_dir(&mut self, path: &[Vec<u8>]) -> Result<(), Errno> {
        let (dir, name) = self.dirs.parent(path)?;
        mkdirat(dir, name, Mode::RWXU)
    }

    /// Whether a directory is there, and not a link to one.
    pub fn has_dir(&mut self, path: &[Vec<u8>]) -> bool {
        self.dirs.get(path).is_ok()
    }

    /// Creates an empty file.
    pub fn make_file(&mut self, path: &[Vec<u8>]) -> Result<File, Errno> {
        let (dir, name) = self.dirs.parent(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    /// Creates a symbolic link.
    pub fn make_symlink(&mut self, path: &[Vec<u8>], target: &[u8]) -> Result<(), Errno> {
        let (dir, name) = self.dirs.parent(path)?;
        symlinkat(OsStr::from_bytes(target), dir, name)
    }

    /// Creates a special file; false if it is a device and was left out.
    pub fn make_node(&mut self, path: &[Vec<u8>], (kind, major, minor): Node) -> Result<bool, Errno> {
        let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
        if is_device && !self.preserve.contains(Preserve::DEVICES) {
            self.left_out.devices += 1;
            return Ok(false);
        }
        let (dir, name) = self.dirs.parent(path)?;
        let device = if is_device { rustix::fs::makedev(major, minor) } else { 0 };
        mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device).map(|()| true)
    }

    /// Gives a file one more name.
    pub fn hard_link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), Errno> {
        let (dir, from) = self.dirs.parent(first)?;
        let dir = rustix::io::fcntl_dupfd_cloexec(dir, 0)?;
        let (to_dir, to) = self.dirs.parent(path)?;
        linkat(&dir, from, to_dir, to, AtFlags::empty())
    }

    /// Removes a name of anything but a directory.
    pub fn remove(&mut self, path: &[Vec<u8>]) -> Result<(), Errno> {
        let (dir, name) = self.dirs.parent(path)?;
        unlinkat(dir, name, AtFlags::empty())
    }

    /// Moves a file from the root to its place, which is free.
    pub fn place(&mut self, from: &str, path: &[Vec<u8>]) -> Result<(), Errno> {
        let (dir, name) = self.dirs.parent(path)?;
        match renameat_with(&self.root, from, dir, name, RenameFlags::NOREPLACE) {
            // Not every file system has that.
            Err(Errno::INVAL) => renameat(&self.root, from, dir, name),
            done => done,
        }
    }

    /// Attributes of the file at a path; a symbolic link is not followed.
    pub fn stat(&mut self, path: &[Vec<u8>]) -> Result<Stat, Errno> {
        let (dir, name) = self.dirs.parent(path)?;
        statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Sets the attributes of a file from [`Self::make_file`]. The result is the number of extended attributes that the host refused.
    pub fn finish_file(&mut self, file: &File, attributes: &Attributes<'_>) -> Result<u32, Errno> {
        attributes.set(&Object::Open(file.as_fd()), self.preserve, self.privileged, &mut self.left_out)
    }

    /// Sets the attributes of a directory, once it is filled.
    pub fn finish_dir(&mut self, path: &[Vec<u8>], attributes: &Attributes<'_>) -> Result<u32, Errno> {
        let dir = self.dirs.get(path)?;
        attributes.set(&Object::Open(dir.as_fd()), self.preserve, self.privileged, &mut self.left_out)
    }

    /// Sets the attributes of a symbolic link or a special file that was created as `made`. It is an error if another file has its
    /// name by now.
    pub fn finish_node(
        &mut self,
        path: &[Vec<u8>],
        made: Node,
        attributes: &Attributes<'_>,
    ) -> io::Result<u32> {
        let (dir, name) = self.dirs.parent(path)?;
        let (kind, major, minor) = made;
        let entry = Entry::at(dir, name, kind)?;
        let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
        if is_device && entry.meta().rdev() != rustix::fs::makedev(major, minor) {
            return Err(io::Error::other("it was replaced by another device"));
        }
        let object = Object::Held(&entry, entry.path());
        Ok(attributes.set(&object, self.preserve, self.privileged, &mut self.left_out)?)
    }
}

#[cfg(test)]
mod tests;
