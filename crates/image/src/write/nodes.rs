//! Makes the nodes of all inodes and places them in the node logs.
use super::body::Body;
use super::footer::footer;
use super::index::{Step, walk};
use super::inode::Draft;
use super::main_area::{Image, MainArea};
use super::ordered::ordered;
use super::plan::Plan;
use super::progress::Progress;
use super::tables::Tables;
use super::xattr;
use crate::tree::{Index, Inode, Kind};
use crate::{Error, Result};
use segno_format::inode::{INLINE_XATTR_WORDS, RawInode, seal_checksum};
use segno_format::node::{RawNode, XATTR_NODE_OFFSET};
use segno_format::sit::LogType;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Ino, Nid};
use zerocopy::little_endian::{U32, U64};

/// Inodes that one thread makes at once.
const BATCH: usize = 64;
const INLINE_XATTR_BYTES: usize = INLINE_XATTR_WORDS as usize * 4;

/// The nodes of an inode, by number and place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Block of the inode in the main area; its xattr node and its direct nodes follow.
    rel: u32,
    /// Its first indirect node.
    cold: u32,
    /// Number of its first node but the inode.
    extra: u32,
    /// Number of nodes that follow the inode block, and of indirect nodes.
    direct: u32,
    indirect: u32,
}

/// A node before it is placed.
struct Node {
    nid: Nid,
    offset: u32,
    rel: u32,
    block: Block,
}

/// The nodes of some inodes.
struct Made {
    first: Index,
    /// Blocks that are next to each other, with the first one's place.
    writes: Vec<(u32, Vec<u8>)>,
    /// First block, node, slot and number of consecutive slots.
    owned: Vec<(u32, Nid, u16, u32)>,
    /// Node, inode, block.
    placed: Vec<(Nid, Ino, u32)>,
    /// `i_blocks` of each inode.
    blocks: Vec<(Index, u64)>,
}

/// Makes nodes when all data is placed.
pub(crate) struct Nodes<'a> {
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) bodies: &'a [Body],
    shares: Vec<Share>,
    /// The first number that is free.
    pub(crate) next_nid: u32,
    /// Nodes in all.
    pub(crate) count: u64,
}

impl<'a> Nodes<'a> {
    /// Counts the nodes, and gives them numbers and places: directories, other inodes, indirect nodes.
    pub(crate) fn place(plan: &'a Plan<'a>, bodies: &'a [Body], area: &mut MainArea) -> Result<Self> {
        let shares = vec![Share::default(); bodies.len()];
        let mut nodes = Self { plan, bodies, shares, next_nid: plan.numbers.behind, count: 0 };
        for index in 0..bodies.len() {
            nodes.count_nodes(index)?;
        }
        if plan.read_only() {
            nodes.take(area, |_| true, |s| 1 + s.direct, |s, at| s.rel = at)?;
        } else {
            nodes.take(area, |i| i.kind.is_dir(), |s| 1 + s.direct, |s, at| s.rel = at)?;
            area.start(LogType::WarmNode)?;
            nodes.take(area, |i| !i.kind.is_dir(), |s| 1 + s.direct, |s, at| s.rel = at)?;
            area.start(LogType::ColdNode)?;
        }
        nodes.take(area, |_| true, |s| s.indirect, |s, at| s.cold = at)?;
        Ok(nodes)
    }

    fn count_nodes(&mut self, index: Index) -> Result<()> {
        let (body, inode) = (self.body(index)?, self.plan.tree.get(index)?);
        let path = || self.plan.tree.host_path(index);
        let mut share = Share { extra: self.next_nid, ..Share::default() };
        if !inode.xattrs.is_empty() && xattr::area(inode, &path)?.len() > INLINE_XATTR_BYTES {
            share.direct += 1;
        }
        if !body.runs.0.is_empty() {
            let Draft { layout, .. } = self.plan.draft(index, body, 0)?;
            let walked = walk(&layout, &body.runs, |step| {
                match step {
                    Step::Node { direct: true, .. } => share.direct += 1,
                    Step::Node { .. } => share.indirect += 1,
                    Step::Slots { .. } => {}
                }
                Ok(())
            });
            walked.map_err(|_| Error::entry(path(), "it is too large for F2FS"))?;
        }
        let more = share.direct + share.indirect;
        self.next_nid = self.next_nid.checked_add(more).ok_or(Error::TooLarge)?;
        self.count += 1 + u64::from(more);
        *self.shares.get_mut(index).ok_or(Error::Invariant("each inode has a share"))? = share;
        Ok(())
    }

