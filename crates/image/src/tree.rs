//! A tree as plain data: inodes, and directories that name them.
use crate::content::Content;
use crate::options::Compression;
use crate::{Error, Result};
use segno_engine::Time;
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use segno_format::{NAME_MAX, text};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Index of an inode in its tree.
pub(crate) type Index = usize;
/// The root's.
pub(crate) const ROOT: Index = 0;

/// Names, by their bytes, and the inodes they lead to.
pub(crate) type Names = BTreeMap<Box<[u8]>, Index>;

/// Inodes; the first one is the root.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) inodes: Vec<Inode>,
    /// Remarks on the source.
    pub(crate) notes: Vec<String>,
}

/// A file of any kind.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    /// Permission bits.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Stored as all times of the inode.
    pub(crate) time: Time,
    /// Full names and values in the form of getxattr(2).
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Those that `chattr` sets.
    pub(crate) flags: InodeFlags,
    pub(crate) projid: u32,
    /// `None` follows the options of the build.
    pub(crate) compress: Option<Choice>,
    /// Directory and name that it was found under first, in the order of the image.
    pub(crate) parent: Index,
    pub(crate) name: Box<[u8]>,
    /// Number of names; for a directory, the number of its subdirectories plus two.
    pub(crate) links: u32,
}

/// Whether a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Plain,
    With(Compression),
}

/// Type and content of an inode.
#[derive(Debug)]
pub(crate) enum Kind {
    Directory(Names),
    File(Content),
    Symlink(Box<[u8]>),
    /// Device, FIFO or socket: major and minor number.
    Special {
        kind: FileType,
        numbers: (u32, u32),
    },
}

/// A path below a directory; either may be empty.
pub(crate) fn joined(dir: &[u8], path: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.is_empty() || path.is_empty() { b"" } else { b"/" };
    [dir, slash, path].concat()
}

/// The bytes of a path as one of the host.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Why no file can have a name.
fn unfit(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("it is empty"),
        b"." | b".." => Some("it is that of a directory itself or of the one above"),
        _ if name.len() > NAME_MAX => Some("it has more than 255 bytes"),
        _ if name.iter().any(|b| matches!(b, 0 | b'/')) => Some("it has a NUL or a slash"),
        _ => None,
    }
}

impl Kind {
    pub(crate) fn file_type(&self) -> FileType {
        match self {
            Self::Directory(_) => FileType::Directory,
            Self::File(_) => FileType::Regular,
            Self::Symlink(_) => FileType::Symlink,
            Self::Special { kind, .. } => *kind,
        }
    }

    /// Format bits of the mode.
    pub(crate) fn format(&self) -> u16 {
        u16::from(self.file_type().dirent_type()) << 12
    }

    pub(crate) fn is_dir(&self) -> bool {
        matches!(self, Self::Directory(_))
    }
}

impl Inode {
    /// An inode without attributes that belongs to root.
    pub(crate) fn new(kind: Kind, mode: u16, time: Time) -> Self {
        Self {
            kind,
            mode: mode & 0o7777,
            uid: 0,
            gid: 0,
            time,
            xattrs: BTreeMap::new(),
            flags: InodeFlags::empty(),
            projid: 0,
            compress: None,
            parent: ROOT,
            name: Box::default(),
            links: 0,
        }
    }

    pub(crate) fn directory(mode: u16, time: Time) -> Self {
        Self::new(Kind::Directory(Names::new()), mode, time)
    }
}

impl Tree {
    pub(crate) fn add(&mut self, inode: Inode) -> Index {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    pub(crate) fn get(&self, index: Index) -> Result<&Inode> {
        self.inodes.get(index).ok_or(Error::Invariant("a name leads to no inode"))
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Result<&mut Inode> {
        self.inodes.get_mut(index).ok_or(Error::Invariant("a name leads to no inode"))
    }

    pub(crate) fn is_dir(&self, index: Index) -> bool {
        self.inodes.get(index).is_some_and(|i| i.kind.is_dir())
    }

    pub(crate) fn names(&self, dir: Index) -> Result<&Names> {
        match &self.get(dir)?.kind {
            Kind::Directory(names) => Ok(names),
            _ => Err(Error::Invariant("names in something that is no directory")),
        }
    }

    /// Gives an inode a name; one that it replaces is returned.
    pub(crate) fn link(&mut self, dir: Index, name: &[u8], index: Index) -> Result<Option<Index>> {
        if let Some(why) = unfit(name) {
            return Err(Error::Name { name: text::name(name), why });
        }
        match &mut self.get_mut(dir)?.kind {
            Kind::Directory(names) => Ok(names.insert(name.into(), index)),
            _ => Err(Error::Invariant("a name in something that is no directory")),
        }
    }

    /// The inode of a path without leading slash, if there is one.
    pub(crate) fn find(&self, path: &[u8]) -> Option<Index> {
        path.split(|&b| b == b'/').filter(|c| !c.is_empty()).try_fold(ROOT, |at, name| {
            match &self.inodes.get(at)?.kind {
                Kind::Directory(names) => names.get(name).copied(),
                _ => None,
            }
        })
    }

    /// The first path of an inode, without leading slash; empty for the root. Valid once the tree is in order.
    pub(crate) fn path(&self, index: Index) -> Vec<u8> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = index;
        while at != ROOT
            && let Some(inode) = self.inodes.get(at)
        {
            names.push(&inode.name);
            at = inode.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    pub(crate) fn host_path(&self, index: Index) -> PathBuf {
        path_of(&self.path(index))
    }

    /// Numbers the inodes level by level, and by the bytes of their names within a directory, whatever order
    /// they were found in; drops those without a name, and counts links.
    pub(crate) fn in_order(self) -> Result<Self> {
        self.in_order_below(ROOT)
    }

    /// The same for the part of the tree with this root.
    pub(crate) fn in_order_below(self, root: Index) -> Result<Self> {
        let mut old: Vec<Option<Inode>> = self.inodes.into_iter().map(Some).collect();
        let mut place: Vec<Option<Index>> = vec![None; old.len()];
        let mut new: Vec<Inode> = Vec::with_capacity(old.len());
        let missing = || Error::Invariant("a directory has two names");
        new.extend(old.get_mut(root).and_then(Option::take));
        let mut at = 0;
        while let Some(dir) = new.get_mut(at) {
            let Kind::Directory(names) = &mut dir.kind else {
                at += 1;
                continue;
            };
            let mut names = std::mem::take(names);
            let mut subdirs = 0;
            for (name, target) in &mut names {
                let slot = place.get_mut(*target).ok_or_else(missing)?;
                let index = match *slot {
                    Some(index) => index,
                    None => {
                        let mut inode = old.get_mut(*target).and_then(Option::take).ok_or_else(missing)?;
                        (inode.parent, inode.name, inode.links) = (at, name.clone(), 0);
                        subdirs += u32::from(inode.kind.is_dir());
                        new.push(inode);
                        new.len() - 1
                    }
                };
                *slot = Some(index);
                if let Some(inode) = new.get_mut(index) {
                    inode.links += 1;
                }
                *target = index;
            }
            if let Some(dir) = new.get_mut(at) {
                dir.kind = Kind::Directory(names);
                dir.links = 2 + subdirs;
            }
            at += 1;
        }
        Ok(Self { inodes: new, notes: self.notes })
    }
}
