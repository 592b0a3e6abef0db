//! Operations on names: directories, links, special files, rename, unlink.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ioctl_getflags, ioctl_setflags, linkat, makedev,
    mknodat, renameat_with,
};
use rustix::io::Errno;

use super::Worker;
use super::contents::random_bytes;
use super::tree::{CASEFOLD, fresh_in, may_nest};
use crate::errno;

/// A block is spent for each inode.
const INODE: u64 = 4096;

impl Worker {
    pub(super) fn make_dir(&mut self) -> Result<()> {
        let path = self.tree.fresh(&self.root, &mut self.rng)?;
        self.make_dir_at(path)
    }

    pub(super) fn make_deep_dirs(&mut self) -> Result<()> {
        let mut path = self.tree.fresh(&self.root, &mut self.rng)?;
        for _ in 0..self.rng.between(5, 60) {
            if !may_nest(&self.root, &path) || !self.spend(INODE) {
                break;
            }
            self.make_dir_at(path.clone())?;
            path = fresh_in(&self.root, &path, &mut self.rng)?;
        }
        Ok(())
    }

    /// Enough names for several dentry blocks and hash levels; most are links, which cost no inode.
    pub(super) fn make_big_dir(&mut self) -> Result<()> {
        let dir = self.tree.fresh(&self.root, &mut self.rng)?;
        let count = self.rng.between(100, 900);
        if !may_nest(&self.root, &dir) || !self.spend(count * INODE / 10) {
            return Ok(());
        }
        self.make_dir_at(dir.clone())?;
        let mut original = None;
        for number in 0..count {
            let path = dir.join(format!("entry-{number:04}-{:x}", self.rng.draw()));
            let full = self.full(&path);
            match &original {
                Some(original) if number % 10 != 0 => {
                    fs::hard_link(original, &full).with_context(|| format!("linking {}", full.display()))?;
                }
                _ => {
                    File::create_new(&full).with_context(|| format!("creating {}", full.display()))?;
                    original = Some(full);
                }
            }
            self.tree.files.push(path);
        }
        Ok(())
    }

    pub(super) fn make_casefolded_dir(&mut self) -> Result<()> {
        let path = self.tree.fresh(&self.root, &mut self.rng)?;
        if !may_nest(&self.root, &path) {
            return Ok(());
        }
        self.make_dir_at(path.clone())?;
        let dir = File::open(self.full(&path)).with_context(|| format!("opening {}", path.display()))?;
        let set = ioctl_getflags(&dir).and_then(|flags| ioctl_setflags(&dir, flags | CASEFOLD));
        self.skips.attempt("casefold flag", set, &[Errno::INVAL])?;
        Ok(())
    }

    fn make_dir_at(&mut self, path: PathBuf) -> Result<()> {
        // One that could not take further names would be of no use to later operations.
        if may_nest(&self.root, &path) {
            let full = self.full(&path);
            fs::create_dir(&full).with_context(|| format!("making the directory {}", full.display()))?;
            self.tree.dirs.push(path);
        }
        Ok(())
    }

    pub(super) fn link(&mut self) -> Result<()> {
        let Some(from) = self.any_file() else { return Ok(()) };
        let to = self.tree.fresh(&self.root, &mut self.rng)?;
        let linked = fs::hard_link(self.full(&from), self.full(&to)).map_err(|error| errno::of(&error));
        let linked = self.attempt("link", linked);
        if linked.with_context(|| format!("{} to {}", from.display(), to.display()))?.is_some() {
            self.tree.files.push(to);
        }
        Ok(())
    }

    /// Targets from one byte to the limit; nothing needs to be there.
    pub(super) fn symlink(&mut self) -> Result<()> {
        let length = match self.rng.below(5) {
            0 => 1,
            1 => self.rng.between(3400, 4095),
            _ => self.rng.between(2, 200),
        };
        let target: String = (0..length).map(|_| if self.rng.chance(10) { '/' } else { 't' }).collect();
        let path = self.tree.fresh(&self.root, &mut self.rng)?;
        // f2fs refuses a target that its one block cannot take with the terminating zero.
        let made = symlink(&target, self.full(&path)).map_err(|error| errno::of(&error));
        let made = self.skips.attempt("symlink of nearly 4096 bytes", made, &[Errno::NAMETOOLONG])?;
        if made.is_some() {
            self.tree.others.push(path);
        }
        Ok(())
    }

    pub(super) fn make_special(&mut self) -> Result<()> {
        let (what, kind) = match self.rng.below(4) {
            0 => ("fifo", FileType::Fifo),
            1 => ("socket", FileType::Socket),
            2 => ("character device", FileType::CharacterDevice),
            _ => ("block device", FileType::BlockDevice),
        };
        // Old and new encoding of device numbers.
        let (major, minor) = if self.rng.chance(50) {
            (self.rng.below(256), self.rng.below(256))
        } else {
            (self.rng.below(1 << 12), self.rng.below(1 << 20))
        };
        let device = match kind {
            FileType::CharacterDevice | FileType::BlockDevice => makedev(major as u32, minor as u32),
            _ => 0,
        };
        let path = self.tree.fresh(&self.root, &mut self.rng)?;
        let mode = Mode::from_raw_mode(self.rng.below(0o1000) as u32);
        let made = mknodat(CWD, self.full(&path), kind, mode, device);
        if self.attempt(what, made)?.is_some() {
            self.tree.others.push(path);
        }
        Ok(())
    }

