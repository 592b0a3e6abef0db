//! Reads the names and attributes of a directory tree of the host.
use crate::content::{Content, HostFile, Place};
use crate::options::BuildOptions;
use crate::tree::{Index, Inode, Kind, Names, ROOT, Tree};
use crate::{Error, Result};
use segno_engine::Time;
use segno_format::dentry::FileType;
use segno_host::{Dirs, Entry};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names below the root.
type Below = Vec<Vec<u8>>;

/// The tree below a directory.
pub(crate) fn scan(root: &Path, options: &BuildOptions) -> Result<Tree> {
    let failed = |e| Error::host("read", root, e);
    // A symbolic link as the source itself is followed; those below it are not.
    let entry = Entry::named(root, true).map_err(failed)?;
    let dirs = Dirs::new(entry.dir().map_err(failed)?);
    let root = root.canonicalize().map_err(failed)?;
    let mut scan = Scan { root: &root, options, dirs, linked: HashMap::new(), tree: Tree::default() };
    scan.add(&[], &entry)?;
    let mut rest = vec![(Below::new(), ROOT)];
    while let Some((dir, index)) = rest.pop() {
        scan.children(&dir, index, &mut rest)?;
    }
    Ok(scan.tree)
}

struct Scan<'a> {
    root: &'a Path,
    options: &'a BuildOptions,
    dirs: Dirs,
    /// Files with several names, by device and inode number.
    linked: HashMap<(u64, u64), Index>,
    tree: Tree,
}

impl Scan<'_> {
    fn children(&mut self, dir: &[Vec<u8>], parent: Index, rest: &mut Vec<(Below, Index)>) -> Result<()> {
        let failed = |e: io::Error| Error::host("read", &host(self.root, dir), e);
        let fd = self.dirs.get(dir).map_err(|e| failed(e.into()))?;
        // The next directory is opened by its names again.
        let fd = rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(|e| failed(e.into()))?;
        for (name, kind) in Entry::list(&fd).map_err(failed)? {
            let mut path = dir.to_vec();
            path.push(name.as_bytes().to_vec());
            if self.options.exclude.iter().any(|e| e.covers(&path.join(&b'/'))) {
                continue;
            }
            let entry = Entry::at(&fd, &name, kind);
            let entry = entry.map_err(|e| Error::host("read", &host(self.root, &path), e))?;
            let meta = entry.meta();
            let key = (meta.dev(), meta.ino());
            let index = match self.linked.get(&key) {
                Some(&index) => index,
                None => self.add(&path, &entry)?,
            };
            self.tree.link(parent, name.as_bytes(), index)?;
            if meta.is_dir() {
                rest.push((path, index));
            } else if meta.nlink() > 1 {
                self.linked.insert(key, index);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &[Vec<u8>], entry: &Entry) -> Result<Index> {
        let (host, meta) = (host(self.root, path), entry.meta());
        let kind = kind(&host, entry)?;
        let time = Time { secs: meta.mtime(), nsec: meta.mtime_nsec() as u32 };
        let mut inode = Inode::new(kind, (meta.mode() & 0o7777) as u16, time);
        (inode.uid, inode.gid) = (meta.uid(), meta.gid());
        let xattrs = entry.xattrs();
        let xattrs = xattrs.map_err(|e| Error::host("read the extended attributes of", &host, e))?;
        inode.xattrs = xattrs.into_iter().collect();
        Ok(self.tree.add(inode))
    }
}

fn host(root: &Path, below: &[Vec<u8>]) -> PathBuf {
    below.iter().fold(root.to_owned(), |path, name| path.join(OsStr::from_bytes(name)))
}

fn kind(host: &Path, entry: &Entry) -> Result<Kind> {
    let meta = entry.meta();
    Ok(match FileType::of_mode(meta.mode() as u16) {
        FileType::Directory => Kind::Directory(Names::new()),
        FileType::Regular => {
            let place = Place::Host(Arc::new(HostFile::of(host.to_owned(), meta)));
            Kind::File(Content { size: meta.len(), place })
        }
        FileType::Symlink => Kind::Symlink(entry.target().map_err(|e| Error::host("read", host, e))?.into()),
        FileType::Unknown => return Err(Error::UnknownType { path: host.to_owned() }),
        kind @ (FileType::CharDevice | FileType::BlockDevice) => {
            let numbers = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
            Kind::Special { kind, numbers }
        }
        kind @ (FileType::Fifo | FileType::Socket) => Kind::Special { kind, numbers: (0, 0) },
    })
}
