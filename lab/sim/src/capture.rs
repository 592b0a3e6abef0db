//! Reads a file tree into memory and compares two of them.
use crate::fs::{Attr, Fs, Node, Res, Seek, errno};
use crate::model::{BLOCK, Bytes, Content, Inode, Model, ROOT, Times};
use segno_format::dentry::FileType;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of each read, holes included.
const STEP: u64 = 1 << 20;
/// Names fetched by each readdir: few, so that listing often continues from a position.
const CHUNK: usize = 13;

/// The inodes reachable from the root.
#[derive(Clone, Debug)]
pub struct Tree {
    pub root: Node,
    pub inodes: BTreeMap<Node, Inode>,
}

impl Tree {
    /// The reachable part of a model.
    #[must_use]
    pub fn of_model(model: &Model) -> Self {
        let mut tree = Self { root: ROOT, inodes: BTreeMap::new() };
        let mut todo = vec![ROOT];
        while let Some(node) = todo.pop() {
            let Some(inode) = model.inodes().get(&node) else { continue };
            if tree.inodes.insert(node, inode.clone()).is_none() {
                todo.extend(inode.names().into_iter().flat_map(BTreeMap::values));
            }
        }
        tree
    }

    /// Reads a file system. The error names the path.
    pub fn capture<F: Fs>(fs: &mut F) -> Result<Self, String> {
        Self::capture_without(fs, &BTreeSet::new())
    }

    /// Reads a file system, except for these inodes and everything that is reachable only through them.
    pub fn capture_without<F: Fs>(fs: &mut F, without: &BTreeSet<Node>) -> Result<Self, String> {
        let root = fs.root();
        let mut tree = Self { root, inodes: BTreeMap::new() };
        let mut todo = vec![(String::new(), root, root)];
        while let Some((path, node, parent)) = todo.pop() {
            if tree.inodes.contains_key(&node) || without.contains(&node) {
                continue;
            }
            let failed = |what: &'static str| {
                let path = path.clone();
                move |e: i32| format!("{what} of {path}/ failed with errno {e}")
            };
            let attr = fs.getattr(node).map_err(failed("stat"))?;
            let content = read_content(fs, node, parent, &attr).map_err(failed("reading"))?;
            if attr.kind == FileType::Directory && fs.lookup(node, b"..").map_err(failed("lookup"))? != parent
            {
                return Err(format!("'..' of {path}/ does not lead to the directory it is in"));
            }
            let xattrs = read_xattrs(fs, node).map_err(failed("listxattr"))?;
            if let Content::Dir { names, .. } = &content {
                let child = |(name, n): (&Vec<u8>, &Node)| {
                    (format!("{path}/{}", String::from_utf8_lossy(name)), *n, node)
                };
                todo.extend(names.iter().map(child));
            }
            tree.inodes.insert(node, inode(&attr, content, xattrs));
        }
        Ok(tree)
    }

    /// The first difference, ignoring one file in the root of the other, and the changes that making it
    /// caused in the root.
    #[must_use]
    pub fn difference_but_for(&self, name: &[u8], mut other: Self) -> Option<String> {
        let times = self.inodes.get(&self.root).map(|root| root.times)?;
        if let Some(root) = other.inodes.get_mut(&other.root) {
            root.times = times;
            if let Content::Dir { names, .. } = &mut root.content {
                names.remove(name);
            }
        }
        self.difference(&other)
    }

    /// The first difference, by path. Inode numbers may differ, but hard links must be the same.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let mut pairs = BTreeMap::new();
        let mut back = BTreeMap::new();
        let mut todo = vec![(String::new(), self.root, other.root)];
        while let Some((path, a, b)) = todo.pop() {
            let seen = (pairs.insert(a, b), back.insert(b, a));
            match seen {
                (None, None) => {}
                (x, y) if x.unwrap_or(b) == b && y.unwrap_or(a) == a => continue,
                _ => return Some(format!("{path}/ is linked to something else")),
            }
            let (Some(x), Some(y)) = (self.inodes.get(&a), other.inodes.get(&b)) else {
                return Some(format!("{path}/ leads nowhere"));
            };
            if let Some(what) = inode_difference(x, y) {
                return Some(format!("{path}/: {what}"));
            }
            let (Ok(x), Ok(y)) = (x.names(), y.names()) else { continue };
            if let Some(name) = odd_name(x, y) {
                return Some(format!("{path}/{name} is there on one side only"));
            }
            let both = x.iter().zip(y.values());
            todo.extend(
                both.map(|((name, a), b)| (format!("{path}/{}", String::from_utf8_lossy(name)), *a, *b)),
            );
        }
        None
    }
}

