//! Operations on names.
use super::{Bytes, Content, Inode, Model, ROOT, Times};
use crate::fs::{Node, Res, errno};
use segno_engine::{Owner, RenameMode};
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags};
use std::collections::BTreeMap;

const NAME_MAX: usize = 255;
const TARGET_MAX: usize = 4095;
const S_IFMT: u16 = 0o170_000;
const S_ISGID: u16 = 0o2000;

impl Model {
    pub(super) fn find(&self, dir: Node, name: &[u8]) -> Res<Node> {
        let names = self.get(dir)?.names()?;
        check_name(name)?;
        names.get(name).copied().ok_or(errno::ENOENT)
    }

    pub(super) fn make_node(
        &mut self,
        dir: Node,
        name: &[u8],
        mode: u16,
        rdev: (u32, u32),
        owner: Owner,
    ) -> Res<Node> {
        let kind = if mode & S_IFMT == 0 { FileType::Regular } else { FileType::of_mode(mode) };
        let (content, rdev) = match kind {
            FileType::Regular => (Content::File(Bytes::default()), (0, 0)),
            FileType::Fifo | FileType::Socket => (Content::Special, (0, 0)),
            FileType::CharDevice | FileType::BlockDevice => (Content::Special, rdev),
            FileType::Directory => return Err(errno::EPERM),
            _ => return Err(errno::EINVAL),
        };
        let mut inode = self.new_inode(dir, kind, mode, content, owner)?;
        inode.rdev = rdev;
        self.add_new(dir, name, inode)
    }

    pub(super) fn make_dir(&mut self, dir: Node, name: &[u8], mode: u16, owner: Owner) -> Res<Node> {
        let content = Content::Dir { names: BTreeMap::new(), parent: dir };
        let inode = self.new_inode(dir, FileType::Directory, mode, content, owner)?;
        let node = self.add_new(dir, name, inode)?;
        self.get_mut(node)?.nlink = 2;
        self.get_mut(dir)?.nlink += 1;
        Ok(node)
    }

    pub(super) fn make_link(&mut self, dir: Node, name: &[u8], target: &[u8], owner: Owner) -> Res<Node> {
        if target.is_empty() {
            return Err(errno::ENOENT);
        }
        if target.len() > TARGET_MAX {
            return Err(errno::ENAMETOOLONG);
        }
        let inode = self.new_inode(dir, FileType::Symlink, 0o777, Content::Link(target.to_vec()), owner)?;
        self.add_new(dir, name, inode)
    }

    pub(super) fn make_unnamed(&mut self, dir: Node, mode: u16, owner: Owner) -> Res<Node> {
        self.check_alive(dir)?;
        let content = Content::File(Bytes::default());
        let inode = self.new_inode(dir, FileType::Regular, mode, content, owner)?;
        Ok(self.add_inode(Inode { nlink: 0, opens: 1, named: false, ..inode }))
    }

    pub(super) fn add_name(&mut self, node: Node, dir: Node, name: &[u8]) -> Res<()> {
        let inode = self.get(node)?;
        let gone = inode.nlink == 0 && inode.named;
        self.get(dir)?;
        if inode.is_dir() {
            return Err(errno::EPERM);
        }
        self.check_new_name(dir, name)?;
        if gone {
            return Err(errno::ENOENT);
        }
        let inode = self.change(node)?;
        inode.nlink += 1;
        inode.named = true;
        self.put(dir, name, Some(node))
    }

    pub(super) fn remove(&mut self, dir: Node, name: &[u8], is_dir: bool) -> Res<()> {
        let node = self.find(dir, name)?;
        match (self.get(node)?.is_dir(), is_dir) {
            (true, false) => return Err(errno::EISDIR),
            (false, true) => return Err(errno::ENOTDIR),
            (true, true) => self.check_empty(node)?,
            _ => {}
        }
        self.put(dir, name, None)?;
        if is_dir {
            self.get_mut(dir)?.nlink -= 1;
        }
        self.drop_name(node)
    }

    pub(super) fn move_name(&mut self, from: (Node, &[u8]), to: (Node, &[u8]), mode: RenameMode) -> Res<()> {
        let crosses = from.0 != to.0;
        self.get(from.0)?.names().and(self.get(to.0)?.names())?;
        check_name(from.1).and(check_name(to.1))?;
        let child = self.find(from.0, from.1)?;
        let target = self.find(to.0, to.1).ok();
        self.check_alive(to.0)?;
        match (mode, target) {
            (RenameMode::Exchange, None) => return Err(errno::ENOENT),
            (RenameMode::NoReplace, Some(_)) => return Err(errno::EEXIST),
            _ => {}
        }
        if crosses {
            self.refuse_loops(from.0, to.0, child, target, mode)?;
        }
        match (mode, target) {
            (_, Some(target)) if target == child => return Ok(()),
            (RenameMode::Exchange, Some(target)) => return self.exchange(from, to, child, target),
            _ => {}
        }
        if let Some(target) = target {
            self.check_replaceable(child, target)?;
            if self.get(target)?.is_dir() {
                self.get_mut(to.0)?.nlink -= 1;
            }
        }
        let whiteout = match mode {
            RenameMode::Whiteout => {
                let owner = Owner::default();
                let inode = self.new_inode(from.0, FileType::CharDevice, 0, Content::Special, owner)?;
                Some(self.add_inode(inode))
            }
            _ => None,
        };
        self.put(to.0, to.1, Some(child))?;
        self.put(from.0, from.1, whiteout)?;
        self.moved(child, from.0, to.0)?;
        target.map_or(Ok(()), |t| self.drop_name(t))
    }

