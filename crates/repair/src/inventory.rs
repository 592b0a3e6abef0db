//! Finds the nodes: through the NAT, and for entries that cannot be right among the valid blocks of nodes.
use crate::error::Result;
use crate::state::{Node, State};
use segno_format::node::RawNode;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Ino, Nid};
use std::collections::HashSet;

/// Reads all nodes, in the order of their addresses.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    let chain = crate::layout::chain(state.vol)?;
    state.waiting = chain.iter().map(|(_, block)| block.view::<RawNode>().footer.nid.get()).collect();
    let mut entries: Vec<_> =
        state.vol.nat.in_use().map(|(nid, e)| (e.addr(), nid.0, e.owner().0, e.version)).collect();
    entries.sort_unstable();
    let mut broken = Vec::new();
    let mut places = HashSet::new();
    for (addr, nid, owner, version) in entries {
        let node = match state.vol.geo.in_main(addr) {
            true => node_at(state, nid, addr, owner, version)?,
            false => None,
        };
        match node {
            // Two nids with one block: only one of them is in its footer.
            Some(node) if places.insert(addr) => {
                state.nodes.insert(nid, node);
            }
            _ => broken.push(nid),
        }
    }
    find_others(state, &places)?;
    for nid in broken {
        if let Some(node) = state.spare.remove(&nid) {
            state.note(node.ino, format!("NAT entry of node {nid} points to its block {} again", node.addr));
            state.nodes.insert(nid, node);
        }
    }
    let hidden = state.quota_inos().into_iter().chain([Ino::ROOT.0]);
    hidden.for_each(|ino| {
        state.adopt(ino);
    });
    crate::older::run(state)?;
    let inodes = state.nodes.iter().filter(|(nid, node)| is_inode(**nid, node));
    state.inodes = inodes.map(|(nid, _)| *nid).collect();
    Ok(())
}

/// Whether a node is an inode: at least two of NAT, owner in the footer and offset in the footer show it. The
/// root always is.
pub(crate) fn is_inode(nid: u32, node: &Node) -> bool {
    nid == Nid::ROOT.0
        || [node.owner == nid, node.ino == nid, node.ofs == 0].into_iter().filter(|v| *v).count() >= 2
}

fn node_at(
    state: &mut State<'_>,
    nid: u32,
    addr: BlockAddr,
    owner: u32,
    version: u8,
) -> Result<Option<Node>> {
    let block = state.vol.device.block(addr)?;
    let node = of_block(&block, addr, owner, version);
    let found = block.view::<RawNode>().footer.nid.get();
    if found == nid {
        return Ok(Some(node));
    }
    // The summary of a log of nodes may not be stored; then NAT and footer have to agree in everything else.
    let seg = state.vol.geo.seg_of(addr).map(|(seg, _)| state.vol.summary_type(seg)).transpose()?.flatten();
    let whole = (node.owner, node.ino, node.ofs) == (nid, nid, 0) && seg.is_none();
    let named = node.owner == node.ino && state.summary_has_node(addr, nid)?;
    if !whole && !named {
        return Ok(None);
    }
    let mut fixed = block;
    fixed.view_mut::<RawNode>().footer.nid.set(nid);
    state.edits.insert(nid, fixed);
    state.note(node.ino, format!("the footer of node {nid} had the number {found}"));
    Ok(Some(node))
}

fn of_block(block: &Block, addr: BlockAddr, owner: u32, version: u8) -> Node {
    let footer = block.view::<RawNode>().footer;
    Node {
        addr,
        owner,
        ino: footer.ino.get(),
        ofs: footer.node_offset(),
        version,
        cp_ver: footer.cp_ver.get() as u32,
        reached: false,
    }
}

/// Reads the valid blocks of nodes that no NAT entry names. Of several with the same nid the newest counts.
fn find_others(state: &mut State<'_>, places: &HashSet<BlockAddr>) -> Result<()> {
    let used: Vec<_> = state.vol.segments_in_use().collect();
    for seg in used {
        if !state.vol.has_nodes(seg)? {
            continue;
        }
        for off in (0..BLOCKS_PER_SEG).filter(|&off| state.vol.sit.has(seg, off)) {
            let addr = state.vol.geo.seg_start(seg).offset(off);
            if !places.contains(&addr) {
                consider(state, addr)?;
            }
        }
    }
    Ok(())
}

fn consider(state: &mut State<'_>, addr: BlockAddr) -> Result<()> {
    let block = state.vol.device.block(addr)?;
    let footer = block.view::<RawNode>().footer;
    let nid = footer.nid.get();
    let plausible = state.vol.geo.nid_ok(Nid(nid))
        && state.vol.geo.nid_ok(Nid(footer.ino.get()))
        && segno_format::node::kind_of_offset(footer.node_offset()).is_some()
        && footer.check(Nid(nid), Ino(footer.ino.get())).is_ok();
    if !plausible || state.nodes.contains_key(&nid) {
        return Ok(());
    }
    let version = state.vol.nat.entry(Nid(nid)).version;
    let node = of_block(&block, addr, footer.ino.get(), version);
    let newer = |old: &Node| node.cp_ver.wrapping_sub(old.cp_ver).cast_signed() > 0;
    if state.spare.get(&nid).is_none_or(newer) {
        state.spare.insert(nid, node);
    }
    Ok(())
}

impl State<'_> {
    /// Takes a node that the NAT does not have, as something refers to it.
    pub(crate) fn adopt(&mut self, nid: u32) -> bool {
        let Some(node) = self.spare.remove(&nid) else { return false };
        self.note(node.ino, format!("NAT entry of node {nid} points to its block {} again", node.addr));
        if is_inode(nid, &node) {
            self.inodes.insert(nid);
        }
        self.nodes.insert(nid, node);
        true
    }
}
