//! Makes one file, symbolic link or special file.
use super::is_context;
use super::place::{PART, Target};
use crate::RescueError;
use crate::attrs::{device_number, xattrs};
use crate::content::{self, Holes, Write};
use crate::file::{Choose, File, Index, Slot};
use crate::volume::Volume;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType as Node, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use segno_format::dentry::FileType;
use segno_format::inode::Advise;
use std::ffi::OsStr;
use std::fs::File as HostFile;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest target of a symbolic link.
const SYMLINK_MAX: usize = 4095;

/// A file of the volume, ready to be copied.
pub struct Source<'s> {
    /// The volume.
    pub volume: &'s Volume<'s>,
    /// The version of the inode.
    pub file: &'s File,
    /// Its nodes.
    pub index: &'s Index,
    /// Chooses further nodes.
    pub choose: &'s Choose<'s>,
    /// Which blocks may be shown.
    pub allowed: &'s dyn Fn(&Slot) -> bool,
    /// Set to give up, also within a file.
    pub stop: &'s AtomicBool,
}

impl Source<'_> {
    /// Gives the content, block by block. Once `stop` is set it fails with [`ErrorKind::Interrupted`].
    pub fn content(&self, write: &mut Write<'_>) -> std::io::Result<Holes> {
        let write: &mut Write<'_> = &mut |offset, bytes| match self.stop.load(Ordering::Relaxed) {
            true => Err(ErrorKind::Interrupted.into()),
            false => write(offset, bytes),
        };
        content::read(self.volume, self.file, self.index, self.allowed, write)
    }
}

/// What was noticed while copying.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// Blocks that became holes.
    pub holes: Holes,
    /// Whether extended attributes could not be read.
    pub xattrs_lost: bool,
    /// Extended attributes that the target does not take.
    pub refused_xattrs: u32,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Whether it was there already.
    pub kept: bool,
    /// Why it was not made.
    pub failed: Option<&'static str>,
}

