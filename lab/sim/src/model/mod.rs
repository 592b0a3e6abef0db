//! A POSIX file system in memory: inodes, names, bytes. Simple on purpose, and shares no code with the engine.
mod attr;
mod bytes;
mod data;
mod names;
mod xattr;

pub use attr::{ACCESS_ACL, ADVISE_NAME, DEFAULT_ACL, acl};
pub use bytes::{BLOCK, Bytes, ZEROS};

use crate::fs::{Attr, Entry, Fs, Node, Res, Seek, errno};
use crate::stored::Stored;
use segno_engine::{FallocMode, Owner, RenameMode, SetAttr, Time, XattrMode};
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags};
use std::collections::{BTreeMap, BTreeSet};

/// Limits of the format that the model needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub file_size: u64,
    /// Bytes of the inode that hold attributes.
    pub inline_xattr: usize,
    /// Algorithm and logarithm of the cluster size, if all files are compressed: their ranges cannot be moved.
    pub compressed: Option<(u8, u8)>,
    /// `i_compress_flag` of these files.
    pub compress_flag: u16,
    /// Whether the volume can compress files, stores creation times, and has projects.
    pub compressible: bool,
    pub creation_times: bool,
    pub projects: bool,
    /// Whether the superblock lists extensions of hot files.
    pub hot_names: bool,
    /// The kernel's writeback cache is above the volume. It truncates files to sizes that the volume takes for larger ones, so
    /// KEEP_SIZE is not known.
    pub cached: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    pub kind: FileType,
    /// Permission bits.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub rdev: (u32, u32),
    pub nlink: u32,
    pub times: Times,
    /// Creation time, if the volume stores it.
    pub created: Option<Time>,
    pub flags: InodeFlags,
    pub projid: u32,
    /// Algorithm and logarithm of the cluster size.
    pub compression: Option<(u8, u8)>,
    /// `i_advise`. KEEP_SIZE: blocks after the end of the file were reserved since it was last truncated.
    pub advise: Advise,
    /// Fields that no operation shows, if they were read.
    pub stored: Option<Stored>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub content: Content,
    /// Number of handles.
    pub opens: u32,
    /// It had a name once.
    pub named: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub access: Time,
    pub modify: Time,
    pub change: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    File(Bytes),
    Dir { names: BTreeMap<Vec<u8>, Node>, parent: Node },
    Link(Vec<u8>),
    Special,
}

/// The model. Clones share file contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    limits: Limits,
    inodes: BTreeMap<Node, Inode>,
    next: Node,
    now: Time,
}

/// The root's number.
pub const ROOT: Node = 1;

impl Model {
    /// An empty volume with a root directory of that mode and those times.
    #[must_use]
    pub fn new(limits: Limits, root: &Attr) -> Self {
        let times = Times { access: root.atime, modify: root.mtime, change: root.ctime };
        let dir = Inode {
            kind: FileType::Directory,
            mode: root.mode,
            uid: root.uid,
            gid: root.gid,
            rdev: (0, 0),
            nlink: 2,
            times,
            created: root.crtime,
            flags: root.flags,
            projid: root.projid,
            compression: root.compression,
            advise: Advise::empty(),
            stored: None,
            xattrs: BTreeMap::new(),
            content: Content::Dir { names: BTreeMap::new(), parent: ROOT },
            opens: 0,
            named: true,
        };
        Self { limits, inodes: BTreeMap::from([(ROOT, dir)]), next: ROOT + 1, now: Time::default() }
    }

