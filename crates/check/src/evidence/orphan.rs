//! The list of inodes without a name.
use crate::evidence::Pack;
use crate::report::{Kind, Sink};
use segno_format::checkpoint::CpFlags;
use segno_format::orphan::{RawOrphanBlock, orphans};
use segno_format::{Corrupt, Geometry, Structure};
use std::collections::HashSet;
use zerocopy::IntoBytes;

pub(crate) fn load(pack: &Pack, geo: &Geometry, sink: &mut Sink) -> Vec<u32> {
    let mut inos = Vec::new();
    if !pack.flags.contains(CpFlags::ORPHAN_PRESENT) {
        return inos;
    }
    let first = geo.cp_payload.saturating_add(1);
    let end = pack.cp().cp_pack_start_sum.get();
    let mut seen = HashSet::new();
    for i in first..end {
        let Some(block) = pack.blocks.get(i as usize) else { break };
        let block: &RawOrphanBlock = block.view();
        let at = pack.addr(i);
        let mut require = |why, found: u64, expected: u64| {
            if found != expected {
                sink.add(Kind::Orphan, Corrupt::block(Structure::OrphanBlock, at, why, found, expected));
            }
        };
        require("index of the block", block.footer.blk_addr.get().into(), u64::from(i - first) + 1);
        require("number of blocks", block.footer.blk_count.get().into(), u64::from(end - first));
        let listed = match orphans(block.as_bytes(), at) {
            Ok(listed) => listed,
            Err(e) => {
                sink.add(Kind::Orphan, e);
                continue;
            }
        };
        for ino in listed {
            let bad =
                |why| Corrupt::block(Structure::OrphanBlock, at, why, ino.0.into(), geo.max_nid().into());
            if !geo.nid_ok(ino) {
                sink.add(Kind::Orphan, bad("inode number out of range"));
            } else if !seen.insert(ino) {
                sink.add(Kind::Orphan, bad("inode listed twice"));
            } else {
                inos.push(ino.0);
            }
        }
    }
    inos
}
