//! Nodes of F2FS images that are stored in files. Their addresses count from the start of the image, so in their
//! neighbourhood most nodes name another base than the volume's.
use super::{Candidate, OF_MKFS};
use std::collections::HashMap;

/// Blocks looked at on either side.
const REACH: u32 = 64;
/// Checkpoints by which a node without a log may be ahead of all others. f2fs-tools store the version of the
/// pack, which no node of Linux or Segno has yet; the versions of two volumes are closer than that once in
/// 2^15 times.
const AHEAD: i32 = 1 << 16;

/// Removes the nodes that belong to another volume; `nodes` are in the order of their places.
pub(super) fn drop_foreign(nodes: &mut Vec<Candidate>, base: i64) {
    let native = |n: &Candidate| n.vote() == Some(base);
    if !nodes.iter().any(native) {
        return;
    }
    // The nodes of mkfs do not have the volume's version.
    let versions = nodes.iter().filter(|n| native(n) && n.cp_ver != OF_MKFS).map(|n| n.cp_ver as u32);
    let newest = versions.reduce(|a, b| if b.wrapping_sub(a).cast_signed() > 0 { b } else { a });
    let mut keep = Vec::with_capacity(nodes.len());
    let (mut from, mut to) = (0, 0);
    // The window moves with the node that is judged.
    let mut votes: HashMap<Option<i64>, u32> = HashMap::new();
    for n in nodes.iter() {
        while let Some(next) = nodes.get(to).filter(|m| m.addr <= n.addr.saturating_add(REACH)) {
            *votes.entry(next.vote()).or_default() += 1;
            to += 1;
        }
        while let Some(first) = nodes.get(from).filter(|m| m.addr.saturating_add(REACH) < n.addr) {
            if let Some(count) = votes.get_mut(&first.vote()) {
                *count -= 1;
                if *count == 0 {
                    votes.remove(&first.vote());
                }
            }
            from += 1;
        }
        let ours = votes.get(&Some(base)).copied().unwrap_or_default();
        let others = || votes.iter().filter(|(v, _)| v.is_some_and(|b| b != base)).map(|(_, c)| *c);
        let outvoted = || others().max().is_some_and(|most| most > 1 && most > ours);
        let most = if n.in_log() { 0 } else { AHEAD };
        let later = newest.is_some_and(|v| (n.cp_ver as u32).wrapping_sub(v).cast_signed() > most);
        keep.push(native(n) || !(later || outvoted()));
    }
    let mut keep = keep.into_iter();
    nodes.retain(|_| keep.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(nodes: &[(u32, u64, u32)]) -> Vec<u32> {
        let (flag, ctime, generation, rank, chain) = (0, 0, 0, 0, 0);
        let node = |&(addr, cp_ver, next): &(u32, u64, u32)| {
            let nid = addr;
            Candidate { addr, nid, ino: nid, flag, cp_ver, next, ctime, generation, rank, chain }
        };
        let mut nodes: Vec<Candidate> = nodes.iter().map(node).collect();
        drop_foreign(&mut nodes, 0);
        nodes.iter().map(|n| n.addr).collect()
    }

    /// mkfs.f2fs links its root and stores version 1; sload.f2fs links nothing and stores the version of the pack.
    #[test]
    fn nodes_of_sload_are_kept_beside_the_root_of_mkfs() {
        let nodes = [(10, 1, 11), (20, 0x3131_1D77, 0), (21, 0x3131_1D77, 0)];
        assert_eq!(kept(&nodes), [10, 20, 21]);
    }

    #[test]
    fn nodes_without_links_may_have_the_version_of_a_pack_that_no_log_has() {
        let far = 100 + 2 * AHEAD as u64;
        // The last two lie in files: one names another base, one is far ahead.
        let nodes = [(10, 99, 11), (11, 100, 12), (500, 101, 0), (900, 101, 7), (1300, far, 0)];
        assert_eq!(kept(&nodes), [10, 11, 500]);
    }
}