    /// A volume that holds just these inodes. The root has the number [`ROOT`].
    #[must_use]
    pub fn from_inodes(limits: Limits, inodes: BTreeMap<Node, Inode>) -> Self {
        let next = inodes.keys().next_back().map_or(ROOT + 1, |n| n + 1);
        Self { limits, inodes, next, now: Time::default() }
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// All inodes, those without a name included.
    #[must_use]
    pub fn inodes(&self) -> &BTreeMap<Node, Inode> {
        &self.inodes
    }

    /// The names of an inode, each with its directory.
    #[must_use]
    pub fn names_of(&self, node: Node) -> BTreeSet<(Node, Vec<u8>)> {
        let mut found = BTreeSet::new();
        for (&dir, inode) in &self.inodes {
            let Content::Dir { names, .. } = &inode.content else { continue };
            found.extend(names.iter().filter(|&(_, &n)| n == node).map(|(name, _)| (dir, name.clone())));
        }
        found
    }

    fn get(&self, node: Node) -> Res<&Inode> {
        self.inodes.get(&node).ok_or(errno::ENOENT)
    }

    fn get_mut(&mut self, node: Node) -> Res<&mut Inode> {
        self.inodes.get_mut(&node).ok_or(errno::ENOENT)
    }

    fn change(&mut self, node: Node) -> Res<&mut Inode> {
        let now = self.now;
        let inode = self.get_mut(node)?;
        inode.times.change = now;
        Ok(inode)
    }

    /// Accepts the observed times if each is the previous one or `now`.
    pub fn adopt_times(&mut self, node: Node, before: &Self, found: &Attr, now: Time) {
        let Some(old) = before.inodes.get(&node).map(|i| i.times) else { return };
        let known = |time, old| time == old || time == now;
        if let Some(inode) = self.inodes.get_mut(&node)
            && known(found.mtime, old.modify)
            && known(found.ctime, old.change)
        {
            inode.times.modify = found.mtime;
            inode.times.change = found.ctime;
            inode.advise = found.advise;
        }
    }

    /// Frees an inode without names and handles.
    fn free_if_unused(&mut self, node: Node) {
        if self.inodes.get(&node).is_some_and(|i| i.nlink == 0 && i.opens == 0) {
            self.inodes.remove(&node);
        }
    }
}

impl Inode {
    /// The names of a directory.
    pub fn names(&self) -> Res<&BTreeMap<Vec<u8>, Node>> {
        match &self.content {
            Content::Dir { names, .. } => Ok(names),
            _ => Err(errno::ENOTDIR),
        }
    }

    fn names_mut(&mut self) -> Res<&mut BTreeMap<Vec<u8>, Node>> {
        match &mut self.content {
            Content::Dir { names, .. } => Ok(names),
            _ => Err(errno::ENOTDIR),
        }
    }

    /// The contents of a regular file, or the errno of reading anything else.
    pub fn bytes(&self) -> Res<&Bytes> {
        match &self.content {
            Content::File(bytes) => Ok(bytes),
            Content::Dir { .. } => Err(errno::EISDIR),
            _ => Err(errno::EINVAL),
        }
    }