impl Target {
    /// Copies anything but a directory.
    pub(super) fn file(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, RescueError> {
        let kind = FileType::of_mode(source.file.raw().i_mode.get());
        let full = self.full(path);
        if self.options.resume && self.has(path, source)? {
            return Ok(Copied { kept: true, ..Copied::default() });
        }
        let done = match kind {
            FileType::Regular => self.regular(path, source),
            FileType::Symlink => self.symlink(path, source),
            _ => self.special(path, source, kind),
        };
        done.map_err(|e| match e {
            Failure::Io(e) => RescueError::target("cannot write", full, e),
            Failure::Rescue(e) => e,
        })
    }

    /// Whether a file of this type, size and time is there.
    fn has(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<bool, RescueError> {
        let raw = source.file.raw();
        let (dir, name) = self.parent(path)?;
        let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
        let kind = stat.st_mode & 0o170_000 == u32::from(raw.i_mode.get()) & 0o170_000;
        let size = !raw.is_reg() || u64::try_from(stat.st_size) == Ok(raw.i_size.get());
        let time = stat.st_mtime.cast_unsigned() == raw.i_mtime.get();
        if kind && size && time {
            return Ok(true);
        }
        // Half a copy of an earlier run.
        rustix::fs::unlinkat(dir, name, AtFlags::empty())
            .map_err(|e| RescueError::target("cannot replace", self.full(path), e))?;
        Ok(false)
    }

    fn regular(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, Failure> {
        let (options, privileged) = (self.options, self.privileged);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = rustix::fs::openat2(&self.root, PART, flags, Mode::RUSR | Mode::WUSR, resolve)?;
        let host = HostFile::from(fd);
        let written = || -> Result<Copied, Failure> {
            let holes = source.content(&mut |offset, bytes| host.write_all_at(bytes, offset))?;
            host.set_len(source.file.raw().i_size.get())?;
            let copied = Copied { holes, ..Copied::default() };
            Ok(source.attributes(&host, options, privileged).map(|c| c.and(copied))?)
        };
        let done = written().and_then(|copied| {
            let root = rustix::io::dup(&self.root)?;
            let (dir, name) = self.parent(path).map_err(Failure::Rescue)?;
            match rustix::fs::renameat_with(&root, PART, dir, name, RenameFlags::NOREPLACE) {
                // Not every file system has that; nothing else writes to the target.
                Err(Errno::INVAL) => rustix::fs::renameat(&root, PART, dir, name)?,
                done => done?,
            }
            Ok(copied)
        });
        if done.is_err() {
            let _left = rustix::fs::unlinkat(&self.root, PART, AtFlags::empty());
        }
        done
    }

    fn symlink(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, Failure> {
        let mut to = Vec::new();
        source.content(&mut |offset, bytes| {
            if offset == to.len() as u64 && to.len() <= SYMLINK_MAX {
                to.extend_from_slice(bytes);
            }
            Ok(())
        })?;
        if to.is_empty() || to.len() > SYMLINK_MAX || to.contains(&0) {
            let failed = Some("the target of the symbolic link is lost, damaged or encrypted");
            return Ok(Copied { failed, ..Copied::default() });
        }
        let privileged = self.privileged;
        let (dir, name) = self.parent(path).map_err(Failure::Rescue)?;
        rustix::fs::symlinkat(OsStr::from_bytes(&to), dir, name)?;
        source.attributes_at(dir, name, None, privileged)?;
        Ok(Copied::default())
    }

    fn special(&mut self, path: &[Vec<u8>], source: &Source<'_>, kind: FileType) -> Result<Copied, Failure> {
        let (options, privileged) = (self.options, self.privileged);
        let node = match kind {
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            FileType::CharDevice if options.devices => Node::CharacterDevice,
            FileType::BlockDevice if options.devices => Node::BlockDevice,
            _ => {
                return Ok(Copied {
                    failed: Some("device nodes are made only with --devices"),
                    ..Copied::default()
                });
            }
        };
        let (major, minor) = device_number(source.file);
        let (dir, name) = self.parent(path).map_err(Failure::Rescue)?;
        rustix::fs::mknodat(dir, name, node, Mode::RUSR | Mode::WUSR, rustix::fs::makedev(major, minor))?;
        source.attributes_at(dir, name, Some(options), privileged)?;
        Ok(Copied::default())
    }
}

/// Why a file was not made.
enum Failure {
    Io(std::io::Error),
    Rescue(RescueError),
}

impl<E: Into<std::io::Error>> From<E> for Failure {
    fn from(e: E) -> Self {
        Self::Io(e.into())
    }
}

impl Copied {
    fn and(self, other: Self) -> Self {
        Self { holes: other.holes, ..self }
    }
}

impl Source<'_> {
    /// Sets everything on an open file or directory.
    pub(super) fn attributes(
        &self,
        to: &impl rustix::fd::AsFd,
        options: super::OutputOptions,
        privileged: bool,
    ) -> Result<Copied, Errno> {
        let raw = self.file.raw();
        let (list, complete) = xattrs(self.volume, self.file, self.choose);
        let mut copied = Copied {
            xattrs_lost: !complete,
            encrypted: raw.advise().contains(Advise::ENCRYPT) || list.iter().any(is_context),
            ..Copied::default()
        };
        super::attributes::owner(to, raw, privileged)?;
        for a in &list {
            let Some(name) = a.full_name() else { continue };
            copied.refused_xattrs += u32::from(!super::attributes::xattr(to, &name, &a.value));
        }
        super::attributes::mode_and_times(to, raw, options)?;
        Ok(copied)
    }

    fn attributes_at(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        mode: Option<super::OutputOptions>,
        privileged: bool,
    ) -> Result<(), Errno> {
        super::attributes::at(dir, name, self.file.raw(), mode, privileged)
    }
}
