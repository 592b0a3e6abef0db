//! Selects what to replay of a chain: a pure decision over its links.
use super::chain::Link;
use crate::error::Result;
use segno_format::{BlockAddr, Ino};
use std::collections::HashMap;

/// The blocks to restore an inode from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub ino: Ino,
    /// The inode block to create the inode from, if the checkpoint lacks it.
    pub create_from: Option<BlockAddr>,
    /// The newest inode block with the `DENT` mark.
    pub entry_at: Option<BlockAddr>,
    /// The newest version of each node up to the last marked one, in chain order.
    pub nodes: Vec<Link>,
}

/// Which inodes to replay, and from which blocks. `exists` returns whether the checkpoint has an inode.
///
/// Nodes after an inode's last marked one were not acknowledged and may be incomplete. An inode neither in the
/// checkpoint nor in a marked block with `DENT` was deleted: its nodes are ignored.
pub fn plan(chain: &[Link], mut exists: impl FnMut(Ino) -> Result<bool>) -> Result<Vec<Target>> {
    let mut last_mark: HashMap<Ino, usize> = HashMap::new();
    let mut targets: Vec<Target> = Vec::new();
    let mut by_ino: HashMap<Ino, usize> = HashMap::new();
    for (i, link) in chain.iter().enumerate().filter(|(_, l)| l.fsync) {
        last_mark.insert(link.ino, i);
        let known = by_ino.get(&link.ino).copied();
        let index = match known {
            Some(index) => index,
            None => {
                let create = !exists(link.ino)?;
                if create && !link.dent {
                    continue;
                }
                by_ino.insert(link.ino, targets.len());
                let create_from = create.then_some(link.addr);
                targets.push(Target { ino: link.ino, create_from, entry_at: None, nodes: Vec::new() });
                targets.len() - 1
            }
        };
        if let Some(target) = targets.get_mut(index).filter(|_| link.dent) {
            target.entry_at = Some(link.addr);
        }
    }
    for (i, link) in chain.iter().enumerate() {
        let Some(target) = by_ino.get(&link.ino).and_then(|&t| targets.get_mut(t)) else { continue };
        if last_mark.get(&link.ino).is_some_and(|&last| i <= last) {
            target.nodes.retain(|n| n.node_offset != link.node_offset);
            target.nodes.push(*link);
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::Nid;
    use segno_format::node::XATTR_NODE_OFFSET;

    const INO: Ino = Ino(10);

    /// Links of inode 10: `i` is its inode block, `d` the direct node at offset 1, `x` its xattr node; then the
    /// marks.
    fn chain(text: &str) -> Vec<Link> {
        let link = |(i, word): (usize, &str)| {
            let (nid, node_offset) = match word.as_bytes()[0] {
                b'i' => (INO.nid(), 0),
                b'd' => (Nid(20), 1),
                b'x' => (Nid(30), XATTR_NODE_OFFSET),
                other => panic!("{other}"),
            };
            let (fsync, dent) = (word.contains('F'), word.contains('D'));
            Link { addr: BlockAddr(100 + i as u32), nid, ino: INO, node_offset, fsync, dent }
        };
        text.split_whitespace().enumerate().map(link).collect()
    }

    fn replayed(text: &str, exists: bool) -> Option<(Vec<u32>, Option<u32>)> {
        let mut targets = plan(&chain(text), |_| Ok(exists)).unwrap();
        assert!(targets.len() <= 1);
        let target = targets.pop()?;
        assert_eq!(target.create_from.is_some(), !exists);
        let position = |a: BlockAddr| a.0 - 100;
        Some((target.nodes.iter().map(|n| position(n.addr)).collect(), target.entry_at.map(position)))
    }

    #[test]
    fn an_existing_inode_is_replayed_up_to_its_last_mark() {
        assert_eq!(replayed("i dF", true), Some((vec![0, 1], None)));
        assert_eq!(replayed("dF i", true), Some((vec![0], None)));
        assert_eq!(replayed("d i", true), None);
        assert_eq!(replayed("d i dF i", true), Some((vec![1, 2], None)));
        assert_eq!(replayed("i x d iF", true), Some((vec![1, 2, 3], None)));
    }

    #[test]
    fn a_new_inode_needs_a_mark_with_its_entry() {
        assert_eq!(replayed("i dF", false), None);
        assert_eq!(replayed("iFD dF", false), Some((vec![0, 1], Some(0))));
        assert_eq!(replayed("dF iFD", false), Some((vec![0, 1], Some(1))));
        assert_eq!(replayed("iFD iF d iFD d", false), Some((vec![2, 3], Some(3))));
    }

    #[test]
    fn inodes_do_not_mix() {
        let mut both = chain("iFD d iF");
        let other = Ino(11);
        both.push(Link {
            addr: BlockAddr(200),
            nid: other.nid(),
            ino: other,
            node_offset: 0,
            fsync: true,
            dent: false,
        });
        both.push(Link {
            addr: BlockAddr(201),
            nid: Nid(40),
            ino: other,
            node_offset: 1,
            fsync: false,
            dent: false,
        });
        let targets = plan(&both, |ino| Ok(ino == other)).unwrap();
        let sizes: Vec<(u32, usize)> = targets.iter().map(|t| (t.ino.0, t.nodes.len())).collect();
        assert_eq!(sizes, [(10, 2), (11, 1)]);
    }
}
