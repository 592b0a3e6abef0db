//! Inodes that were deleted, by their last version on the device, with their paths.
use crate::file::{File, Opened};
use crate::scan::Candidate;
use crate::tree::Tree;
use crate::volume::{Checked, Volume};
use segno_format::dentry::FileType;
use segno_format::inode::Advise;
use std::collections::HashMap;

/// Directories above a file; more is a loop.
const DEPTH: usize = 256;

/// A deleted inode.
pub struct DeletedInode {
    /// Its last version.
    pub file: Opened,
    /// Names from below the root.
    pub path: Vec<Vec<u8>>,
    /// Inode number of its directory.
    pub parent: u32,
}

/// All deleted files; directories only as parts of their paths.
#[must_use]
pub fn deleted(volume: &Volume<'_>, tree: &Tree) -> Vec<DeletedInode> {
    let mut names: HashMap<u32, (u32, Vec<u8>)> = HashMap::new();
    let mut found = Vec::new();
    let mut inos: Vec<u32> = volume.nodes.inodes().map(|n| n.nid).collect();
    inos.sort_unstable();
    for ino in inos {
        for (node, lifetime) in generations(volume, ino) {
            let Some(file) = File::read(volume, &node).filter(|f| f.checked != Checked::Wrong) else {
                continue;
            };
            let (parent, name) = name_of(tree, &file);
            if file.raw().is_dir() {
                names.entry(ino).or_insert((parent, name));
            } else {
                found.push((file, lifetime, parent, name));
            }
        }
    }
    let live: HashMap<u32, u32> = (0u32..)
        .zip(&tree.entries)
        .filter_map(|(at, e)| Some((tree.record(e.record?)?, at)))
        .filter(|(r, _)| r.kind == FileType::Directory)
        .map(|(r, at)| (r.node.nid, at))
        .collect();
    let mut out = Vec::new();
    for (file, lifetime, parent, name) in found {
        let mut path = path_of(tree, &live, &names, parent);
        path.push(name);
        let choose = choose(volume, file.node.ino, lifetime);
        out.push(DeletedInode { file: file.open(volume, &choose), path, parent });
    }
    out
}

/// The last version of each inode of a number that is not the live one, with the time it can have lived.
fn generations(volume: &Volume<'_>, ino: u32) -> Vec<(Candidate, (u32, u32))> {
    let live = volume.live(ino, Candidate::is_inode).map(|(n, _)| n.generation);
    let mut out: Vec<(Candidate, (u32, u32))> = Vec::new();
    // Newest version first: each one is older than the one before it in the list.
    let (mut until, mut current) = (u32::MAX, None);
    for n in volume.nodes.of(ino) {
        let version = volume.nodes.version(n.cp_ver);
        let this = n.is_inode().then_some(n.generation);
        if current != Some(this) {
            if let Some((_, (after, _))) = out.last_mut().filter(|_| current.is_some()) {
                *after = (*after).max(version);
            }
            if this.is_some()
                && this != live
                && (volume.promised(n) || volume.chain.overlay.get(&ino) == Some(&n.addr))
            {
                out.push((*n, (0, until)));
            }
            current = Some(this);
        }
        until = until.min(version);
    }
    out
}

fn name_of(tree: &Tree, file: &File) -> (u32, Vec<u8>) {
    let raw = file.raw();
    let ino = file.node.ino;
    let stored = !raw.advise().contains(Advise::LOST_PINO) && !raw.name().is_empty();
    if stored {
        return (raw.i_pino.get(), raw.name().to_vec());
    }
    match tree.removed.get(&ino).and_then(|names| names.first()) {
        Some((parent, name)) => (*parent, name.to_vec()),
        None => (raw.i_pino.get(), ino.to_string().into_bytes()),
    }
}

fn path_of(
    tree: &Tree,
    live: &HashMap<u32, u32>,
    dead: &HashMap<u32, (u32, Vec<u8>)>,
    mut dir: u32,
) -> Vec<Vec<u8>> {
    let mut below = Vec::new();
    for _ in 0..DEPTH {
        if let Some(&at) = live.get(&dir) {
            let above = tree.components(at).into_iter().map(<[u8]>::to_vec);
            return above.chain(below.into_iter().rev()).map(|n| safe(n, dir)).collect();
        }
        let Some((parent, name)) = dead.get(&dir) else { break };
        below.push(name.clone());
        dir = *parent;
    }
    below.push(format!("directory-{dir}").into_bytes());
    below.into_iter().rev().map(|n| safe(n, dir)).collect()
}

fn safe(name: Vec<u8>, number: u32) -> Vec<u8> {
    crate::output::safe_name(&name, number)
}

/// Chooses the nodes of an inode whose versions can be its own: later than the first, up to the second.
fn choose<'d>(
    volume: &'d Volume<'_>,
    ino: u32,
    (after, until): (u32, u32),
) -> impl Fn(Option<u32>, u32) -> Option<Candidate> + 'd {
    move |nid, offset| {
        let lived = |n: &&Candidate| {
            let version = volume.nodes.version(n.cp_ver);
            n.ino == ino && n.offset() == offset && version <= until && version >= after
        };
        match nid {
            Some(nid) => volume.nodes.of(nid).find(lived).copied(),
            None => volume.nodes.owned(ino, offset).take_while(|n| n.offset() == offset).find(lived).copied(),
        }
    }
}

impl DeletedInode {
    /// When its directory changed last, if that is live: by then it was gone.
    pub(super) fn parent_changed(&self, volume: &Volume<'_>, tree: &Tree) -> Option<u64> {
        let record = tree.record(tree.find(self.parent)?)?;
        Some(File::read(volume, &record.node)?.raw().i_mtime.get())
    }
}