    fn bytes_mut(&mut self) -> Res<&mut Bytes> {
        match &mut self.content {
            Content::File(bytes) => Ok(bytes),
            Content::Dir { .. } => Err(errno::EISDIR),
            _ => Err(errno::EINVAL),
        }
    }

    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    #[must_use]
    pub fn attr(&self) -> Attr {
        let size = match &self.content {
            Content::File(bytes) => bytes.size(),
            Content::Link(target) => target.len() as u64,
            _ => 0,
        };
        let Self { kind, mode, nlink, uid, gid, rdev, times, flags, projid, compression, advise, .. } = *self;
        Attr {
            kind,
            mode,
            nlink,
            uid,
            gid,
            rdev,
            size,
            atime: times.access,
            mtime: times.modify,
            ctime: times.change,
            crtime: self.created,
            flags,
            projid,
            compression,
            advise,
        }
    }
}

impl Fs for Model {
    fn root(&self) -> Node {
        ROOT
    }
    fn set_time(&mut self, now: Time) {
        self.now = now;
    }
    fn lookup(&mut self, dir: Node, name: &[u8]) -> Res<Node> {
        self.find(dir, name)
    }
    fn getattr(&mut self, node: Node) -> Res<Attr> {
        self.get(node).map(Inode::attr)
    }
    fn setattr(&mut self, node: Node, set: &SetAttr) -> Res<()> {
        self.set_attributes(node, set)
    }
    fn set_flags(&mut self, node: Node, flags: InodeFlags) -> Res<()> {
        self.change_flags(node, flags)
    }
    fn set_project(&mut self, node: Node, project: u32) -> Res<()> {
        self.change_project(node, project)
    }
    fn set_compression(&mut self, node: Node, algorithm: u8, log_cluster: u8) -> Res<()> {
        self.change_compression(node, algorithm, log_cluster)
    }
    fn set_released(&mut self, node: Node, released: bool) -> Res<()> {
        self.change_released(node, released)
    }
    fn mknod(&mut self, dir: Node, name: &[u8], mode: u16, rdev: (u32, u32), owner: Owner) -> Res<Node> {
        self.make_node(dir, name, mode, rdev, owner)
    }
    fn mkdir(&mut self, dir: Node, name: &[u8], mode: u16, owner: Owner) -> Res<Node> {
        self.make_dir(dir, name, mode, owner)
    }
    fn symlink(&mut self, dir: Node, name: &[u8], target: &[u8], owner: Owner) -> Res<Node> {
        self.make_link(dir, name, target, owner)
    }
    fn tmpfile(&mut self, dir: Node, mode: u16, owner: Owner) -> Res<Node> {
        self.make_unnamed(dir, mode, owner)
    }
    fn link(&mut self, node: Node, dir: Node, name: &[u8]) -> Res<()> {
        self.add_name(node, dir, name)
    }
    fn unlink(&mut self, dir: Node, name: &[u8]) -> Res<()> {
        self.remove(dir, name, false)
    }
    fn rmdir(&mut self, dir: Node, name: &[u8]) -> Res<()> {
        self.remove(dir, name, true)
    }
    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8]), mode: RenameMode) -> Res<()> {
        self.move_name(from, to, mode)
    }
    fn open(&mut self, node: Node) -> Res<()> {
        self.get_mut(node)?.opens += 1;
        Ok(())
    }
    fn release(&mut self, node: Node) -> Res<()> {
        let inode = self.get_mut(node)?;
        inode.opens = inode.opens.checked_sub(1).ok_or(errno::EINVAL)?;
        self.free_if_unused(node);
        Ok(())
    }
    fn readlink(&mut self, node: Node) -> Res<Vec<u8>> {
        match &self.get(node)?.content {
            Content::Link(target) => Ok(target.clone()),
            _ => Err(errno::EINVAL),
        }
    }
    fn readdir(&mut self, dir: Node, _chunk: usize) -> Res<BTreeSet<Entry>> {
        let inode = self.get(dir)?;
        let names = inode.names()?;
        if inode.nlink == 0 {
            return Err(errno::ENOENT);
        }
        let kind = |n: &Node| self.inodes.get(n).map_or(0, |i| i.kind as u8);
        Ok(names.iter().map(|(name, n)| Entry { name: name.clone(), node: *n, kind: kind(n) }).collect())
    }
    fn getxattr(&mut self, node: Node, name: &[u8]) -> Res<Vec<u8>> {
        self.attribute(node, name)
    }
    fn setxattr(&mut self, node: Node, name: &[u8], value: &[u8], mode: XattrMode) -> Res<()> {
        self.set_attribute(node, name, value, mode)
    }
    fn removexattr(&mut self, node: Node, name: &[u8]) -> Res<()> {
        self.remove_attribute(node, name)
    }
    fn listxattr(&mut self, node: Node) -> Res<BTreeSet<Vec<u8>>> {
        Ok(self.get(node)?.xattrs.keys().cloned().collect())
    }
    fn read(&mut self, node: Node, offset: u64, len: usize) -> Res<Vec<u8>> {
        Ok(self.get(node)?.bytes()?.read(offset, len))
    }
    fn write(&mut self, node: Node, offset: u64, data: &[u8]) -> Res<usize> {
        self.write_data(node, offset, data)
    }
    fn fallocate(&mut self, node: Node, mode: FallocMode, offset: u64, len: u64) -> Res<()> {
        self.allocate(node, mode, offset, len)
    }
    fn seek(&mut self, node: Node, what: Seek, offset: u64) -> Res<u64> {
        self.seek_to(node, what, offset)
    }
    fn copy_range(&mut self, from: (Node, u64), to: (Node, u64), len: u64) -> Res<u64> {
        self.copy(from, to, len)
    }
    fn fsync(&mut self, node: Node, _datasync: bool) -> Res<()> {
        self.get(node).map(drop)
    }
    fn sync(&mut self) -> Res<()> {
        Ok(())
    }
    fn remount(&mut self) -> Res<()> {
        for node in self.inodes.keys().copied().collect::<Vec<_>>() {
            self.get_mut(node)?.opens = 0;
            self.free_if_unused(node);
        }
        Ok(())
    }
    fn clean(&mut self) -> Res<()> {
        Ok(())
    }
}
