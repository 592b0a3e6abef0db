//! Makes one file, symbolic link or special file.
use super::is_context;
use super::place::{PARTIAL, Target};
use super::sink::{Copied, Source};
use crate::RescueError;
use crate::attrs::{device_number, xattrs};
use segno_format::dentry::FileType;
use segno_format::inode::Advise;
use segno_host::{Attributes, Kind};
use std::io;
use std::os::unix::fs::FileExt;

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
        done.map_err(|e| RescueError::target("cannot write", full, e))
    }

    /// Whether a file of this type, size and time is there.
    fn has(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<bool, RescueError> {
        let raw = source.file.raw();
        let Ok(stat) = self.tree.stat(path) else { return Ok(false) };
        let kind = stat.st_mode & 0o170_000 == u32::from(raw.i_mode.get()) & 0o170_000;
        let size = !raw.is_reg() || u64::try_from(stat.st_size) == Ok(raw.i_size.get());
        let time = stat.st_mtime.cast_unsigned() == raw.i_mtime.get();
        if kind && size && time {
            return Ok(true);
        }
        // Half a copy of an earlier run.
        self.tree.remove(path).map_err(|e| RescueError::target("cannot replace", self.full(path), e))?;
        Ok(false)
    }

    fn regular(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> io::Result<Copied> {
        let part = [PARTIAL.into()];
        let host = self.tree.make_file(&part)?;
        let mut written = || -> io::Result<Copied> {
            let holes = source.content(&mut |offset, bytes| host.write_all_at(bytes, offset))?;
            host.set_len(source.file.raw().i_size.get())?;
            let read = source.xattrs();
            let refused_xattrs = self.tree.finish_file(&host, &source.attributes(&read.list))?;
            self.tree.place(PARTIAL, path)?;
            Ok(Copied { holes, refused_xattrs, ..read.copied() })
        };
        let done = written();
        if done.is_err() {
            // The error of the write is the one to report, and the next run removes the file.
            let _best_effort = self.tree.remove(&part);
        }
        done
    }

    fn symlink(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> io::Result<Copied> {
        let to = match source.target()? {
            Ok(to) => to,
            Err(failed) => return Ok(failed),
        };
        self.tree.make_symlink(path, &to)?;
        self.tree.finish_node(path, (Kind::Symlink, 0, 0), &source.attributes(&[]))?;
        Ok(Copied::default())
    }

    fn special(&mut self, path: &[Vec<u8>], source: &Source<'_>, kind: FileType) -> io::Result<Copied> {
        let kind = match kind {
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            _ => return Ok(Copied { failed: Some("its kind is unknown"), ..Copied::default() }),
        };
        let (major, minor) = device_number(source.file);
        let node = (kind, major, minor);
        if !self.tree.make_node(path, node)? {
            return Ok(Copied { left_out: true, ..Copied::default() });
        }
        let read = source.xattrs();
        let refused_xattrs = self.tree.finish_node(path, node, &source.attributes(&read.list))?;
        Ok(Copied { refused_xattrs, ..read.copied() })
    }
}

/// Extended attributes of a file, as far as they can be read.
pub(super) struct Xattrs {
    /// Full names and values.
    pub(super) list: Vec<(Vec<u8>, Vec<u8>)>,
    complete: bool,
    encrypted: bool,
}

impl Xattrs {
    fn copied(&self) -> Copied {
        Copied { xattrs_lost: !self.complete, encrypted: self.encrypted, ..Copied::default() }
    }
}

impl Source<'_> {
    /// Reads the extended attributes.
    pub(super) fn xattrs(&self) -> Xattrs {
        let (list, complete) = xattrs(self.volume, self.file);
        let encrypted = self.file.raw().advise().contains(Advise::ENCRYPT) || list.iter().any(is_context);
        let named = list.into_iter().filter_map(|a| Some((a.full_name()?, a.value)));
        Xattrs { list: named.collect(), complete, encrypted }
    }

    /// The attributes for the target; a damaged inode may have any numbers.
    pub(super) fn attributes<'a>(&self, xattrs: &'a [(Vec<u8>, Vec<u8>)]) -> Attributes<'a> {
        let raw = self.file.raw();
        Attributes {
            mode: raw.i_mode.get().into(),
            uid: raw.i_uid.get(),
            gid: raw.i_gid.get(),
            accessed: (raw.i_atime.get().cast_signed(), raw.i_atime_nsec.get()),
            modified: (raw.i_mtime.get().cast_signed(), raw.i_mtime_nsec.get()),
            xattrs: xattrs.iter().map(|(name, value)| (&name[..], &value[..])).collect(),
        }
    }
}
