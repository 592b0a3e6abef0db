//! rename(2): the changes, after all locks and checks.
use super::new::Content;
use super::rename::{Locked, New, Rename};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::Names;
use crate::names::dir::{DirName, Probe};
use crate::nodes::Change;
use crate::times::{set_ctime, touch};
use crate::transaction::Op;
use crate::types::{RenameMode, Time};
use segno_format::dentry::FileType;
use segno_format::inode::Advise;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Device number and mode of a whiteout, which overlayfs expects.
const WHITEOUT_MODE: u16 = 0o020_000;

impl Names {
    /// Moves a name, with or without a target. Returns the target, which may have lost its last name.
    pub(super) fn move_name(&self, r: &Rename<'_>, locked: &Locked<'_>) -> Result<Option<Arc<Inode>>> {
        let whiteout = match r.mode {
            RenameMode::Whiteout => {
                let content = Content::Device(0, 0);
                Some(self.plan_inode(&r.old_dir, r.old_name.raw(), WHITEOUT_MODE, content, r.owner)?)
            }
            _ => None,
        };
        let op = self.base.tx.begin();
        // Steps that may run out of space come first.
        let whiteout = whiteout.map(|plan| self.make_inode(&op, &plan)).transpose()?;
        let named = self.put_new_name(&op, r, locked);
        match &whiteout {
            Some(whiteout) => self.or_discard(&op, whiteout, named)?,
            None => named?,
        }
        self.clear_old_name(&op, r, whiteout.as_deref())?;
        let now = self.base.now();
        let target = match &locked.new {
            New::Target(target, _) => {
                self.drop_link(&op, target, now);
                Some((*target).clone())
            }
            New::Room(_) => None,
        };
        self.settle_parents(&op, r, locked, now)?;
        self.note_place(&op, locked.child, &r.new_dir, r.new_name.raw(), now);
        self.note_dirs(r);
        Ok(target)
    }

    /// Points the new name to the child; nothing changes on failure.
    fn put_new_name(&self, op: &Op<'_>, r: &Rename<'_>, locked: &Locked<'_>) -> Result<()> {
        let (child, kind) = (locked.child.ino, kind_of(locked.child));
        match &locked.new {
            New::Room(room) => self.dirs.insert_at(op, &r.new_dir, &r.new_name, *room, child, kind),
            New::Target(target, found) => {
                self.unname(target, || self.dirs.retarget(op, &r.new_dir, found, child, kind))
            }
        }
    }

    /// Removes the old name, or points it to the whiteout. Looks it up again: inserting the new name may have
    /// converted the inline directory.
    fn clear_old_name(&self, op: &Op<'_>, r: &Rename<'_>, whiteout: Option<&Inode>) -> Result<()> {
        let found = self.dirs.find(&r.old_dir, &r.old_name)?.ok_or(Error::NotFound)?;
        match whiteout {
            None => self.dirs.remove(op, &r.old_dir, &found),
            Some(w) => self.dirs.retarget(op, &r.old_dir, &found, w.ino, FileType::CharDevice),
        }
    }

    /// Updates link counts and times of both directories after a move, and `..` of a moved directory.
    fn settle_parents(&self, op: &Op<'_>, r: &Rename<'_>, locked: &Locked<'_>, now: Time) -> Result<()> {
        let moved = i64::from(locked.child.is_dir());
        let replaced = match &locked.new {
            New::Target(target, _) => i64::from(target.is_dir()),
            New::Room(_) => 0,
        };
        if !r.crosses() {
            self.settle_parent(op, &r.old_dir, -replaced, now);
            return Ok(());
        }
        self.settle_parent(op, &r.old_dir, -moved, now);
        self.settle_parent(op, &r.new_dir, moved - replaced, now);
        if moved > 0 { self.dirs.set_parent(op, locked.child, r.new_dir.ino) } else { Ok(()) }
    }

