//! Requests on names.
use super::inode::{Content, Dir, Entry, FIRST, Inode, Node};
use super::{Ceiling, Done};
use rustix::io::Errno;
use segno_engine::DirEntry;
use segno_format::Ino;
use segno_format::dentry::FileType;
use segno_fuse::protocol::{
    AttrCaching, CreateIn, FOREVER, LinkIn, MkdirIn, MknodIn, Opcode, OpenedFlags, Page, ReadIn, Rename2In,
    RenameIn, Reply, Request, entry_out, ino_of, no_entry, opened, rdev_of,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const REGULAR: u16 = 0o100_000;
const DIRECTORY: u16 = 0o040_000;
const SYMLINK: u16 = 0o120_777;
/// The flag of rename(2).
const NO_REPLACE: u32 = 1;

impl Ceiling {
    pub(super) fn lookup(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let name = r.name()?;
        if let Some(entry) = self.no_open_probe.entry(r.head.nodeid, name) {
            return reply.put(&entry);
        }
        let found = self.of(r)?.inode.read().dir()?.find(name).map(|entry| Ino(entry.ino));
        match found {
            Some(ino) => put_entry(reply, &*self.node(ino)?),
            None => reply.put(&no_entry()),
        }
    }

    pub(super) fn make(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (mode, umask, rdev) = match r.opcode {
            Opcode::Create => r.arg().map(|a: CreateIn| (REGULAR | a.mode as u16 & 0o7777, a.umask, 0))?,
            Opcode::Mkdir => r.arg().map(|a: MkdirIn| (DIRECTORY | a.mode as u16 & 0o7777, a.umask, 0))?,
            Opcode::Mknod => r.arg().map(|a: MknodIn| (a.mode as u16, a.umask, a.rdev))?,
            _ => (SYMLINK, 0, 0),
        };
        let parent = self.of(r)?;
        let (name, content) = match FileType::of_mode(mode) {
            FileType::Regular => (r.name()?, Content::File(Vec::new())),
            FileType::Directory => (r.name()?, Content::Dir(Dir::below(parent.ino))),
            FileType::Symlink => r.names().map(|(name, target)| (name, Content::Link(target.to_vec())))?,
            _ => (r.name()?, Content::Special),
        };
        let mut inode = Inode::new(mode & !(umask as u16 & 0o777), (r.head.uid, r.head.gid), content);
        inode.rdev = rdev_of(rdev);
        let node = self.add(&parent, name, inode)?;
        put_entry(reply, &node)?;
        match r.opcode {
            Opcode::Create => reply.put(&opened(OpenedFlags::KEEP_CACHE | OpenedFlags::NOFLUSH)),
            _ => Ok(()),
        }
    }

    fn add(&self, parent: &Node, name: &[u8], inode: Inode) -> Result<Arc<Node>, Errno> {
        let mut above = parent.inode.write();
        let dir = above.dir_mut()?;
        if dir.find(name).is_some() {
            return Err(Errno::EXIST);
        }
        let ino = Ino(self.next_ino.fetch_add(1, Ordering::Relaxed));
        dir.put(Entry { name: name.to_vec(), ino: ino.0, mode: inode.mode });
        above.nlink += u32::from(matches!(inode.content, Content::Dir(_)));
        above.touch();
        let node = Arc::new(Node::new(ino, inode));
        self.nodes.write().insert(ino, node.clone());
        parent.changed();
        node.changed();
        Ok(node)
    }

    pub(super) fn link(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (node, parent) = (self.node(ino_of(r.arg::<LinkIn>()?.oldnodeid))?, self.of(r)?);
        let mut above = parent.inode.write();
        let dir = above.dir_mut()?;
        if dir.find(r.name()?).is_some() {
            return Err(Errno::EXIST);
        }
        let mut inode = node.inode.write();
        dir.put(Entry { name: r.name()?.to_vec(), ino: node.ino.0, mode: inode.mode });
        inode.nlink += 1;
        drop(inode);
        above.touch();
        parent.changed();
        node.changed();
        put_entry(reply, &node)
    }

    pub(super) fn remove(&self, r: &Request<'_>) -> Done {
        let parent = self.of(r)?;
        let mut above = parent.inode.write();
        let entry = above.dir()?.find(r.name()?).ok_or(Errno::NOENT)?;
        let node = self.node(Ino(entry.ino))?;
        let is_dir = self.check_removal(&node, r.opcode == Opcode::Rmdir)?;
        above.dir_mut()?.remove(r.name()?);
        above.nlink -= u32::from(is_dir);
        above.touch();
        drop(above);
        parent.changed();
        self.lose_name(&node);
        Ok(())
    }

    /// Whether it is a directory.
    fn check_removal(&self, node: &Node, as_dir: bool) -> Result<bool, Errno> {
        match (&node.inode.read().content, as_dir) {
            (Content::Dir(dir), true) if !dir.is_empty() => Err(Errno::NOTEMPTY),
            (Content::Dir(_), false) => Err(Errno::ISDIR),
            (content, true) if !matches!(content, Content::Dir(_)) => Err(Errno::NOTDIR),
            (_, is_dir) => Ok(is_dir),
        }
    }

    /// A name of the inode is gone.
    fn lose_name(&self, node: &Node) {
        let mut inode = node.inode.write();
        let is_dir = matches!(inode.content, Content::Dir(_));
        inode.nlink = if is_dir { 0 } else { inode.nlink.saturating_sub(1) };
        drop(inode);
        node.changed();
        self.free_if_unused(node);
    }

    fn free_if_unused(&self, node: &Node) {
        let mut inode = node.inode.write();
        if inode.nlink > 0 || node.references.load(Ordering::Acquire) > 0 {
            return;
        }
        if let Ok(blocks) = inode.blocks_mut() {
            self.image.give_back(std::mem::take(blocks));
        }
        self.nodes.write().remove(&node.ino);
    }

    pub(super) fn rename(&self, r: &Request<'_>) -> Done {
        let (to, flags) = match r.opcode {
            Opcode::Rename2 => r.arg().map(|a: Rename2In| (a.newdir, a.flags))?,
            _ => (r.arg::<RenameIn>()?.newdir, 0),
        };
        if flags & !NO_REPLACE != 0 {
            return Err(Errno::INVAL);
        }
        let (from, to, (old, new)) = (self.of(r)?, self.node(ino_of(to))?, r.names()?);
        // The kernel renames one name at a time between directories, and none in them meanwhile.
        let moved = from.inode.read().dir()?.find(old).cloned().ok_or(Errno::NOENT)?;
        let node = self.node(Ino(moved.ino))?;
        let is_dir = matches!(node.inode.read().content, Content::Dir(_));
        let replaced = to.inode.read().dir()?.find(new).map(|entry| Ino(entry.ino));
        let replaced = match replaced.map(|ino| self.node(ino)).transpose()? {
            Some(_) if flags == NO_REPLACE => return Err(Errno::EXIST),
            Some(other) if other.ino == node.ino => return Ok(()),
            Some(other) => self.check_removal(&other, is_dir).map(|_| Some(other))?,
            None => None,
        };
        let directories = |count: &mut Inode, add: bool| match (is_dir, add) {
            (true, true) => count.nlink += 1,
            (true, false) => count.nlink -= 1,
            (false, _) => {}
        };
        {
            let mut above = from.inode.write();
            above.dir_mut()?.remove(old);
            directories(&mut above, false);
            above.touch();
        }
        {
            let mut above = to.inode.write();
            above.dir_mut()?.put(Entry { name: new.to_vec(), ..moved });
            directories(&mut above, replaced.is_none());
            above.touch();
        }
        if let Content::Dir(dir) = &mut node.inode.write().content {
            dir.parent = to.ino.0;
        }
        [&from, &to, &node].iter().for_each(|node| node.changed());
        replaced.iter().for_each(|other| self.lose_name(other));
        Ok(())
    }

    pub(super) fn forget(&self, r: &Request<'_>) -> Done {
        for (node, count) in r.forgotten()? {
            self.drop_references(ino_of(node), count);
        }
        Ok(())
    }

    fn drop_references(&self, ino: Ino, count: u64) {
        let Ok(node) = self.node(ino) else { return };
        if node.references.fetch_sub(count, Ordering::AcqRel) == count {
            self.free_if_unused(&node);
        }
    }

    pub(super) fn list(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (a, node) = (r.arg::<ReadIn>()?, self.of(r)?);
        let (inode, with_entries) = (node.inode.read(), r.opcode == Opcode::ReadDirPlus);
        let dir = inode.dir()?;
        let mut page = Page::new(reply, &a);
        let dots = [(node.ino.0, b".".as_slice()), (dir.parent, b"..")];
        let dots = (0..).zip(dots).map(|(at, (ino, name))| (at, at + 1, ino, DIRECTORY, name));
        let names = dir.from(a.offset).map(|(next, e)| (next - 1, next, e.ino, e.mode, e.name.as_slice()));
        for (at, next, ino, mode, name) in dots.chain(names).skip_while(|(at, ..)| *at < a.offset) {
            let entry = DirEntry { ino: Ino(ino), kind: FileType::of_mode(mode), name, next };
            let child = match (with_entries, at < FIRST) {
                (false, _) => None,
                (true, true) => Some(node.clone()),
                (true, false) => Some(self.node(Ino(ino))?),
            };
            // The kernel begins with READDIRPLUS, and goes on with READDIR unless the caller looks names up.
            let known = child.as_ref().filter(|c| a.offset != 0 || c.is_known.load(Ordering::Relaxed));
            let attr = known.map(|c| if at < FIRST { inode.attr(c.ino) } else { c.attr() });
            let found = attr.map(|attr| entry_out(&attr, FOREVER, AttrCaching::Notified));
            let plus = with_entries.then(|| found.unwrap_or_default());
            if !page.put(plus.as_ref(), &entry) {
                break;
            }
            if let Some(child) = known.filter(|_| at >= FIRST) {
                child.refer();
            }
        }
        Ok(())
    }
}

/// The reply with an inode that was found or made.
fn put_entry(reply: &mut Reply<'_>, node: &Node) -> Done {
    reply.put(&entry_out(&node.attr(), FOREVER, AttrCaching::Notified))?;
    node.refer();
    Ok(())
}
