//! Directory entries with the inode number of another file.
//!
//! A damaged inode number in a directory gives one file a name too many and takes one from another. The first
//! file is recognized by its link count, and by the name in its inode, which is in another place.
use crate::error::{RepairError, Result};
use crate::names::{Dir, Dirs};
use crate::state::State;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use segno_format::text;
use std::collections::{BTreeMap, BTreeSet};

/// An inode with fewer names than links.
struct Lacking {
    kind: u8,
    missing: u32,
    /// Parent and name in the inode.
    recorded: (u32, Vec<u8>),
}

/// Inodes whose names are not as many as their links.
#[derive(Default)]
struct Uneven {
    /// Names to spare, and links.
    spare: BTreeMap<u32, (u32, u32)>,
    lacking: BTreeMap<u32, Lacking>,
}

/// A name that is not the own one of a file with names to spare.
struct SurplusName {
    dir: u32,
    i: usize,
    ino: u32,
}

/// Redirects names to the files that lack them. Of a file with one link, a name that another file may have
/// had is removed.
pub(crate) fn run(state: &mut State<'_>, dirs: &mut Dirs, hidden: &BTreeSet<u32>) -> Result<()> {
    let mut uneven = uneven(state, dirs, hidden)?;
    if uneven.spare.is_empty() {
        return Ok(());
    }
    let all = surplus_names(state, dirs, &uneven)?;
    uneven.lacking.retain(|_, l| l.missing as usize <= all.len());
    let mut removed: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for name in all {
        if redirect_one(state, dirs, &mut uneven, &name)? {
            removed.entry(name.dir).or_default().insert(name.i);
        }
    }
    for (ino, places) in removed {
        let dir = dirs.get_mut(&ino).ok_or(FOUND)?;
        let mut i = 0..;
        dir.names.retain(|_| i.next().is_none_or(|i| !places.contains(&i)));
    }
    Ok(())
}

const FOUND: RepairError = RepairError::Invariant("a name that was found is in its directory");

fn uneven(state: &State<'_>, dirs: &Dirs, hidden: &BTreeSet<u32>) -> Result<Uneven> {
    let mut names: BTreeMap<u32, u32> = BTreeMap::new();
    dirs.values().flat_map(|d| &d.names).for_each(|n| *names.entry(n.ino).or_default() += 1);
    let orphans: BTreeSet<u32> = state.vol.orphans.iter().copied().collect();
    let mut out = Uneven::default();
    for &ino in state.inodes.difference(hidden) {
        let block = state.block(ino)?;
        let raw: &RawInode = block.view();
        let links = if raw.is_dir() { 1 } else { raw.i_links.get() };
        let names = names.get(&ino).copied().unwrap_or(0);
        if names > links && links > 0 {
            out.spare.insert(ino, (names - links, links));
        } else if names < links && !orphans.contains(&ino) {
            let recorded = (raw.i_pino.get(), raw.name().to_vec());
            let kind = FileType::of_mode(raw.i_mode.get()) as u8;
            out.lacking.insert(ino, Lacking { kind, missing: links - names, recorded });
        }
    }
    Ok(out)
}

fn surplus_names(state: &State<'_>, dirs: &Dirs, uneven: &Uneven) -> Result<Vec<SurplusName>> {
    let mut own: BTreeMap<u32, (u32, Vec<u8>)> = BTreeMap::new();
    for &ino in uneven.spare.keys() {
        let block = state.block(ino)?;
        let raw: &RawInode = block.view();
        let (pino, name) = (raw.i_pino.get(), raw.name());
        if dirs.get(&pino).is_some_and(|d| d.names.iter().any(|n| n.ino == ino && n.name == name)) {
            own.insert(ino, (pino, name.to_vec()));
        }
    }
    let mut out = Vec::new();
    for (&at, dir) in dirs {
        let is_other = |ino, name| own.get(&ino).is_some_and(|own| (own.0, &own.1) != (at, name));
        let found = dir.names.iter().enumerate().filter(|(_, n)| is_other(n.ino, &n.name));
        out.extend(found.map(|(i, n)| SurplusName { dir: at, i, ino: n.ino }));
    }
    Ok(out)
}

/// Redirects one name if its file is known; whether it is to be removed.
fn redirect_one(
    state: &mut State<'_>,
    dirs: &mut Dirs,
    uneven: &mut Uneven,
    surplus: &SurplusName,
) -> Result<bool> {
    let Some(&(spare, links)) = uneven.spare.get(&surplus.ino).filter(|(spare, _)| *spare > 0) else {
        return Ok(false);
    };
    let is_dir = state.block(surplus.ino)?.view::<RawInode>().is_dir();
    let dir = dirs.get_mut(&surplus.dir).ok_or(FOUND)?;
    let name = dir.names.get(surplus.i).ok_or(FOUND)?;
    let other_type = name.stored_type != name.file_type;
    let shown = text::name(&name.name);
    let target = match recorded(uneven, surplus.dir, &name.name) {
        // If a file has several links, only a wrong type shows which name is wrong.
        None if links > 1 && !other_type => return Ok(false),
        None => only(uneven, name.stored_type),
        target => target,
    };
    let found = target.is_some();
    if let Some(ino) = target {
        redirect(dir, surplus.i, ino, uneven)?;
        state.note(ino, format!("its name {shown} led to inode {}", surplus.ino));
    } else if !is_dir && (other_type || !uneven.lacking.is_empty()) {
        dir.dirty = true;
        state.lose(
            surplus.dir,
            format!("name {shown} led to inode {}, which has another one, and is removed", surplus.ino),
        );
    } else {
        return Ok(false);
    }
    uneven.spare.insert(surplus.ino, (spare - 1, links));
    Ok(!found)
}

/// The inode that lacks a name and has this one in it.
fn recorded(uneven: &Uneven, dir: u32, name: &[u8]) -> Option<u32> {
    let has = |l: &Lacking| l.recorded.0 == dir && l.recorded.1 == name;
    uneven.lacking.iter().find(|(_, l)| has(l)).map(|(ino, _)| *ino)
}

/// The only inode of a type that lacks a name.
fn only(uneven: &Uneven, kind: u8) -> Option<u32> {
    let mut found = uneven.lacking.iter().filter(|(_, l)| l.kind == kind).map(|(ino, _)| *ino);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn redirect(dir: &mut Dir, i: usize, ino: u32, uneven: &mut Uneven) -> Result<()> {
    let name = dir.names.get_mut(i).ok_or(FOUND)?;
    let lacking = uneven.lacking.get_mut(&ino).ok_or(RepairError::Invariant("the inode lacks a name"))?;
    (name.ino, name.file_type) = (ino, lacking.kind);
    dir.dirty = true;
    lacking.missing -= 1;
    uneven.lacking.retain(|_, l| l.missing > 0);
    Ok(())
}
