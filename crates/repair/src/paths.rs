//! Paths of the inodes that a plan speaks of.
use crate::action::Action;
use crate::resolve::Tree;
use segno_format::{Ino, text};

/// Adds the paths.
pub(crate) fn name(actions: &mut [Action], tree: &Tree) {
    for action in actions {
        let found = action.ino.and_then(|ino| path(tree, ino)).map(|path| text::field(&path));
        let (path, path_bytes) = found.unzip();
        (action.path, action.path_bytes) = (path, path_bytes.flatten());
    }
}

/// Path of an inode, by its first name.
fn path(tree: &Tree, mut ino: u32) -> Option<Vec<u8>> {
    let mut words: Vec<&[u8]> = Vec::new();
    for _ in 0..=tree.parents.len() + 1 {
        if ino == Ino::ROOT.0 {
            words.reverse();
            return Some([b"/", words.join(&b'/').as_slice()].concat());
        }
        let (parent, i) = tree.names.get(&ino)?.first().copied()?;
        let name = tree.dirs.get(&parent)?.names.get(i)?;
        words.push(&name.name);
        ino = parent;
    }
    None
}
