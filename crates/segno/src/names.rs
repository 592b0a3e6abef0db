//! Creating, linking, renaming and removing names.
use crate::dir::Dir;
use crate::error::{Cause, Doing, Error, Result, errno, refuse};
use crate::read_dir::ReadDir;
use crate::resolve::{Last, Pin};
use segno_engine::{Owner, RenameMode, Volume};
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Permission bits of a directory that is created.
const DIR_MODE: u16 = 0o755;
/// Permission bits of a special file that is created.
const SPECIAL_MODE: u16 = 0o644;

/// A file without content on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A character device.
    CharDevice {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl Dir {
    /// Creates a directory, with the permission bits 0o755.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let owner = Owner::default();
        self.in_parent("create", path.as_ref(), |v, dir, name| v.mkdir(dir, name, DIR_MODE, owner).map(drop))
    }

    /// Creates a directory and those above it, unless they exist.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut missing = Vec::new();
        for above in path.ancestors() {
            match self.metadata(above) {
                Ok(found) if found.is_dir() => break,
                Ok(_) => return Err(Error::new("create", Some(above), segno_engine::Error::NotDir)),
                Err(e) if e.errno() == errno::NOENT => missing.push(above),
                Err(e) => return Err(e),
            }
        }
        for dir in missing.into_iter().rev() {
            match self.create_dir(dir) {
                // Another thread was faster, or the path goes through it twice.
                Err(e) if e.errno() == errno::EXIST && self.metadata(dir)?.is_dir() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Creates a device node, pipe or socket, with the permission bits 0o644. It cannot be opened through this crate.
    pub fn create_special(&self, path: impl AsRef<Path>, special: Special) -> Result<()> {
        let (format, numbers) = match special {
            Special::CharDevice { major, minor } => (0o020_000, (major, minor)),
            Special::BlockDevice { major, minor } => (0o060_000, (major, minor)),
            Special::Fifo => (0o010_000, (0, 0)),
            Special::Socket => (0o140_000, (0, 0)),
        };
        let (mode, owner) = (format | SPECIAL_MODE, Owner::default());
        self.in_parent("create", path.as_ref(), |v, dir, name| {
            v.mknod(dir, name, mode, numbers, owner).map(drop)
        })
    }

    /// Creates a symbolic link at `link`. The target is stored as it is and need not exist.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (target, owner) = (target.as_ref().as_os_str().as_bytes(), Owner::default());
        self.in_parent("create", link.as_ref(), |v, dir, name| v.symlink(dir, name, target, owner).map(drop))
    }

    /// Gives a file another name. A symbolic link at the end of `original` is not followed.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (original, link) = (original.as_ref(), link.as_ref());
        let inode = self.find(original, Last::Keep).doing_at("link to", original)?;
        if inode.kind == FileType::Directory {
            let cause = segno_engine::Error::NotPermitted("a directory has one name only");
            return Err(Error::new("link to", Some(original), cause));
        }
        let pin = Pin::new(self.engine(), &inode).doing_at("link to", original)?;
        self.in_parent("create", link, |v, dir, name| v.link(pin.ino, dir, name).map(drop))
    }

    /// Renames a file or directory. An existing one of the new name is replaced atomically, even if the power
    /// is cut.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_as(from.as_ref(), to.as_ref(), RenameMode::Replace)
    }

    /// Exchanges two names, which must both exist.
    pub fn exchange(&self, one: impl AsRef<Path>, other: impl AsRef<Path>) -> Result<()> {
        self.rename_as(one.as_ref(), other.as_ref(), RenameMode::Exchange)
    }

    /// Changes the last name of a path in the directory that holds it.
    fn in_parent(
        &self,
        action: &'static str,
        path: &Path,
        change: impl FnOnce(&Volume, Ino, &[u8]) -> segno_engine::Result<()>,
    ) -> Result<()> {
        let (dir, name) = self.parent(path).doing_at(action, path)?;
        change(self.engine(), dir.ino, &name).doing_at(action, path)
    }

    fn rename_as(&self, from: &Path, to: &Path, mode: RenameMode) -> Result<()> {
        let (old_dir, old_name) = self.parent(from).doing_at("rename", from)?;
        let (new_dir, new_name) = self.parent(to).doing_at("rename to", to)?;
        let renamed =
            self.engine().rename(old_dir.ino, &old_name, new_dir.ino, &new_name, mode, Owner::default());
        renamed.doing_at("rename", from)
    }

    /// Removes a name of anything but a directory. A symbolic link is not followed.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_parent("remove", path.as_ref(), |v, dir, name| v.unlink(dir, name))
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.in_parent("remove", path.as_ref(), |v, dir, name| v.rmdir(dir, name))
    }

    /// Removes a directory and everything below it. Symbolic links are removed and not followed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        self.remove_tree(path.as_ref())
    }

    fn remove_tree(&self, path: &Path) -> Result<()> {
        let (above_all, name) = self.parent(path).doing_at("remove", path)?;
        let parent = above_all.ino;
        let top = self.engine().lookup(parent, &name).map_err(Cause::from);
        let top = top.and_then(|attr| self.handle_of(&attr)).doing_at("remove", path)?;
        let mut above = vec![Branch { parent, name, rest: ReadDir::new(top, path.to_owned()) }];
        while let Some(mut branch) = above.pop() {
            let Some(entry) = branch.rest.next() else {
                let Branch { parent, name, rest } = branch;
                let path = rest.into_path();
                self.engine().rmdir(parent, &name).doing_at("remove", &path)?;
                continue;
            };
            let (entry, parent) = (entry?, Ino(branch.rest.ino()));
            above.push(branch);
            let name = entry.file_name().into_vec();
            if entry.file_type() != FileType::Directory {
                self.engine().unlink(parent, &name).doing_at("remove", entry.path())?;
                continue;
            }
            if above.iter().any(|b| b.rest.ino() == entry.ino()) {
                let cause = refuse(errno::UCLEAN, "the directory contains itself");
                return Err(Error::new("remove", Some(entry.path()), cause));
            }
            above.push(Branch { parent, name, rest: entry.read_dir()? });
        }
        Ok(())
    }
}

/// A directory that is being removed.
struct Branch {
    parent: Ino,
    name: Vec<u8>,
    rest: ReadDir,
}