    fn take(
        &mut self,
        area: &mut MainArea,
        which: impl Fn(&Inode) -> bool,
        blocks: impl Fn(&Share) -> u32,
        set: impl Fn(&mut Share, u32),
    ) -> Result<()> {
        for (share, _) in self.shares.iter_mut().zip(&self.plan.tree.inodes).filter(|(_, i)| which(i)) {
            let at = area.take(blocks(share))?;
            set(share, at);
        }
        Ok(())
    }

    fn body(&self, index: Index) -> Result<&'a Body> {
        self.bodies.get(index).ok_or(Error::Invariant("each inode has a body"))
    }

    /// Makes and writes all nodes.
    pub(crate) fn write(
        &self,
        image: &Image<'_>,
        tables: &mut Tables,
        progress: &mut Progress<'_>,
        mut count: impl FnMut(Index, u64),
    ) -> Result<()> {
        let mut first = 0;
        let mut jobs = || {
            let job = first;
            first += BATCH;
            Ok((job < self.shares.len()).then_some(job))
        };
        let work = |(): &mut (), first: Index| self.make(first, image.main);
        ordered(
            self.plan.threads,
            &mut jobs,
            || (),
            work,
            |made| {
                for (rel, bytes) in &made.writes {
                    image.write_main(*rel, bytes)?;
                }
                made.add_to(tables);
                for &(index, blocks) in &made.blocks {
                    count(index, blocks);
                }
                progress.nodes(self.plan, self.bodies, made.first..made.first + made.blocks.len());
                Ok(())
            },
        )
    }

    fn make(&self, first: Index, main: u32) -> Result<Made> {
        let mut made =
            Made { first, writes: Vec::new(), owned: Vec::new(), placed: Vec::new(), blocks: Vec::new() };
        for index in first..(first + BATCH).min(self.shares.len()) {
            self.one(index, main, &mut made)?;
        }
        Ok(made)
    }

    fn one(&self, index: Index, main: u32, made: &mut Made) -> Result<()> {
        let share = self.shares.get(index).ok_or(Error::Invariant("each inode has a share"))?;
        let (body, ino) = (self.body(index)?, self.plan.numbers.inode(index));
        let is_dir = self.plan.tree.get(index)?.kind.is_dir();
        let mut draft = self.plan.draft(index, body, main)?;
        let mut tree = NodeTree { share: *share, given: [0; 3], nodes: Vec::new(), open: [0; 4], main, ino };
        if !draft.xattr_node.is_empty() {
            let node = tree.add(XATTR_NODE_OFFSET, true)?;
            let place = node.block.0.get_mut(..draft.xattr_node.len()).unwrap_or_default();
            place.copy_from_slice(&draft.xattr_node);
            let nid = U32::new(node.nid.0);
            draft.block.view_mut::<RawInode>().i_xattr_nid = nid;
        }
        let cluster = body.compression.map_or(0, |c| 1 << c.log_blocks);
        let reserve = if self.plan.released { BlockAddr::NULL } else { BlockAddr::NEW };
        let layout = draft.layout;
        walk(&layout, &body.runs, |step| tree.step(step, &mut draft, (cluster, reserve), &mut made.owned))?;
        let reserved = if self.plan.released { 0 } else { body.runs.saved(cluster) };
        let blocks = 1 + tree.nodes.len() as u64 + body.runs.stored() + reserved;
        let raw: &mut RawInode = draft.block.view_mut();
        raw.i_blocks = U64::new(blocks);
        raw.footer = footer(ino.nid(), ino, 0, is_dir, main + share.rel);
        seal_checksum(&mut draft.block, self.plan.features, self.plan.checksum_seed());
        made.blocks.push((index, blocks));
        made.add(ino.nid(), ino, share.rel, &draft.block);
        for node in &mut tree.nodes {
            node.block.view_mut::<RawNode>().footer =
                footer(node.nid, ino, node.offset, is_dir, main + node.rel);
            made.add(node.nid, ino, node.rel, &node.block);
        }
        Ok(())
    }
}

