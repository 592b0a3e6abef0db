//! Nodes of F2FS images that are stored in files. Their addresses count from the start of the image, so in their
//! neighbourhood most nodes name another base than the volume's.
use super::Candidate;
use std::collections::HashMap;

/// Blocks looked at on either side.
const REACH: u32 = 64;

/// Removes the nodes that belong to another volume; `nodes` are in the order of their places.
pub(super) fn drop_foreign(nodes: &mut Vec<Candidate>, base: i64) {
    let native = |n: &Candidate| n.vote() == Some(base);
    let versions = nodes.iter().filter(|n| native(n)).map(|n| n.cp_ver as u32);
    let Some(newest) = versions.reduce(|a, b| if b.wrapping_sub(a).cast_signed() > 0 { b } else { a }) else {
        return;
    };
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
        let later = (n.cp_ver as u32).wrapping_sub(newest).cast_signed() > 0;
        keep.push(native(n) || !(later || outvoted()));
    }
    let mut keep = keep.into_iter();
    nodes.retain(|_| keep.next().unwrap_or(true));
}