    /// A file that gets its name after its content.
    pub(super) fn create_unnamed(&mut self) -> Result<()> {
        let path = self.tree.fresh(&self.root, &mut self.rng)?;
        let full = self.full(&path);
        let parent = full.parent().context("a path without a parent")?;
        let flags = i32::try_from(OFlags::TMPFILE.bits())?;
        let made = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(parent)
            .map_err(|error| errno::of(&error));
        // A kernel or server without it takes the flag for opening a directory.
        let file = self.skips.attempt("O_TMPFILE", made, &[Errno::ISDIR, Errno::INVAL])?;
        let Some(file) = file else { return Ok(()) };
        let size = self.rng.below(5000);
        file.write_all_at(&random_bytes(&mut self.rng, size), 0)
            .context("writing to a file without a name")?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, name, CWD, &full, AtFlags::SYMLINK_FOLLOW)
            .with_context(|| format!("naming {}", full.display()))?;
        self.tree.files.push(path);
        Ok(())
    }

    pub(super) fn rename(&mut self) -> Result<()> {
        match self.rng.below(6) {
            0 => self.rename_over(),
            1 => self.rename_exchange(),
            2 => self.rename_dir(),
            3 => self.rename_to_fresh("rename whiteout", RenameFlags::WHITEOUT),
            _ => self.rename_to_fresh("rename no-replace", RenameFlags::NOREPLACE),
        }
    }

    fn rename_to_fresh(&mut self, what: &'static str, flags: RenameFlags) -> Result<()> {
        let Some(from) = self.any_file() else { return Ok(()) };
        let to = self.tree.fresh(&self.root, &mut self.rng)?;
        if self.rename_with(what, &from, &to, flags)? {
            self.tree.rename(&from, &to);
            if flags == RenameFlags::WHITEOUT {
                self.tree.others.push(from);
            }
        }
        Ok(())
    }

    fn rename_over(&mut self) -> Result<()> {
        let (Some(from), Some(to)) = (self.any_file(), self.any_file()) else { return Ok(()) };
        self.rename_with("rename", &from, &to, RenameFlags::empty())?;
        // Two names of one file: rename leaves both.
        if fs::symlink_metadata(self.full(&from)).is_err() {
            self.tree.forget(&to);
            self.tree.rename(&from, &to);
        }
        Ok(())
    }

    fn rename_exchange(&mut self) -> Result<()> {
        let (Some(from), Some(to)) = (self.any_file(), self.any_file()) else { return Ok(()) };
        // Both were and are names of regular files: nothing changes for the list.
        self.rename_with("rename exchange", &from, &to, RenameFlags::EXCHANGE)?;
        Ok(())
    }

    fn rename_dir(&mut self) -> Result<()> {
        let Some(from) = self.any_subdir() else { return Ok(()) };
        let to = self.tree.fresh(&self.root, &mut self.rng)?;
        let inside =
            |path: &PathBuf| path.strip_prefix(&from).is_ok_and(|rest| !may_nest(&self.root, &to.join(rest)));
        // A directory cannot move into itself, and all in it has to stay within reach.
        if to.starts_with(&from) || self.tree.bottom_up().iter().any(inside) {
            return Ok(());
        }
        if self.rename_with("rename directory", &from, &to, RenameFlags::empty())? {
            self.tree.rename(&from, &to);
        }
        Ok(())
    }

    fn rename_with(
        &mut self,
        what: &'static str,
        from: &Path,
        to: &Path,
        flags: RenameFlags,
    ) -> Result<bool> {
        let renamed = renameat_with(CWD, self.full(from), CWD, self.full(to), flags);
        // EINVAL is how a file system refuses flags it does not know.
        let unknown: &[Errno] = if flags.is_empty() { &[] } else { &[Errno::INVAL] };
        let done = self.skips.attempt(what, renamed, unknown);
        Ok(done.with_context(|| format!("{} to {}", from.display(), to.display()))?.is_some())
    }

    pub(super) fn unlink(&mut self) -> Result<()> {
        let all = self.tree.files.len() + self.tree.others.len();
        let index = self.rng.index(all);
        let Some(path) = self.tree.files.iter().chain(&self.tree.others).nth(index).cloned() else {
            return Ok(());
        };
        fs::remove_file(self.full(&path)).with_context(|| format!("unlinking {}", path.display()))?;
        self.tree.forget(&path);
        Ok(())
    }

    /// Removes a directory and the files in it, unless it has subdirectories.
    pub(super) fn remove_dir(&mut self) -> Result<()> {
        let Some(dir) = self.any_subdir() else { return Ok(()) };
        if self.tree.dirs.iter().any(|other| other.starts_with(&dir) && *other != dir) {
            return Ok(());
        }
        let inside = |path: &&PathBuf| path.starts_with(&dir);
        let files: Vec<_> = self.tree.files.iter().chain(&self.tree.others).filter(inside).cloned().collect();
        for path in files {
            fs::remove_file(self.full(&path)).with_context(|| format!("unlinking {}", path.display()))?;
            self.tree.forget(&path);
        }
        fs::remove_dir(self.full(&dir)).with_context(|| format!("removing {}", dir.display()))?;
        self.tree.forget(&dir);
        Ok(())
    }
}