    pub(super) fn settle_parent(&self, op: &Op<'_>, dir: &Inode, links: i64, now: Time) {
        self.nodes.cache.modify_inode(op, &dir.frame, |i| {
            let sum = i64::from(i.i_links.get()).saturating_add(links);
            i.i_links = U32::new(u32::try_from(sum).unwrap_or(0));
            touch(i, now);
        });
    }

    /// Stores the inode's new parent and name.
    fn note_place(&self, op: &Op<'_>, inode: &Inode, dir: &Inode, name: &[u8], now: Time) {
        self.nodes.cache.modify_inode(op, &inode.frame, |i| {
            i.set_name(dir.ino, name);
            if i.i_links.get() == 1 {
                // It is the only name, so parent and name are now correct.
                i.i_advise = (i.advise() - Advise::LOST_PINO).bits();
            }
            set_ctime(i, now);
        });
        self.nodes.since.add(inode.ino, Change::Renamed);
        if inode.is_dir() {
            self.nodes.since.dir_renamed();
        }
    }

    /// Records that both names lost an inode, the new one if it had any.
    fn note_dirs(&self, r: &Rename<'_>) {
        for (dir, name) in [(&r.old_dir, &r.old_name), (&r.new_dir, &r.new_name)] {
            self.nodes.since.add(dir.ino, Change::Directory);
            self.nodes.since.name_vacated(dir.ino, name.hash());
        }
    }

    /// Swaps the inodes of two names.
    pub(super) fn exchange_names(&self, r: &Rename<'_>, locked: &Locked<'_>) -> Result<()> {
        let New::Target(target, found) = &locked.new else { return Err(Error::NotFound) };
        let (child, target) = (locked.child, *target);
        let links = i64::from(child.is_dir()) - i64::from(target.is_dir());
        if r.crosses() && links < 0 && r.old_dir.get(|i| i.i_links.get()) == u32::MAX {
            return Err(Error::TooManyLinks);
        }
        let op = self.base.tx.begin();
        self.dirs.retarget(&op, &r.new_dir, found, child.ino, kind_of(child))?;
        self.dirs.retarget(&op, &r.old_dir, &locked.source, target.ino, kind_of(target))?;
        let now = self.base.now();
        let links = if r.crosses() { links } else { 0 };
        self.settle_parent(&op, &r.old_dir, -links, now);
        self.settle_parent(&op, &r.new_dir, links, now);
        for (inode, dir, name) in
            [(child, &r.new_dir, r.new_name.raw()), (target, &r.old_dir, r.old_name.raw())]
        {
            if r.crosses() && inode.is_dir() {
                self.dirs.set_parent(&op, inode, dir.ino)?;
            }
            self.note_place(&op, inode, dir, name, now);
        }
        self.note_dirs(r);
        Ok(())
    }

    /// Changes the spelling of a name in a casefolded directory.
    pub(super) fn respell_name(&self, r: &Rename<'_>, locked: &Locked<'_>) -> Result<()> {
        let child = locked.child;
        let (stored, hash) = self.dirs.stored(&r.old_dir, &locked.source)?;
        // Compared byte by byte, the two spellings are two names: the new one is added before the old one is removed.
        let (old, new) = (DirName::exact(&stored, hash), r.new_name.by_bytes());
        let Probe::Missing(room) = self.dirs.probe(&r.old_dir, &new)? else { return Ok(()) };
        let op = self.base.tx.begin();
        self.dirs.insert_at(&op, &r.old_dir, &new, room, child.ino, kind_of(child))?;
        let found = self.dirs.find(&r.old_dir, &old)?.ok_or(Error::NotFound)?;
        self.dirs.remove(&op, &r.old_dir, &found)?;
        let now = self.base.now();
        self.settle_parent(&op, &r.old_dir, 0, now);
        self.note_place(&op, child, &r.new_dir, r.new_name.raw(), now);
        self.note_dirs(r);
        Ok(())
    }
}

fn kind_of(inode: &Inode) -> FileType {
    FileType::of_mode(inode.get(|i| i.i_mode.get()))
}