fn odd_name(a: &BTreeMap<Vec<u8>, Node>, b: &BTreeMap<Vec<u8>, Node>) -> Option<String> {
    let one_side = |name: &&Vec<u8>| a.contains_key(*name) != b.contains_key(*name);
    a.keys().chain(b.keys()).find(one_side).map(|n| String::from_utf8_lossy(n).into_owned())
}

/// The first difference of two inodes, except for names.
#[must_use]
pub fn inode_difference(a: &Inode, b: &Inode) -> Option<String> {
    if a.attr() != b.attr() {
        return Some(format!("{:?} against {:?}", a.attr(), b.attr()));
    }
    if a.xattrs != b.xattrs {
        return Some(xattr_difference(a, b));
    }
    match (&a.content, &b.content) {
        (Content::File(x), Content::File(y)) => {
            bytes_difference(x, y).map(|at| format!("byte {at} is {} against {}", byte(x, at), byte(y, at)))
        }
        (Content::Link(x), Content::Link(y)) if x != y => Some("target of the link".into()),
        _ => None,
    }
}

/// Names of the attributes that differ.
#[must_use]
pub fn xattr_difference(a: &Inode, b: &Inode) -> String {
    let keys = a.xattrs.keys().chain(b.xattrs.keys());
    let differs = |k: &&Vec<u8>| a.xattrs.get(*k) != b.xattrs.get(*k);
    let names: Vec<_> = keys.filter(differs).map(|k| String::from_utf8_lossy(k).into_owned()).collect();
    format!("attributes {names:?}")
}

fn byte(bytes: &Bytes, at: u64) -> u8 {
    bytes.read(at, 1).first().copied().unwrap_or(0)
}

/// The first byte that differs, of two files of one size.
fn bytes_difference(a: &Bytes, b: &Bytes) -> Option<u64> {
    let mut indices: Vec<u64> = a.indices().chain(b.indices()).collect();
    indices.sort_unstable();
    indices.into_iter().find_map(|i| {
        let at = a.block(i).iter().zip(b.block(i)).position(|(x, y)| x != y)?;
        Some(i * BLOCK + at as u64)
    })
}

fn inode(attr: &Attr, content: Content, xattrs: BTreeMap<Vec<u8>, Vec<u8>>) -> Inode {
    let Attr { kind, mode, nlink, uid, gid, rdev, flags, projid, compression, advise, .. } = *attr;
    let times = Times { access: attr.atime, modify: attr.mtime, change: attr.ctime };
    let created = attr.crtime;
    Inode {
        kind,
        mode,
        uid,
        gid,
        rdev,
        nlink,
        times,
        created,
        flags,
        projid,
        compression,
        advise,
        stored: None,
        xattrs,
        content,
        opens: 0,
        named: true,
    }
}

fn read_content<F: Fs>(fs: &mut F, node: Node, parent: Node, attr: &Attr) -> Res<Content> {
    Ok(match attr.kind {
        FileType::Directory => {
            let names = fs.readdir(node, CHUNK)?.into_iter().map(|e| (e.name, e.node)).collect();
            Content::Dir { names, parent }
        }
        FileType::Regular => Content::File(read_bytes(fs, node, attr.size)?),
        FileType::Symlink => Content::Link(fs.readlink(node)?),
        _ => Content::Special,
    })
}

/// The content of a regular file.
pub fn read_file<F: Fs>(fs: &mut F, node: Node) -> Res<Bytes> {
    let size = fs.getattr(node)?.size;
    read_bytes(fs, node, size)
}

fn read_bytes<F: Fs>(fs: &mut F, node: Node, size: u64) -> Res<Bytes> {
    let mut bytes = Bytes::default();
    let mut at = 0;
    while at < size {
        at = match fs.seek(node, Seek::Data, at) {
            Ok(data) => data / BLOCK * BLOCK,
            Err(errno::ENXIO) => break,
            Err(e) => return Err(e),
        };
        let data = fs.read(node, at, (size - at).min(STEP) as usize)?;
        bytes.write(at, &data);
        at += STEP;
    }
    bytes.set_size(size);
    Ok(bytes)
}

fn read_xattrs<F: Fs>(fs: &mut F, node: Node) -> Res<BTreeMap<Vec<u8>, Vec<u8>>> {
    let names = fs.listxattr(node)?;
    names.into_iter().map(|name| Ok((name.clone(), fs.getxattr(node, &name)?))).collect()
}
