//! The list of inodes without a name.
use crate::evidence::Pack;
use crate::report::{Kind, Rules, Sink};
use segno_format::orphan::{RawOrphanBlock, orphans};
use segno_format::{Geometry, Nid, Structure, Unit};
use std::collections::HashSet;
use zerocopy::IntoBytes;

pub(crate) fn load(pack: &Pack, geo: &Geometry, sink: &mut Sink) -> Vec<u32> {
    let mut inos = Vec::new();
    let first = geo.cp_payload.saturating_add(1);
    let end = pack.cp().cp_pack_start_sum.get();
    let mut seen = HashSet::new();
    for i in first..end {
        let Some(block) = pack.blocks.get(i as usize) else { break };
        let block: &RawOrphanBlock = block.view();
        let at = pack.addr(i);
        let mut rules = Rules::new(Kind::Orphan, Structure::OrphanBlock, Unit::Block, at);
        rules.equal("index of the block", block.footer.blk_addr.get(), i - first + 1);
        rules.equal("number of blocks", block.footer.blk_count.get(), end - first);
        let max = geo.max_nid();
        match orphans(block.as_bytes(), at) {
            Ok(listed) => inos.extend(listed.map(|ino| ino.0).filter(|ino| {
                rules.require(geo.nid_ok(Nid(*ino)), "inode number out of range", *ino, max)
                    && rules.require(seen.insert(*ino), "inode listed twice", *ino, max)
            })),
            Err(e) => rules.add(e),
        }
        sink.add_broken(None, rules);
    }
    inos
}
