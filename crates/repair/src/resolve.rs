//! Names against inodes: names that lead nowhere go, inodes without a name get one, directories form a tree.
use crate::error::{RepairError, Result};
use crate::names::{Dir, Dirs, Name};
use crate::state::State;
use crate::{dentry_ino, dir, fields, names, older, rebuild, tree, xattr};
use segno_format::dentry::{FileType, LOST_FOUND};
use segno_format::inode::RawInode;
use segno_format::{Ino, text};
use std::collections::{BTreeMap, BTreeSet};

const ROOT: u32 = Ino::ROOT.0;
/// Attempts to find a free name in lost+found.
const TRIES: u32 = 100;

pub(crate) struct Tree {
    pub dirs: Dirs,
    /// Parent of each directory in the tree.
    pub parents: BTreeMap<u32, u32>,
    /// Names of each file.
    pub links: BTreeMap<u32, u32>,
    /// Directory and position of each name of an inode.
    pub names: BTreeMap<u32, Vec<(u32, usize)>>,
    /// Whether inodes may return under their former name.
    restore: bool,
    /// Names in directories that names were added to.
    taken: BTreeMap<u32, BTreeSet<Vec<u8>>>,
}

impl Tree {
    /// Whether a directory has a name.
    fn has(&mut self, parent: u32, name: &[u8]) -> bool {
        let Some(dir) = self.dirs.get(&parent) else { return false };
        let all = || dir.names.iter().map(|n| dir.identity(&n.name)).collect();
        self.taken.entry(parent).or_insert_with(all).contains(&dir.identity(name))
    }
}

/// Builds the tree of names.
pub(crate) fn run(state: &mut State<'_>, restore: bool) -> Result<Tree> {
    let dirs = names::read(state)?;
    let mut tree = Tree {
        dirs,
        parents: BTreeMap::new(),
        links: BTreeMap::new(),
        names: BTreeMap::new(),
        restore,
        taken: BTreeMap::new(),
    };
    if !tree.dirs.contains_key(&ROOT) {
        return Err(RepairError::Invariant("the root is a directory"));
    }
    older::confirm(state, &mut tree.dirs)?;
    targets(state, &mut tree)?;
    let hidden = hidden(state);
    dentry_ino::run(state, &mut tree.dirs, &hidden)?;
    one_parent_each(state, &mut tree)?;
    lost(state, &mut tree, &hidden)?;
    count(&mut tree, &hidden);
    write(state, &mut tree)?;
    for (&parent, dir) in &tree.dirs {
        for (i, name) in dir.names.iter().enumerate() {
            tree.names.entry(name.ino).or_default().push((parent, i));
        }
    }
    Ok(tree)
}

/// Inodes that need no name.
fn hidden(state: &State<'_>) -> BTreeSet<u32> {
    state.quota_inos().into_iter().chain([ROOT]).collect()
}

/// Drops names that lead to no inode, and gives the others the type of their inode.
fn targets(state: &mut State<'_>, tree: &mut Tree) -> Result<()> {
    let hidden = hidden(state);
    let mut todo: Vec<u32> = tree.dirs.keys().copied().collect();
    while let Some(ino) = todo.pop() {
        let Some(mut dir) = tree.dirs.remove(&ino) else { continue };
        let mut kept = Vec::with_capacity(dir.names.len());
        for mut name in std::mem::take(&mut dir.names) {
            let known = state.inodes.contains(&name.ino);
            let adopted = !known && state.adopt(name.ino) && state.inodes.contains(&name.ino);
            if adopted {
                fields::one(state, name.ino)?;
                tree::adopt(state, name.ino)?;
                xattr::one(state, name.ino)?;
            }
            if adopted || !known && rebuild::run(state, ino, &name)? {
                let block = state.block(name.ino)?;
                if block.view::<RawInode>().is_dir() {
                    let found = names::read_one(state, name.ino, &block)?;
                    tree.dirs.insert(name.ino, found);
                    todo.push(name.ino);
                }
            }
            if !state.inodes.contains(&name.ino) || hidden.contains(&name.ino) || name.ino == ino {
                let shown = text::name(&name.name);
                state.lose(ino, format!("name {shown} led to no file (inode {}), and is removed", name.ino));
                dir.dirty = true;
                continue;
            }
            let kind = FileType::of_mode(state.block(name.ino)?.view::<RawInode>().i_mode.get()) as u8;
            if name.file_type != kind {
                name.file_type = kind;
                dir.dirty = true;
            }
            kept.push(name);
        }
        dir.names = kept;
        tree.dirs.insert(ino, dir);
    }
    Ok(())
}

