//! Reads the names and attributes of a directory tree.
use crate::options::{BuildOptions, Owner};
use crate::tree::{Entry, Kind, Source, Tree};
use crate::{Error, Result};
use rustix::io::Errno;
use segno_engine::Time;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longest list of attribute names, and longest value, in Linux.
const XATTR_MAX: usize = 65_536;
const TYPE_BITS: u32 = 0o170_000;

/// The tree below a directory. Directories are listed in the order of the bytes of their names.
pub(crate) fn scan(root: &Path, options: &BuildOptions) -> Result<Tree> {
    let meta = root.metadata().map_err(|e| Error::host("read", root, e))?;
    if !meta.is_dir() {
        return Err(Error::NotDirectory { path: root.to_owned() });
    }
    // A symbolic link as the source itself is followed; those below it are not.
    let root = root.canonicalize().map_err(|e| Error::host("read", root, e))?;
    let mut scan = Scan { root: &root, options, linked: HashMap::new(), entries: Vec::new() };
    let mut rest = vec![Found { path: PathBuf::new(), parent: 0, meta }];
    while let Some(found) = rest.pop() {
        let index = scan.entries.len();
        let entry = scan.entry(&found)?;
        if matches!(entry.kind, Kind::Directory) {
            scan.children(&found.path, index, &mut rest)?;
        }
        scan.entries.push(entry);
    }
    Ok(Tree { entries: scan.entries })
}

/// An entry whose name was read.
struct Found {
    path: PathBuf,
    parent: usize,
    meta: Metadata,
}

struct Scan<'a> {
    root: &'a Path,
    options: &'a BuildOptions,
    /// First names of files with several, by device and inode number.
    linked: HashMap<(u64, u64), usize>,
    entries: Vec<Entry>,
}

impl Scan<'_> {
    /// Adds the entries of a directory so that the first one is taken first.
    fn children(&self, dir: &Path, parent: usize, rest: &mut Vec<Found>) -> Result<()> {
        let host = self.host(dir);
        let failed = |e| Error::host("read", &host, e);
        let mut children = Vec::new();
        for entry in host.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = dir.join(entry.file_name());
            if self.options.exclude.iter().any(|e| e.covers(&path)) {
                continue;
            }
            let meta = entry.metadata().map_err(|e| Error::host("read", &entry.path(), e))?;
            children.push(Found { path, parent, meta });
        }
        children.sort_unstable_by(|a, b| b.path.file_name().cmp(&a.path.file_name()));
        rest.append(&mut children);
        Ok(())
    }

    fn entry(&mut self, found: &Found) -> Result<Entry> {
        let Found { path, parent, meta } = found;
        let kind = self.kind(path, meta)?;
        let xattrs = match kind {
            Kind::Link(_) => Vec::new(),
            _ => xattrs(&self.host(path))?,
        };
        let (uid, gid) = match self.options.owner {
            Owner::Keep => (meta.uid(), meta.gid()),
            Owner::All(uid, gid) => (uid, gid),
        };
        let modified = Time { secs: meta.mtime(), nsec: meta.mtime_nsec() as u32 };
        Ok(Entry {
            path: path.clone(),
            parent: *parent,
            kind,
            mode: (meta.mode() & 0o7777) as u16,
            uid,
            gid,
            time: self.options.time_of(modified),
            xattrs,
        })
    }

    fn kind(&mut self, path: &Path, meta: &Metadata) -> Result<Kind> {
        let kind = meta.file_type();
        if kind.is_dir() {
            return Ok(Kind::Directory);
        }
        let key = (meta.dev(), meta.ino());
        if let Some(&first) = self.linked.get(&key) {
            return Ok(Kind::Link(first));
        }
        if meta.nlink() > 1 {
            self.linked.insert(key, self.entries.len());
        }
        let host = self.host(path);
        if kind.is_file() {
            return Ok(Kind::File(Source::of(host, meta)));
        }
        if kind.is_symlink() {
            let target = host.read_link().map_err(|e| Error::host("read", &host, e))?;
            return Ok(Kind::Symlink(target.into_os_string()));
        }
        let numbers = if kind.is_char_device() || kind.is_block_device() {
            (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()))
        } else if kind.is_fifo() || kind.is_socket() {
            (0, 0)
        } else {
            return Err(Error::UnknownType { path: host });
        };
        Ok(Kind::Special { format: (meta.mode() & TYPE_BITS) as u16, numbers })
    }

    fn host(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }
}

impl Source {
    pub(crate) fn of(path: PathBuf, meta: &Metadata) -> Self {
        let modified = (meta.mtime(), meta.mtime_nsec());
        Self { path, dev: meta.dev(), ino: meta.ino(), size: meta.len(), modified }
    }
}

fn xattrs(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let failed = |e: Errno| Error::host("read the extended attributes of", path, e);
    let mut names = vec![0; XATTR_MAX];
    let n = match rustix::fs::llistxattr(path, &mut names) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut value = vec![0; XATTR_MAX];
    let mut all = Vec::new();
    for name in names.get(..n).unwrap_or_default().split(|&b| b == 0).filter(|n| !n.is_empty()) {
        let n = rustix::fs::lgetxattr(path, name, &mut value).map_err(failed)?;
        all.push((name.to_vec(), value.get(..n).unwrap_or_default().to_vec()));
    }
    all.sort_unstable();
    Ok(all)
}
