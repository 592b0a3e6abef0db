//! Carries out operations on any [`Fs`].
use super::{DRAWN_FLAGS, Name, Op, Path, pattern, xattr_name};
use crate::fs::{Attr, Fs, Node, Res, errno};
use crate::model::{ACCESS_ACL, ADVISE_NAME, DEFAULT_ACL, acl};
use segno_engine::{Owner, SetAttr, Time, XattrMode};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use std::collections::BTreeSet;
use std::fmt;

/// Inodes that are open.
pub type Handles = [Option<Node>; 4];

/// The result, equal on every correct file system except for [`Outcome::Place`].
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Count(u64),
    Bytes(Vec<u8>),
    Attr(Attr),
    /// Names, each with its type and whether a lookup finds the same inode.
    Names(BTreeSet<(Vec<u8>, u8, bool)>),
    Keys(BTreeSet<Vec<u8>>),
    /// Position of data or a hole, which depends on what the file system counts as data.
    Place(Res<u64>),
    Failed(i32),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Bytes(b) => write!(f, "{} bytes", b.len()),
            Self::Attr(a) => write!(f, "{a:?}"),
            Self::Names(n) => {
                let text = |n: &(Vec<u8>, u8, bool)| (String::from_utf8_lossy(&n.0).into_owned(), n.1, n.2);
                write!(f, "{:?}", n.iter().map(text).collect::<Vec<_>>())
            }
            Self::Keys(k) => {
                write!(f, "{:?}", k.iter().map(|k| String::from_utf8_lossy(k)).collect::<Vec<_>>())
            }
            Self::Place(p) => write!(f, "{p:?}"),
            Self::Failed(e) => write!(f, "errno {e}"),
        }
    }
}

impl<T: Into<Outcome>> From<Res<T>> for Outcome {
    fn from(r: Res<T>) -> Self {
        r.map_or_else(Self::Failed, Into::into)
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// Carries out one operation.
pub fn apply<F: Fs>(fs: &mut F, handles: &mut Handles, op: &Op) -> Outcome {
    Call { fs, handles }.run(op)
}

/// The inode that a path leads to.
pub fn resolve<F: Fs>(fs: &mut F, handles: &Handles, path: &Path) -> Res<Node> {
    let mut node = match path.handle {
        Some(slot) => handles.get(usize::from(slot)).copied().flatten().ok_or(errno::ENOENT)?,
        None => fs.root(),
    };
    for name in &path.names {
        node = fs.lookup(node, &name.bytes())?;
    }
    Ok(node)
}

struct Call<'a, F> {
    fs: &'a mut F,
    handles: &'a mut Handles,
}

fn owner(who: u8) -> Owner {
    let umask = if who % 2 == 1 { 0o022 } else { 0 };
    Owner { uid: who.into(), gid: u32::from(who) + 10, umask }
}

impl<F: Fs> Call<'_, F> {
    fn node(&mut self, path: &Path) -> Res<Node> {
        resolve(self.fs, self.handles, path)
    }

    /// The directory that a path's last name is in, and the name.
    fn place(&mut self, path: &Path) -> Res<(Node, Vec<u8>)> {
        let (last, names) = path.names.split_last().ok_or(errno::EINVAL)?;
        let dir = self.node(&Path { handle: path.handle, names: names.to_vec() })?;
        Ok((dir, last.bytes()))
    }