/// A directory with several names keeps the one in the directory that it names as its parent.
fn one_parent_each(state: &mut State<'_>, tree: &mut Tree) -> Result<()> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&parent, dir) in &tree.dirs {
        for name in dir.names.iter().filter(|n| n.file_type == FileType::Directory as u8) {
            found.entry(name.ino).or_default().push(parent);
        }
    }
    for (ino, of) in found {
        let pino = state.block(ino)?.view::<RawInode>().i_pino.get();
        let dotdot = tree.dirs.get(&ino).and_then(|d| d.dots[1]);
        let own = |p: &&u32| **p == pino;
        let up = |p: &&u32| Some(**p) == dotdot;
        let Some(&parent) = of.iter().find(own).or_else(|| of.iter().find(up)).or(of.first()) else {
            continue;
        };
        tree.parents.insert(ino, parent);
        if of.len() == 1 {
            continue;
        }
        for at in of {
            if let Some(dir) = tree.dirs.get_mut(&at) {
                remove_one(state, at, dir, ino, at == parent);
            }
        }
    }
    Ok(())
}

/// Removes the last name that leads to an inode; of the parent itself only if there are several.
fn remove_one(state: &mut State<'_>, at: u32, dir: &mut Dir, ino: u32, several: bool) {
    let names = dir.names.iter().filter(|n| n.ino == ino).count();
    let position = dir.names.iter().rposition(|n| n.ino == ino).filter(|_| !several || names > 1);
    if let Some(i) = position {
        let name = dir.names.remove(i);
        dir.dirty = true;
        let shown = text::name(&name.name);
        state.lose(at, format!("second name {shown} of directory {ino} is removed"));
    }
}

/// Directories that can be reached from the root.
fn reachable(tree: &Tree) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    tree.parents.iter().for_each(|(&ino, &parent)| children.entry(parent).or_default().push(ino));
    let (mut found, mut todo) = (BTreeSet::from([ROOT]), vec![ROOT]);
    while let Some(ino) = todo.pop() {
        for &child in children.get(&ino).map(Vec::as_slice).unwrap_or_default() {
            if found.insert(child) {
                todo.push(child);
            }
        }
    }
    found
}

/// Names for inodes that have none; orphans are freed.
fn lost(state: &mut State<'_>, tree: &mut Tree, hidden: &BTreeSet<u32>) -> Result<()> {
    free_orphans(state, tree, hidden)?;
    loop {
        let reached = reachable(tree);
        let out: Vec<u32> = tree.dirs.keys().copied().filter(|ino| !reached.contains(ino)).collect();
        let tops: Vec<u32> = out.iter().copied().filter(|ino| !tree.parents.contains_key(ino)).collect();
        for &ino in &tops {
            name_it(state, tree, ino)?;
        }
        match out.first() {
            Some(_) if !tops.is_empty() => {}
            Some(&ino) => {
                let parent = tree.parents.remove(&ino).unwrap_or_default();
                if let Some(dir) = tree.dirs.get_mut(&parent) {
                    dir.names.retain(|n| n.ino != ino);
                    dir.dirty = true;
                }
                state.lose(ino, "the directory was inside itself");
                name_it(state, tree, ino)?;
            }
            None => break,
        }
    }
    unnamed(state, &named(tree), hidden).into_iter().try_for_each(|ino| name_it(state, tree, ino))
}

/// Inodes that a name leads to.
fn named(tree: &Tree) -> BTreeSet<u32> {
    tree.dirs.values().flat_map(|d| &d.names).map(|n| n.ino).collect()
}

/// Inodes that need a name and have none.
fn unnamed(state: &State<'_>, named: &BTreeSet<u32>, hidden: &BTreeSet<u32>) -> Vec<u32> {
    state.inodes.difference(named).copied().filter(|ino| !hidden.contains(ino)).collect()
}

/// Inodes of the orphan list, and others without links, that no name leads to.
fn free_orphans(state: &mut State<'_>, tree: &mut Tree, hidden: &BTreeSet<u32>) -> Result<()> {
    let named = named(tree);
    let listed: BTreeSet<u32> = state.vol.orphans.iter().copied().collect();
    for ino in listed.intersection(&named) {
        state.note(*ino, "was listed as an orphan although it has a name, and is kept");
    }
    for ino in unnamed(state, &named, hidden) {
        let links = state.block(ino)?.view::<RawInode>().i_links.get();
        let empty = tree.dirs.get(&ino).is_none_or(|d| d.names.is_empty());
        if (links == 0 || listed.contains(&ino)) && empty {
            state.inodes.remove(&ino);
            tree.dirs.remove(&ino);
            tree.parents.remove(&ino);
        }
    }
    Ok(())
}