impl Made {
    fn add_to(&self, tables: &mut Tables) {
        for &(nid, ino, rel) in &self.placed {
            tables.node(nid, ino, rel);
        }
        for &(rel, nid, slot, len) in &self.owned {
            tables.data(rel, nid, slot, len);
        }
    }

    fn add(&mut self, nid: Nid, ino: Ino, rel: u32, block: &Block) {
        self.placed.push((nid, ino, rel));
        match self.writes.last_mut() {
            Some((start, bytes)) if *start as usize + bytes.len() / BLOCK_SIZE == rel as usize => {
                bytes.extend_from_slice(&block.0);
            }
            _ => self.writes.push((rel, block.0.to_vec())),
        }
    }
}

/// The nodes of one inode while they are filled.
struct NodeTree {
    share: Share,
    /// Node numbers, places after the inode and places of indirect nodes used so far.
    given: [u32; 3],
    nodes: Vec<Node>,
    /// The last node at each depth.
    open: [usize; 4],
    main: u32,
    ino: Ino,
}

impl NodeTree {
    fn add(&mut self, offset: u32, direct: bool) -> Result<&mut Node> {
        let [nids, direct_nodes, indirect_nodes] = &mut self.given;
        let rel = if direct {
            *direct_nodes += 1;
            self.share.rel + *direct_nodes
        } else {
            *indirect_nodes += 1;
            self.share.cold + *indirect_nodes - 1
        };
        if *direct_nodes > self.share.direct || *indirect_nodes > self.share.indirect {
            return Err(Error::Invariant("an inode has as many nodes as were counted"));
        }
        let nid = Nid(self.share.extra + *nids);
        *nids += 1;
        self.nodes.push(Node { nid, offset, rel, block: Block::zeroed() });
        self.nodes.last_mut().ok_or(Error::Invariant("a node was added"))
    }

    fn step(
        &mut self,
        step: Step,
        draft: &mut Draft,
        cluster: (u32, BlockAddr),
        owned: &mut Vec<(u32, Nid, u16, u32)>,
    ) -> Result<()> {
        match step {
            Step::Node { depth, index, offset, direct } => {
                let nid = self.add(offset, direct)?.nid;
                let above = self.open.get(depth - 1).and_then(|&i| self.nodes.get_mut(i));
                match above {
                    Some(above) if depth > 1 => above.block.view_mut::<RawNode>().set(index, nid.0),
                    _ => draft.block.view_mut::<RawInode>().set_nid(index, nid),
                }
                if let Some(open) = self.open.get_mut(depth) {
                    *open = self.nodes.len() - 1;
                }
            }
            Step::Slots { first, run } => {
                let in_node = self.nodes.last_mut().filter(|n| n.offset != XATTR_NODE_OFFSET);
                let nid = in_node.as_ref().map_or(self.ino.nid(), |n| n.nid);
                let (layout, mut in_node) = (draft.layout, in_node);
                let inode: &mut RawInode = draft.block.view_mut();
                let mut put = |slot: u32, addr: BlockAddr| match &mut in_node {
                    Some(node) => node.block.view_mut::<RawNode>().set(slot, addr.0),
                    None => inode.set_slot(&layout, slot, addr),
                };
                let mut slot = first;
                if run.cluster {
                    put(slot, BlockAddr::COMPRESS);
                    slot += 1;
                }
                owned.push((run.rel, nid, slot as u16, run.len));
                for i in 0..run.len {
                    put(slot + i, BlockAddr(self.main + run.rel + i));
                }
                if run.cluster {
                    (slot + run.len..first + cluster.0).for_each(|s| put(s, cluster.1));
                }
            }
        }
        Ok(())
    }
}

impl Progress<'_> {
    /// Counts files that are in their nodes.
    fn nodes(&mut self, plan: &Plan<'_>, bodies: &[Body], made: std::ops::Range<Index>) {
        for index in made {
            match plan.tree.inodes.get(index).map(|i| &i.kind) {
                Some(Kind::File(content)) if bodies.get(index).is_some_and(|b| b.runs.0.is_empty()) => {
                    self.bytes += content.size;
                    self.file(plan.tree, index);
                }
                Some(Kind::File(_)) | None => {}
                Some(_) => self.file(plan.tree, index),
            }
        }
    }
}
