//! rename(2): lookup, locks and checks. The changes are in `rename_steps`.
use super::locks::lock_all;
use super::perm::{check_key, check_may_remove, check_not_immutable, check_same_project};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::names::dir::{DirName, Found, Probe, Room, is_dots};
use crate::names::{Names, Renamed};
use crate::types::{Owner, RenameMode};
use segno_format::{Corrupt, Ino, Structure};
use std::collections::HashSet;
use std::sync::Arc;

/// Arguments of a rename.
pub(super) struct Rename<'a> {
    pub(super) old_dir: Arc<Inode>,
    pub(super) old_name: DirName<'a>,
    pub(super) new_dir: Arc<Inode>,
    pub(super) new_name: DirName<'a>,
    pub(super) mode: RenameMode,
    pub(super) owner: Owner,
}

impl Rename<'_> {
    /// Whether the two names are in different directories.
    pub(super) fn crosses(&self) -> bool {
        self.old_dir.ino != self.new_dir.ino
    }
}

/// The inodes of the two names when they were looked up.
struct RenameInodes {
    child: Arc<Inode>,
    target: Option<Arc<Inode>>,
}

/// The inodes with all locks held.
pub(super) struct Locked<'a> {
    pub(super) child: &'a Arc<Inode>,
    pub(super) source: Found,
    pub(super) new: New<'a>,
}

/// The target at the new name.
pub(super) enum New<'a> {
    Target(&'a Arc<Inode>, Found),
    Room(Room),
}

impl Names {
    /// Renames, exchanges two names, or leaves a whiteout. `owner` is the owner of the whiteout.
    pub fn rename(
        &self,
        old_dir: Ino,
        old_name: &[u8],
        new_dir: Ino,
        new_name: &[u8],
        mode: RenameMode,
        owner: Owner,
    ) -> Result<Renamed> {
        if is_dots(old_name) || is_dots(new_name) {
            return Err(Error::Busy("'.' and '..' cannot be renamed"));
        }
        let (old_dir, new_dir) = (self.files.inode(old_dir)?, self.files.inode(new_dir)?);
        if !old_dir.is_dir() || !new_dir.is_dir() {
            return Err(Error::NotDir);
        }
        check_key(&old_dir).and(check_key(&new_dir))?;
        let old_name = self.dirs.name(&old_dir, old_name)?;
        let new_name = self.dirs.name(&new_dir, new_name)?;
        let request = Rename { old_dir, old_name, new_dir, new_name, mode, owner };
        let unnamed = self.rename_until_stable(&request)?;
        Ok(Renamed { dirs: [Some(request.old_dir), Some(request.new_dir)], unnamed })
    }

    /// Looks up, locks and renames; repeats if the names change in between. Returns the replaced inode.
    fn rename_until_stable(&self, r: &Rename<'_>) -> Result<Option<Arc<Inode>>> {
        let mut serialized = None;
        loop {
            let parties = self.rename_parties(r)?;
            let moves_dir = r.crosses() && parties.moves_dir(r.mode);
            if moves_dir && serialized.is_none() {
                // From here on no directory changes its parent, so the paths found next are stable.
                serialized = Some(self.rename.lock());
                continue;
            }
            if moves_dir {
                self.refuse_loops(r, &parties)?;
            }
            if r.mode != RenameMode::Exchange && parties.target.is_some() {
                // Programs replace files this way without an fsync; no checkpoint may have the new name without the
                // content.
                self.writeback.flush_inode(&parties.child, 0..u64::MAX)?;
            }
            if let Some(done) = self.try_rename(r, &parties)? {
                return Ok(done);
            }
        }
    }

    fn rename_parties(&self, r: &Rename<'_>) -> Result<RenameInodes> {
        let (_, child) = self.find_child(&r.old_dir, &r.old_name)?.ok_or(Error::NotFound)?;
        let target = self.find_child(&r.new_dir, &r.new_name)?.map(|(_, inode)| inode);
        match (r.mode, &target) {
            (RenameMode::NoReplace, Some(_)) => Err(Error::Exists),
            (RenameMode::Exchange, None) => Err(Error::NotFound),
            _ => Ok(RenameInodes { child, target }),
        }
    }

