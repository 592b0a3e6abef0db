//! Compares the state after a power cut with the allowed outcomes.
use super::RECOVERY_TIME;
use super::expect::{Contract, Expected, same_but_size, same_fields};
use super::history::{History, Moment, Promise, renumbered};
use crate::capture::{Tree, xattr_difference};
use crate::fs::Node;
use crate::model::{BLOCK, Bytes, Inode, ROOT, Times, ZEROS};
use crate::mounted::Identity;
use segno_engine::Time;
use std::collections::{BTreeMap, HashMap};

/// Judges the states of one history.
pub struct Judge<'a> {
    history: &'a History,
    contract: Contract,
    expected: HashMap<Moment, Vec<Expected>>,
}

impl<'a> Judge<'a> {
    #[must_use]
    pub fn new(history: &'a History, contract: Contract) -> Self {
        Self { history, contract, expected: HashMap::new() }
    }

    /// The error describes the difference from the closest outcome.
    pub fn judge(
        &mut self,
        tree: &Tree,
        ids: &BTreeMap<Node, Identity>,
        moment: Moment,
    ) -> Result<(), String> {
        let found = self.known_inodes(tree, ids)?;
        let (history, contract) = (self.history, self.contract);
        let all = self.expected.entry(moment).or_insert_with(|| Expected::all(history, moment, contract));
        let mut closest: Option<(usize, String)> = None;
        for expected in all.iter() {
            let Err((depth, why)) = matches(history, moment, contract, &found, expected) else {
                return Ok(());
            };
            if closest.as_ref().is_none_or(|(best, _)| depth > *best) {
                closest = Some((depth, format!("{why} (as committed after step {})", expected.committed)));
            }
        }
        Err(closest.map_or_else(|| "nothing could be expected".into(), |(_, why)| why))
    }

    /// The tree under the model's numbers.
    fn known_inodes(
        &self,
        tree: &Tree,
        ids: &BTreeMap<Node, Identity>,
    ) -> Result<BTreeMap<Node, Inode>, String> {
        let mut numbers = BTreeMap::new();
        for (&node, id) in ids {
            let known = if node == tree.root { Some(ROOT) } else { self.history.identities.get(id).copied() };
            let Some(known) = known else {
                return Err(format!("inode {} generation {:#x} never was", id.ino, id.generation));
            };
            numbers.insert(node, known);
        }
        Ok(renumbered(tree, |n| numbers.get(&n).copied().unwrap_or(0)))
    }
}

/// Progress of a comparison, and the first difference.
type Difference = (usize, String);

fn matches(
    history: &History,
    moment: Moment,
    contract: Contract,
    found: &BTreeMap<Node, Inode>,
    expected: &Expected,
) -> Result<(), Difference> {
    let reachable = expected.reachable();
    if let Some(&node) = found.keys().find(|n| !reachable.contains(n)) {
        return Err((0, format!("{} is there", describe(history, node))));
    }
    if let Some(&node) = reachable.iter().find(|n| !found.contains_key(n)) {
        return Err((0, format!("{} is missing", describe(history, node))));
    }
    for (&node, inode) in found.iter().filter(|(_, i)| i.is_dir()) {
        if inode.names().ok() != expected.names(node) {
            let text = |names: Option<&BTreeMap<Vec<u8>, Node>>| -> Vec<String> {
                names
                    .into_iter()
                    .flatten()
                    .map(|(n, i)| format!("{}={i}", String::from_utf8_lossy(n)))
                    .collect()
            };
            let (got, wanted) = (text(inode.names().ok()), text(expected.names(node)));
            return Err((1, format!("{} has {got:?}, expected {wanted:?}", describe(history, node))));
        }
    }
    let is_dir = |n: Node| found.get(&n).is_some_and(Inode::is_dir);
    // Without a flush before the mark a sync that was cut off may show anything of its file.
    let unclear = |n: Node| contract == Contract::Posix && expected.under_way.contains(&n);
    let clear = |n: Node| !unclear(n) && !history.doubtful.contains(&n);
    for (&node, inode) in found.iter().filter(|&(n, _)| clear(*n)) {
        let fail = |what: String| (2, format!("{}: {what}", describe(history, node)));
        let state = expected.state_of(node);
        let Some(wanted) = history.states.get(state).and_then(|m| m.inodes().get(&node)) else {
            return Err(fail("did not exist".into()));
        };
        let same = if inode.bytes().is_ok() { same_but_size } else { same_fields };
        if !same(inode, wanted) {
            return Err(fail(format!("{:?}, expected {:?}", inode.attr(), wanted.attr())));
        }
        if let Some((found, wanted)) = inode.stored.zip(wanted.stored).filter(|(a, b)| a != b) {
            return Err(fail(format!("{found:?}, expected {wanted:?}")));
        }
        let late = history.cached && inode.bytes().is_ok();
        let first = if late { promised_state(history, moment, node, state) } else { state };
        let times_of = |state: usize| Some(history.states.get(state)?.inodes().get(&node)?.times);
        let allowed: Vec<Times> = (first..=state).filter_map(times_of).collect();
        if !same_times(inode.times, &allowed, inode.is_dir(), expected.is_renamed(node)) {
            return Err(fail(format!("{:?}, expected {:?}", inode.times, wanted.times)));
        }
        if inode.xattrs != wanted.xattrs {
            return Err(fail(xattr_difference(inode, wanted)));
        }
        let links = expected.links(node, is_dir);
        if inode.nlink != links {
            return Err(fail(format!("{} links, expected {links}", inode.nlink)));
        }
        if let Ok(bytes) = inode.bytes() {
            data_matches(history, moment, node, bytes, state).map_err(|e| (3, fail(e).1))?;
        }
    }
    Ok(())
}

