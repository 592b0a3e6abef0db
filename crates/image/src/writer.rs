//! Writes a tree into a volume that is empty.
use crate::build::Progress;
use crate::clock::BuildClock;
use crate::content::Reader;
use crate::tree::{Entry, Kind, Source, Tree};
use crate::{Error, Result};
use segno_engine::{Error as VolumeError, Owner, SetAttr, Volume, XattrMode};
use segno_format::Ino;
use std::os::unix::ffi::OsStrExt;

const REGULAR: u16 = 0o100_000;

/// Creates everything, in the order of the tree.
pub(crate) fn write(
    tree: &Tree,
    volume: &Volume,
    clock: &BuildClock,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    let mut writer =
        Writer { volume, reader: Reader::new(), inodes: Vec::with_capacity(tree.entries.len()), bytes: 0 };
    for (index, entry) in tree.entries.iter().enumerate() {
        clock.set(entry.time);
        let ino = if index == 0 { volume.root() } else { writer.create(entry)? };
        writer.inodes.push(ino);
        // Directories get theirs when they are filled, which changes times, and with no ACL that their files would inherit.
        if !matches!(entry.kind, Kind::Directory | Kind::Link(_)) {
            writer.attributes(entry, ino)?;
        }
        progress(Progress { path: &entry.path, files: index as u64 + 1, bytes: writer.bytes });
    }
    for (entry, &ino) in tree.entries.iter().zip(&writer.inodes) {
        if matches!(entry.kind, Kind::Directory) {
            clock.set(entry.time);
            writer.attributes(entry, ino)?;
        }
    }
    Ok(())
}

struct Writer<'a> {
    volume: &'a Volume,
    reader: Reader,
    /// Of the entries so far.
    inodes: Vec<Ino>,
    bytes: u64,
}

impl Writer<'_> {
    fn create(&mut self, entry: &Entry) -> Result<Ino> {
        let failed = |source| Error::Entry { path: entry.path.clone(), source };
        let dir = self.inode(entry.parent).map_err(failed)?;
        let name = entry.path.file_name().unwrap_or_default().as_bytes();
        let owner = Owner { uid: entry.uid, gid: entry.gid, umask: 0 };
        let attr = match &entry.kind {
            Kind::Directory => match self.volume.mkdir(dir, name, entry.mode, owner) {
                // lost+found, if the volume was formatted with it.
                Err(VolumeError::Exists) => self.volume.lookup(dir, name),
                other => other,
            },
            Kind::File(source) => {
                let ino = self.volume.create(dir, name, REGULAR | entry.mode, owner).map_err(failed)?.ino;
                self.content(entry, source, ino)?;
                return self.volume.release(ino).map(|()| ino).map_err(failed);
            }
            Kind::Symlink(target) => self.volume.symlink(dir, name, target.as_bytes(), owner),
            Kind::Special { format, numbers } => {
                self.volume.mknod(dir, name, format | entry.mode, *numbers, owner)
            }
            Kind::Link(first) => self.inode(*first).and_then(|ino| self.volume.link(ino, dir, name)),
        };
        attr.map(|a| a.ino).map_err(failed)
    }

    fn inode(&self, index: usize) -> Result<Ino, VolumeError> {
        self.inodes.get(index).copied().ok_or(VolumeError::Invariant("an entry precedes its directory"))
    }

    fn content(&mut self, entry: &Entry, source: &Source, ino: Ino) -> Result<()> {
        let failed = |source| Error::Entry { path: entry.path.clone(), source };
        let (volume, total) = (self.volume, &mut self.bytes);
        self.reader.read(source, |offset, run| {
            let mut done = 0;
            while let Some(rest) = run.get(done..).filter(|rest| !rest.is_empty()) {
                done += volume.write(ino, offset + done as u64, rest).map_err(failed)?;
            }
            *total += run.len() as u64;
            Ok(())
        })?;
        let size = SetAttr { size: Some(source.size), ..SetAttr::default() };
        volume.setattr(ino, &size).map(drop).map_err(failed)
    }

    fn attributes(&self, entry: &Entry, ino: Ino) -> Result<()> {
        for (name, value) in &entry.xattrs {
            self.volume.setxattr(ino, name, value, XattrMode::Set).map_err(|source| match source {
                VolumeError::NoSpace => Error::Entry { path: entry.path.clone(), source },
                _ => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    Error::Xattr { name, path: entry.path.clone(), source }
                }
            })?;
        }
        let change = SetAttr {
            // Symbolic links have no permissions of their own.
            mode: Some(entry.mode).filter(|_| !matches!(entry.kind, Kind::Symlink(_))),
            uid: Some(entry.uid),
            gid: Some(entry.gid),
            atime: Some(entry.time),
            mtime: Some(entry.time),
            ctime: Some(entry.time),
            ..SetAttr::default()
        };
        let failed = |source| Error::Entry { path: entry.path.clone(), source };
        self.volume.setattr(ino, &change).map(drop).map_err(failed)
    }
}