    /// Refuses to move a directory below itself.
    fn refuse_loops(&self, r: &Rename<'_>, parties: &RenameInodes) -> Result<()> {
        if parties.child.is_dir() && self.is_below(&r.new_dir, parties.child.ino)? {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        let Some(target) = parties.target.as_ref().filter(|t| t.is_dir()) else { return Ok(()) };
        if self.is_below(&r.old_dir, target.ino)? {
            return Err(match r.mode {
                RenameMode::Exchange => Error::Invalid("a directory cannot be moved below itself"),
                _ => Error::NotEmpty,
            });
        }
        Ok(())
    }

    /// Whether `dir` is below `above`. The rename lock is held, so the path is stable.
    fn is_below(&self, dir: &Arc<Inode>, above: Ino) -> Result<bool> {
        let (mut dir, mut seen) = (dir.clone(), HashSet::new());
        while seen.insert(dir.ino) {
            if dir.ino == above {
                return Ok(true);
            }
            if dir.ino == Ino::ROOT {
                return Ok(false);
            }
            let parent = {
                let _lock = dir.lock.read();
                self.check_dir_alive(&dir)?;
                self.dirs.parent(&dir)?
            };
            dir = self.files.inode(parent)?;
        }
        let at = dir.ino.0;
        Err(Corrupt::nid(Structure::DentryBlock, at, "parents form a loop", at.into(), Ino::ROOT.0.into())
            .into())
    }

    /// Renames if both names still lead to the same inodes; `None` if not.
    fn try_rename(&self, r: &Rename<'_>, parties: &RenameInodes) -> Result<Option<Option<Arc<Inode>>>> {
        let mut all = vec![&r.old_dir, &r.new_dir, &parties.child];
        all.extend(&parties.target);
        let _locks = lock_all(&all);
        self.check_dir_alive(&r.old_dir)?;
        self.check_dir_alive(&r.new_dir)?;
        let Some(locked) = self.look_again(r, parties)? else { return Ok(None) };
        let New::Target(target, _) = &locked.new else {
            check_rename(r, &locked)?;
            return self.move_name(r, &locked).map(Some);
        };
        if target.ino == locked.child.ino {
            return self.rename_same(r, &locked).map(|()| Some(None));
        }
        check_rename(r, &locked)?;
        if r.mode == RenameMode::Exchange {
            return self.exchange_names(r, &locked).map(|()| Some(None));
        }
        self.check_replaceable(locked.child, target)?;
        self.move_name(r, &locked).map(Some)
    }

    fn look_again<'a>(&self, r: &Rename<'_>, parties: &'a RenameInodes) -> Result<Option<Locked<'a>>> {
        let child = &parties.child;
        let Some(source) = self.dirs.find(&r.old_dir, &r.old_name)?.filter(|f| f.ino == child.ino) else {
            return Ok(None);
        };
        let new = match (self.dirs.probe(&r.new_dir, &r.new_name)?, &parties.target) {
            (Probe::Found(found), Some(target)) if found.ino == target.ino => New::Target(target, found),
            (Probe::Missing(room), None) => New::Room(room),
            _ => return Ok(None),
        };
        Ok(Some(Locked { child, source, new }))
    }

    fn check_replaceable(&self, child: &Inode, target: &Arc<Inode>) -> Result<()> {
        match (child.is_dir(), target.is_dir()) {
            (true, false) => Err(Error::NotDir),
            (false, true) => Err(Error::IsDir),
            (true, true) if !self.dirs.is_empty(target)? => Err(Error::NotEmpty),
            _ => Ok(()),
        }
    }

    /// Both names lead to one inode. Two hard links stay; one name in another spelling is respelled.
    fn rename_same(&self, r: &Rename<'_>, locked: &Locked<'_>) -> Result<()> {
        let New::Target(_, found) = &locked.new else { return Ok(()) };
        let one_entry = !r.crosses() && locked.source.is_same_entry(found);
        if one_entry && r.mode != RenameMode::Exchange {
            check_rename(r, locked)?;
            return self.respell_name(r, locked);
        }
        Ok(())
    }
}

impl RenameInodes {
    /// Whether a directory changes its parent.
    fn moves_dir(&self, mode: RenameMode) -> bool {
        self.child.is_dir()
            || (mode == RenameMode::Exchange && self.target.as_ref().is_some_and(|t| t.is_dir()))
    }
}

/// Checks flags, projects and link counts.
fn check_rename(r: &Rename<'_>, locked: &Locked<'_>) -> Result<()> {
    check_may_remove(&r.old_dir, locked.child)?;
    match &locked.new {
        New::Target(target, _) => check_may_remove(&r.new_dir, target)?,
        New::Room(_) => check_not_immutable(&r.new_dir)?,
    }
    check_same_project(&r.new_dir, locked.child)?;
    let mut gains = r.crosses() && locked.child.is_dir();
    if let New::Target(target, _) = &locked.new {
        gains &= !target.is_dir();
        if r.mode == RenameMode::Exchange {
            check_same_project(&r.old_dir, target)?;
        }
    }
    if gains && r.new_dir.get(|i| i.i_links.get()) == u32::MAX {
        return Err(Error::TooManyLinks);
    }
    Ok(())
}