/// Gives an inode its former name, or one in lost+found.
fn name_it(state: &mut State<'_>, tree: &mut Tree, ino: u32) -> Result<()> {
    let raw: RawInode = *state.block(ino)?.view();
    let (pino, former) = (raw.i_pino.get(), raw.name().to_vec());
    let allowed = tree.dirs.get(&pino).is_some_and(|d| !d.encrypted && d.allows(&former));
    let fits = allowed && !tree.has(pino, &former);
    let inside = tree.parents.contains_key(&pino) || pino == ROOT;
    if tree.restore && fits && inside && !is_below(tree, pino, ino) {
        add(state, tree, pino, &former, ino)?;
        state.note(ino, "had lost its name, and has it again");
        return Ok(());
    }
    let home = lost_found(state, tree)?;
    let mut candidates = (1..TRIES).map(|i| if i == 1 { ino.to_string() } else { format!("{ino}-{i}") });
    let Some(name) = candidates.find(|n| !tree.has(home, n.as_bytes())).map(String::into_bytes) else {
        return Err(RepairError::refused(format!("no name is free in lost+found for inode {ino}")));
    };
    add(state, tree, home, &name, ino)?;
    let shown = text::name(&former);
    state.note(ino, format!("had lost its name (formerly {shown} in directory {pino})"));
    Ok(())
}

/// Whether a directory is another one or below it.
fn is_below(tree: &Tree, mut at: u32, top: u32) -> bool {
    for _ in 0..=tree.parents.len() {
        if at == top {
            return true;
        }
        match tree.parents.get(&at) {
            Some(&parent) => at = parent,
            None => return false,
        }
    }
    true
}

fn add(state: &mut State<'_>, tree: &mut Tree, parent: u32, name: &[u8], ino: u32) -> Result<()> {
    let block = state.block(ino)?;
    let raw: &RawInode = block.view();
    let is_dir = raw.is_dir();
    let file_type = FileType::of_mode(raw.i_mode.get()) as u8;
    let Some(dir) = tree.dirs.get_mut(&parent) else { return Ok(()) };
    let hash = dir.hash(name).unwrap_or_default();
    dir.names.push(Name { name: name.to_vec(), hash, ino, file_type, stored_type: file_type, place: None });
    dir.dirty = true;
    if let Some(taken) = tree.taken.get_mut(&parent) {
        taken.insert(dir.identity(name));
    }
    if is_dir {
        tree.parents.insert(ino, parent);
    }
    state.inode(ino, |raw| raw.set_name(Ino(parent), name))?;
    Ok(())
}

/// The directory lost+found, which is made if it is missing.
fn lost_found(state: &mut State<'_>, tree: &mut Tree) -> Result<u32> {
    let root = tree.dirs.get(&ROOT);
    let found = root.and_then(|d| d.names.iter().find(|n| n.name == LOST_FOUND)).map(|n| n.ino);
    match found {
        Some(ino) if tree.dirs.contains_key(&ino) => return Ok(ino),
        Some(_) => return Err(RepairError::refused("/lost+found is not a directory: rename it")),
        None => {}
    }
    let Some(ino) = state.new_nid() else {
        return Err(RepairError::refused("no node id is free for a directory lost+found"));
    };
    rebuild::make(state, ino, 0o040_700)?;
    let dir = Dir { dirty: true, ..Dir::of(state.block(ino)?.view()) };
    tree.dirs.insert(ino, dir);
    add(state, tree, ROOT, LOST_FOUND, ino)?;
    state.note(ino, "is made for files without a name");
    Ok(ino)
}

fn count(tree: &mut Tree, hidden: &BTreeSet<u32>) {
    tree.links = hidden.iter().filter(|ino| **ino != ROOT).map(|ino| (*ino, 1)).collect();
    for dir in tree.dirs.values() {
        for name in &dir.names {
            *tree.links.entry(name.ino).or_default() += 1;
        }
    }
    for (&ino, dir) in &tree.dirs {
        let subdirs = dir.names.iter().filter(|n| n.file_type == FileType::Directory as u8).count();
        tree.links.insert(ino, 2 + subdirs as u32);
    }
}

/// Writes the directories whose names or `.` and `..` are not as they should be.
fn write(state: &mut State<'_>, tree: &mut Tree) -> Result<()> {
    let inos: Vec<u32> = tree.dirs.keys().copied().collect();
    for ino in inos {
        let parent = tree.parents.get(&ino).copied().unwrap_or(ROOT);
        let raw: RawInode = *state.block(ino)?.view();
        let (depth, is_lost_found) = (raw.i_current_depth.get(), raw.name() == LOST_FOUND);
        let Some(d) = tree.dirs.get_mut(&ino) else { continue };
        // The `..` of lost+found differs between versions of mkfs.f2fs.
        let loose = is_lost_found && parent == ROOT && d.dots[1] == Some(ino);
        let up = d.dots[1] == Some(parent) || loose;
        let right = d.dots[0] == Some(ino) && up;
        let misplaced = d.names.iter().any(|n| names::is_misplaced(d, n, depth));
        if d.dirty || !right || misplaced || dir::is_inline_root(ino, d) {
            dir::write(state, ino, d, parent)?;
            state.note(ino, "entries of the directory were wrong");
        }
    }
    Ok(())
}