/// Each time is that of one of the states. A time that recovery sets when it changes names may also be the
/// time of recovery.
fn same_times(found: Times, allowed: &[Times], is_dir: bool, renamed: bool) -> bool {
    let same = |time: fn(&Times) -> Time, by_recovery: bool| {
        let found = time(&found);
        allowed.iter().any(|t| time(t) == found) || (by_recovery && found.secs == RECOVERY_TIME)
    };
    same(|t| t.access, false) && same(|t| t.modify, renamed && is_dir) && same(|t| t.change, renamed)
}

/// The newest state up to `state` whose data was promised.
fn promised_state(history: &History, moment: Moment, node: Node, state: usize) -> usize {
    let covers = |p: Promise| p == Promise::All || p == Promise::Node(node);
    let promised = history.promises_to(moment.returned).filter(|p| covers(p.promise)).map(|p| p.state).max();
    let replaced = history.replaced.iter().filter(|&&(step, n)| n == node && step <= state);
    promised.max(replaced.map(|&(step, _)| step).max()).unwrap_or(0).min(state)
}

/// Each block must be as it was in some state between the last promised one and the state of the inode: data
/// is written before the inode that names it, but no later than promised. The size is that of one of these
/// states, or a multiple of the block size, as the file may be written in part. A block is compared only with
/// states in which the file reached to its end.
fn data_matches(
    history: &History,
    moment: Moment,
    node: Node,
    found: &Bytes,
    state: usize,
) -> Result<(), String> {
    let promised = promised_state(history, moment, node, state);
    let versions: Vec<Option<&Bytes>> = history
        .states
        .get(promised..=state)
        .unwrap_or_default()
        .iter()
        .map(|m| m.inodes().get(&node).and_then(|i| i.bytes().ok()))
        .collect();
    let sizes = || versions.iter().map(|v| v.map_or(0, Bytes::size));
    let (least, wanted) = (sizes().min().unwrap_or(0), sizes().next_back().unwrap_or(0));
    let size = found.size();
    let between = size.is_multiple_of(BLOCK) && size >= least;
    if size > wanted || !(between || sizes().any(|s| s == size)) {
        return Err(format!("{size} bytes, expected {wanted}, or less but no less than {least}"));
    }
    let mut indices: Vec<u64> =
        found.indices().chain(versions.iter().flatten().flat_map(|b| b.indices())).collect();
    indices.sort_unstable();
    indices.dedup();
    for index in indices {
        let end = found.size().saturating_sub(index.saturating_mul(BLOCK)).min(BLOCK) as usize;
        let reach = index.saturating_mul(BLOCK).saturating_add(end as u64);
        let got = found.block(index);
        // A size may arrive before the pages in front of it.
        let unsent = history.cached && promised < state;
        let equal = |v: &&Bytes| (unsent || v.size() >= reach) && v.block(index).get(..end) == got.get(..end);
        let blank = unsent && *got == ZEROS;
        if end > 0 && !blank && !versions.iter().flatten().any(equal) {
            let zero = if *got == ZEROS { "zeros" } else { "bytes" };
            return Err(format!(
                "block {index} has {zero} that it had in none of the states {promised}..={state}"
            ));
        }
    }
    Ok(())
}

/// An inode by the names it had.
fn describe(history: &History, node: Node) -> String {
    let names = history.states.iter().flat_map(|m| m.names_of(node)).last();
    let name = names.map_or_else(String::new, |(_, name)| String::from_utf8_lossy(&name).into_owned());
    if node == ROOT { "the root".into() } else { format!("inode {node} ({name})") }
}