    fn exchange(&mut self, from: (Node, &[u8]), to: (Node, &[u8]), child: Node, target: Node) -> Res<()> {
        self.put(to.0, to.1, Some(child))?;
        self.put(from.0, from.1, Some(target))?;
        self.moved(child, from.0, to.0)?;
        self.moved(target, to.0, from.0)
    }

    /// Settles `..` and link counts of the directories.
    fn moved(&mut self, node: Node, from: Node, to: Node) -> Res<()> {
        if let Content::Dir { parent, .. } = &mut self.change(node)?.content {
            *parent = to;
            self.get_mut(from)?.nlink -= 1;
            self.get_mut(to)?.nlink += 1;
        }
        Ok(())
    }

    fn refuse_loops(
        &self,
        from: Node,
        to: Node,
        child: Node,
        target: Option<Node>,
        mode: RenameMode,
    ) -> Res<()> {
        if self.get(child)?.is_dir() && self.is_below(to, child)? {
            return Err(errno::EINVAL);
        }
        // Only a directory that may move is checked: a file that replaces a directory is refused for its
        // kind.
        let moves = self.get(child)?.is_dir() || mode == RenameMode::Exchange;
        match target {
            Some(target) if moves && self.get(target)?.is_dir() && self.is_below(from, target)? => {
                Err(if mode == RenameMode::Exchange { errno::EINVAL } else { errno::ENOTEMPTY })
            }
            _ => Ok(()),
        }
    }

    fn is_below(&self, dir: Node, above: Node) -> Res<bool> {
        let mut at = dir;
        loop {
            if at == above {
                return Ok(true);
            }
            match &self.get(at)?.content {
                Content::Dir { parent, .. } if at != ROOT => at = *parent,
                _ => return Ok(false),
            }
        }
    }

    fn check_replaceable(&self, child: Node, target: Node) -> Res<()> {
        match (self.get(child)?.is_dir(), self.get(target)?.is_dir()) {
            (true, false) => Err(errno::ENOTDIR),
            (false, true) => Err(errno::EISDIR),
            (true, true) => self.check_empty(target),
            _ => Ok(()),
        }
    }

    fn check_empty(&self, dir: Node) -> Res<()> {
        if self.get(dir)?.names()?.is_empty() { Ok(()) } else { Err(errno::ENOTEMPTY) }
    }

    fn check_alive(&self, dir: Node) -> Res<()> {
        let inode = self.get(dir)?;
        inode.names()?;
        if inode.nlink == 0 { Err(errno::ENOENT) } else { Ok(()) }
    }

    fn check_new_name(&self, dir: Node, name: &[u8]) -> Res<()> {
        self.check_alive(dir)?;
        match self.find(dir, name) {
            Ok(_) => Err(errno::EEXIST),
            Err(errno::ENOENT) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn new_inode(&self, dir: Node, kind: FileType, mode: u16, content: Content, owner: Owner) -> Res<Inode> {
        let parent = self.get(dir)?;
        let setgid = parent.mode & S_ISGID != 0 && parent.is_dir();
        let passed_on = if setgid && kind == FileType::Directory { S_ISGID } else { 0 };
        let inode = Inode {
            kind,
            mode: mode & 0o7777 | passed_on,
            uid: owner.uid,
            gid: if setgid { parent.gid } else { owner.gid },
            rdev: (0, 0),
            nlink: 1,
            times: Times { access: self.now, modify: self.now, change: self.now },
            created: None,
            flags: InodeFlags::empty(),
            projid: 0,
            compression: None,
            advise: Advise::empty(),
            stored: None,
            xattrs: BTreeMap::new(),
            content,
            opens: 0,
            named: true,
        };
        Ok(self.inherit(inode, parent, owner.umask))
    }

    fn add_inode(&mut self, inode: Inode) -> Node {
        let node = self.next;
        self.next += 1;
        self.inodes.insert(node, inode);
        node
    }

    fn add_new(&mut self, dir: Node, name: &[u8], mut inode: Inode) -> Res<Node> {
        self.check_new_name(dir, name)?;
        inode.advise = self.temperature(name, inode.kind);
        let node = self.add_inode(inode);
        self.put(dir, name, Some(node))?;
        Ok(node)
    }

    /// Lets a name lead to an inode, or to none.
    fn put(&mut self, dir: Node, name: &[u8], node: Option<Node>) -> Res<()> {
        let now = self.now;
        let inode = self.change(dir)?;
        inode.times.modify = now;
        match node {
            Some(node) => inode.names_mut()?.insert(name.to_vec(), node),
            None => inode.names_mut()?.remove(name),
        };
        Ok(())
    }

    fn drop_name(&mut self, node: Node) -> Res<()> {
        let inode = self.change(node)?;
        inode.nlink = if inode.is_dir() { 0 } else { inode.nlink - 1 };
        self.free_if_unused(node);
        Ok(())
    }
}

fn check_name(name: &[u8]) -> Res<()> {
    if name.len() > NAME_MAX {
        return Err(errno::ENAMETOOLONG);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) { Err(errno::EINVAL) } else { Ok(()) }
}
