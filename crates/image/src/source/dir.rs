//! Reads the names and attributes of a directory tree of the host.
use crate::content::{Content, HostFile, Place};
use crate::options::{BuildOptions, Owner};
use crate::tree::{FORMAT_BITS, Index, Inode, Kind, Names, ROOT, Tree};
use crate::{Error, Result};
use segno_engine::Time;
use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest list of attribute names, and longest value, in Linux.
const XATTR_MAX: usize = 65_536;

/// The tree below a directory.
pub(crate) fn scan(root: &Path, options: &BuildOptions) -> Result<Tree> {
    let meta = root.metadata().map_err(|e| Error::host("read", root, e))?;
    // A symbolic link as the source itself is followed; those below it are not.
    let root = root.canonicalize().map_err(|e| Error::host("read", root, e))?;
    let mut scan = Scan {
        root: &root,
        options,
        linked: HashMap::new(),
        tree: Tree::default(),
        names: vec![0; XATTR_MAX],
    };
    scan.add(Path::new(""), &meta)?;
    let mut rest = vec![(PathBuf::new(), ROOT)];
    while let Some((dir, index)) = rest.pop() {
        scan.children(&dir, index, &mut rest)?;
    }
    Ok(scan.tree)
}

struct Scan<'a> {
    root: &'a Path,
    options: &'a BuildOptions,
    /// Files with several names, by device and inode number.
    linked: HashMap<(u64, u64), Index>,
    tree: Tree,
    names: Vec<u8>,
}

impl Scan<'_> {
    fn children(&mut self, dir: &Path, parent: Index, rest: &mut Vec<(PathBuf, Index)>) -> Result<()> {
        let host = self.root.join(dir);
        let failed = |e| Error::host("read", &host, e);
        for entry in host.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = dir.join(entry.file_name());
            if self.options.exclude.iter().any(|e| e.covers(path.as_os_str().as_bytes())) {
                continue;
            }
            let meta = entry.metadata().map_err(|e| Error::host("read", &entry.path(), e))?;
            let key = (meta.dev(), meta.ino());
            let index = match self.linked.get(&key) {
                Some(&index) => index,
                None => self.add(&path, &meta)?,
            };
            self.tree.link(parent, entry.file_name().as_bytes(), index)?;
            if meta.is_dir() {
                rest.push((path, index));
            } else if meta.nlink() > 1 {
                self.linked.insert(key, index);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, meta: &Metadata) -> Result<Index> {
        let host = self.root.join(path);
        let kind = kind(&host, meta)?;
        let time = Time { secs: meta.mtime(), nsec: meta.mtime_nsec() as u32 };
        let mut inode = Inode::new(kind, (meta.mode() & 0o7777) as u16, time);
        (inode.uid, inode.gid) = match self.options.owner {
            Owner::Keep => (meta.uid(), meta.gid()),
            Owner::All(uid, gid) => (uid, gid),
        };
        inode.xattrs = xattrs(&host, &mut self.names)?;
        Ok(self.tree.add(inode))
    }
}

fn kind(host: &Path, meta: &Metadata) -> Result<Kind> {
    let kind = meta.file_type();
    if kind.is_dir() {
        return Ok(Kind::Directory(Names::new()));
    }
    if kind.is_file() {
        let place = Place::Host(Arc::new(HostFile::of(host.to_owned(), meta)));
        return Ok(Kind::File(Content { size: meta.len(), place }));
    }
    if kind.is_symlink() {
        let target = host.read_link().map_err(|e| Error::host("read", host, e))?;
        return Ok(Kind::Symlink(target.into_os_string().into_vec().into()));
    }
    let numbers = if kind.is_char_device() || kind.is_block_device() {
        (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()))
    } else if kind.is_fifo() || kind.is_socket() {
        (0, 0)
    } else {
        return Err(Error::UnknownType { path: host.to_owned() });
    };
    Ok(Kind::Special { format: meta.mode() as u16 & FORMAT_BITS, numbers })
}

fn xattrs(path: &Path, names: &mut [u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    use rustix::io::Errno;
    let failed = |e: Errno| Error::host("read the extended attributes of", path, e);
    let mut all = BTreeMap::new();
    let n = match rustix::fs::llistxattr(path, &mut *names) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(all),
        other => other.map_err(failed)?,
    };
    let mut value = vec![0; XATTR_MAX];
    for name in names.get(..n).unwrap_or_default().split(|&b| b == 0).filter(|n| !n.is_empty()) {
        let n = rustix::fs::lgetxattr(path, name, &mut value).map_err(failed)?;
        all.insert(name.to_vec(), value.get(..n).unwrap_or_default().to_vec());
    }
    Ok(all)
}