    fn run(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Read { of, offset, len } => self
                .node(of)
                .and_then(|n| self.fs.read(n, *offset, *len as usize))
                .map_or_else(Outcome::Failed, Outcome::Bytes),
            Op::Readlink { of } => {
                self.node(of).and_then(|n| self.fs.readlink(n)).map_or_else(Outcome::Failed, Outcome::Bytes)
            }
            Op::Stat { of } => {
                self.node(of).and_then(|n| self.fs.getattr(n)).map_or_else(Outcome::Failed, Outcome::Attr)
            }
            Op::ListXattr { of } => self.list_attributes(of).map_or_else(Outcome::Failed, Outcome::Keys),
            Op::Readdir { of, chunk } => self.list(of, *chunk).map_or_else(Outcome::Failed, Outcome::Names),
            Op::Seek { of, what, offset } => match self.node(of) {
                Ok(node) => Outcome::Place(self.fs.seek(node, *what, *offset)),
                Err(e) => Outcome::Failed(e),
            },
            Op::Write { of, offset, len, tag } => self.write(of, Some(*offset), *len, *tag),
            Op::Append { of, len, tag } => self.write(of, None, *len, *tag),
            Op::Copy { from, offset, to, at, len } => self
                .node(from)
                .and_then(|f| Ok((f, self.node(to)?)))
                .and_then(|(f, t)| self.fs.copy_range((f, *offset), (t, *at), *len))
                .map_or_else(Outcome::Failed, Outcome::Count),
            _ => self.change(op).into(),
        }
    }

    fn change(&mut self, op: &Op) -> Res<()> {
        match op {
            Op::Mknod { at, kind, mode, who } => self.make(at, *kind, *mode, *who),
            Op::Mkdir { at, mode, who } => {
                let (dir, name) = self.place(at)?;
                self.fs.mkdir(dir, &name, *mode, owner(*who)).map(drop)
            }
            Op::Symlink { at, len } => {
                let (dir, name) = self.place(at)?;
                let target: Vec<u8> = (0..*len).map(|i| b'a' + (i % 23) as u8).collect();
                self.fs.symlink(dir, &name, &target, owner(0)).map(drop)
            }
            Op::Tmpfile { dir, slot } => {
                let dir = self.node(dir)?;
                let node = self.fs.tmpfile(dir, 0o600, owner(0))?;
                self.keep(*slot, node)
            }
            Op::Link { of, at } => {
                let node = self.node(of)?;
                let (dir, name) = self.place(at)?;
                self.fs.link(node, dir, &name)
            }
            Op::Unlink { at } => {
                let (dir, name) = self.place(at)?;
                self.fs.unlink(dir, &name)
            }
            Op::Rmdir { at } => {
                let (dir, name) = self.place(at)?;
                self.fs.rmdir(dir, &name)
            }
            Op::Rename { from, to, mode } => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                self.fs.rename((from.0, &from.1), (to.0, &to.1), *mode)
            }
            Op::Fill { dir, first, count } => {
                let dir = self.node(dir)?;
                (*first..first.saturating_add(*count)).try_for_each(|n| {
                    self.fs.mknod(dir, &Name(n).bytes(), 0o100_644, (0, 0), owner(0)).map(drop)
                })
            }
            Op::Drain { dir, first, count } => {
                let dir = self.node(dir)?;
                (*first..first.saturating_add(*count)).try_for_each(|n| self.fs.unlink(dir, &Name(n).bytes()))
            }
            Op::Open { of, slot } => {
                let node = self.node(of)?;
                self.fs.open(node)?;
                self.keep(*slot, node)
            }
            Op::Release { slot } => self.release(*slot),
            Op::Sync => self.fs.sync(),
            Op::Clean => self.fs.clean(),
            Op::Remount => {
                (0..self.handles.len() as u8).try_for_each(|slot| self.release(slot))?;
                self.fs.remount()
            }
            _ => self.change_inode(op),
        }
    }

    fn change_inode(&mut self, op: &Op) -> Res<()> {
        let none = SetAttr::default();
        match op {
            Op::Truncate { of, size } => self.set(of, SetAttr { size: Some(*size), ..none }),
            Op::Chmod { of, mode } => self.set(of, SetAttr { mode: Some(*mode), ..none }),
            Op::Chown { of, uid, gid } => {
                self.set(of, SetAttr { uid: Some(*uid), gid: Some(*gid), kill_suidgid: true, ..none })
            }
            Op::Utimens { of, secs, nsec } => {
                let time = Some(Time { secs: *secs, nsec: *nsec });
                self.set(of, SetAttr { atime: time, mtime: time, ..none })
            }
            Op::Fallocate { of, mode, offset, len } => {
                let node = self.node(of)?;
                self.fs.fallocate(node, *mode, *offset, *len)
            }
            Op::SetXattr { of, name, len, tag, mode } => {
                let node = self.node(of)?;
                self.fs.setxattr(node, &xattr_name(*name), &pattern(*tag, 0, usize::from(*len)), *mode)
            }
            Op::Chattr { of, flags } => {
                let node = self.node(of)?;
                let drawn = DRAWN_FLAGS.into_iter().collect::<InodeFlags>();
                let kept = self.fs.getattr(node)?.flags - drawn;
                self.fs.set_flags(node, kept | *flags)
            }
            Op::Project { of, project } => {
                let node = self.node(of)?;
                self.fs.set_project(node, *project)
            }
            Op::Compression { of, algorithm, log_cluster } => {
                let node = self.node(of)?;
                self.fs.set_compression(node, *algorithm, *log_cluster)
            }
            Op::SavedBlocks { of, released } => {
                let node = self.node(of)?;
                self.fs.set_released(node, *released)
            }
            Op::Advise { of, advise } => {
                let node = self.node(of)?;
                self.fs.setxattr(node, ADVISE_NAME, &[advise.bits()], XattrMode::Set)
            }
            Op::SetAcl { of, mode, default } => {
                let node = self.node(of)?;
                let name = if *default { DEFAULT_ACL } else { ACCESS_ACL };
                self.fs.setxattr(node, name, &acl(*mode), XattrMode::Set)
            }
            Op::RemoveXattr { of, name } => {
                let node = self.node(of)?;
                self.fs.removexattr(node, &xattr_name(*name))
            }
            Op::Fsync { of, datasync } => {
                let node = self.node(of)?;
                self.fs.fsync(node, *datasync)
            }
            _ => Ok(()),
        }
    }

    fn make(&mut self, at: &Path, kind: FileType, mode: u16, who: u8) -> Res<()> {
        let format = match kind {
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::BlockDevice => 0o060_000,
            FileType::Socket => 0o140_000,
            _ => 0o100_000,
        };
        let (dir, name) = self.place(at)?;
        let rdev = (u32::from(who) + 1, 300);
        self.fs.mknod(dir, &name, format | mode, rdev, owner(who)).map(drop)
    }

    /// Lets a handle stand for an inode that is open already.
    fn keep(&mut self, slot: u8, node: Node) -> Res<()> {
        self.release(slot)?;
        if let Some(handle) = self.handles.get_mut(usize::from(slot)) {
            *handle = Some(node);
        }
        Ok(())
    }

    fn release(&mut self, slot: u8) -> Res<()> {
        let node = self.handles.get_mut(usize::from(slot)).and_then(Option::take);
        node.map_or(Ok(()), |n| self.fs.release(n))
    }

    fn set(&mut self, of: &Path, set: SetAttr) -> Res<()> {
        let node = self.node(of)?;
        self.fs.setattr(node, &set)
    }

    fn write(&mut self, of: &Path, offset: Option<u64>, len: u32, tag: u32) -> Outcome {
        let write = |call: &mut Self| {
            let node = call.node(of)?;
            let offset = offset.map_or_else(|| call.fs.getattr(node).map(|a| a.size), Ok)?;
            call.fs.write(node, offset, &pattern(tag, offset, len as usize))
        };
        write(self).map_or_else(Outcome::Failed, |n| Outcome::Count(n as u64))
    }

    fn list(&mut self, of: &Path, chunk: u16) -> Res<BTreeSet<(Vec<u8>, u8, bool)>> {
        let dir = self.node(of)?;
        let entries = self.fs.readdir(dir, chunk.into())?;
        Ok(entries
            .into_iter()
            .map(|e| {
                let same = self.fs.lookup(dir, &e.name) == Ok(e.node);
                (e.name, e.kind, same)
            })
            .collect())
    }

    /// Names of all attributes with hashes of their values.
    fn list_attributes(&mut self, of: &Path) -> Res<BTreeSet<Vec<u8>>> {
        let node = self.node(of)?;
        let names = self.fs.listxattr(node)?;
        names
            .into_iter()
            .map(|mut name| {
                let value = self.fs.getxattr(node, &name)?;
                name.push(b'=');
                name.extend(value);
                Ok(name)
            })
            .collect()
    }
}
