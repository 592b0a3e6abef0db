//! Paths of the inodes that a plan speaks of.
use crate::action::Action;
use crate::resolve::Tree;
use segno_format::Nid;

/// Adds the paths.
pub(crate) fn name(mut actions: Vec<Action>, tree: &Tree) -> Vec<Action> {
    for action in &mut actions {
        action.path = action.ino.and_then(|ino| path(tree, ino));
    }
    actions
}

/// Path of an inode, by its first name.
fn path(tree: &Tree, mut ino: u32) -> Option<String> {
    let mut words = Vec::new();
    for _ in 0..=tree.parents.len() + 1 {
        if ino == Nid::ROOT.0 {
            words.reverse();
            return Some(format!("/{}", words.join("/")));
        }
        let (parent, i) = tree.names.get(&ino)?.first().copied()?;
        let name = tree.dirs.get(&parent)?.names.get(i)?;
        words.push(String::from_utf8_lossy(&name.name).into_owned());
        ino = parent;
    }
    None
}
