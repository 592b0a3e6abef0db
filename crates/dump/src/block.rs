//! A block or a segment, and whose it is.
use crate::fields::put_name;
use crate::{DumpError, Image};
use segno_format::inode::{Inline, RawInode};
use segno_format::node::{RawNode, first_block};
use segno_format::summary::SummaryType;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, F2FS_MAGIC, SegNo};
use segno_layout::{NatState, Owner};
use serde_json::{Map, Value, json};

impl Image<'_> {
    pub(crate) fn block(&self, addr: u32) -> Value {
        let at = BlockAddr(addr);
        let mut map = Map::new();
        map.insert("blkaddr".into(), json!(addr));
        map.insert("area".into(), json!(self.area(at)));
        let Some(block) = self.volume.reader.block(at) else {
            map.insert("error".into(), json!("the block cannot be read"));
            return Value::Object(map);
        };
        map.insert("content".into(), json!(content_class(&block)));
        if let Some((seg, off)) = self.volume.geo.and_then(|g| g.seg_of(at)) {
            map.insert("segno".into(), json!(seg.0));
            map.insert("blkoff".into(), json!(off));
            map.insert("valid".into(), json!(self.in_use(at)));
            if let Some(owner) = self.volume.owner(at) {
                map.insert("summary".into(), summary(&owner));
                map.insert("owner_names_it".into(), json!(self.points_back(at, &owner)));
            }
        }
        Value::Object(map)
    }

    pub(crate) fn segment(&self, seg: u32) -> Result<Value, DumpError> {
        let geo = self.geo()?;
        if seg >= geo.segment_count_main {
            let last = geo.segment_count_main.saturating_sub(1);
            return Err(DumpError::NotFound(format!("segments are numbered from 0 to {last}")));
        }
        let start = geo.seg_start(SegNo(seg));
        let sit = self.sit_entry(SegNo(seg)).unwrap_or_else(|e| json!({ "error": e.to_string() }));
        let blocks = (0..BLOCKS_PER_SEG).map(|i| start.offset(i)).filter(|a| self.in_use(*a) == Some(true));
        let blocks: Vec<Value> = blocks.map(|a| self.block(a.0)).collect();
        Ok(
            json!({ "segno": seg, "blkaddr": start.0, "section": geo.sec_of(SegNo(seg)).0, "sit": sit, "valid_blocks": blocks }),
        )
    }

    /// File and offset of a block, as far as summary, node and names show them.
    pub(crate) fn owner(&self, addr: u32) -> Value {
        let mut shown = self.block(addr);
        let found = self.volume.owner(BlockAddr(addr));
        let Some((owner, map)) = found.zip(shown.as_object_mut()) else { return shown };
        let Some(block) = self.node_of(owner.entry.nid.get()) else {
            map.insert("error".into(), json!("the node that the summary names is free or cannot be read"));
            return shown;
        };
        let footer = block.view::<RawNode>().footer;
        let ino = footer.ino.get();
        map.insert("ino".into(), json!(ino));
        if owner.kind == SummaryType::Data
            && let Ok(file) = self.file(ino)
            && let Some(first) = first_block(footer.node_offset(), file.layout.slots, file.layout.per_node)
        {
            let file_block = first + u64::from(owner.entry.ofs_in_node.get());
            map.insert("offset".into(), json!(file_block * 4096));
        }
        match self.path_of(ino) {
            Some(path) => put_name(map, "path", &path),
            None => _ = map.insert("path".into(), Value::Null),
        }
        shown
    }

    fn node_of(&self, nid: u32) -> Option<Block> {
        match self.volume.nat(nid) {
            NatState::Used(e) => self.volume.reader.block(e.addr()),
            NatState::Free(_) | NatState::Unknown => None,
        }
    }

    fn points_back(&self, at: BlockAddr, owner: &Owner) -> bool {
        let nid = owner.entry.nid.get();
        if owner.kind == SummaryType::Node {
            return matches!(self.volume.nat(nid), NatState::Used(e) if e.addr() == at);
        }
        let Some(block) = self.node_of(nid) else { return false };
        let (node, slot): (&RawNode, _) = (block.view(), u32::from(owner.entry.ofs_in_node.get()));
        if node.footer.node_offset() != 0 {
            return node.addr(slot) == at;
        }
        let inode: &RawInode = block.view();
        let inline = inode.inline().intersects(Inline::DATA | Inline::DENTRY);
        !inline && inode.layout(self.volume.features).is_ok_and(|layout| inode.slot(&layout, slot) == at)
    }

    fn area(&self, at: BlockAddr) -> &'static str {
        let Some(geo) = &self.volume.geo else { return "unknown" };
        let starts = [
            (geo.main_end(), "behind the volume"),
            (geo.main_blkaddr, "main"),
            (geo.ssa_blkaddr, "ssa"),
            (geo.nat_blkaddr, "nat"),
            (geo.sit_blkaddr, "sit"),
            (geo.cp_blkaddr, "checkpoint"),
            (2, "unused"),
        ];
        starts.into_iter().find(|(start, _)| at.0 >= *start).map_or("superblock", |(_, name)| name)
    }
}

fn summary(owner: &Owner) -> Value {
    let e = owner.entry;
    let kind = if owner.kind == SummaryType::Node { "node" } else { "data" };
    json!({ "type": kind, "nid": e.nid.get(), "version": e.version, "ofs_in_node": e.ofs_in_node.get() })
}

/// Classifies a block by its content, whatever its use.
fn content_class(block: &Block) -> &'static str {
    let footer = block.view::<RawNode>().footer;
    if block.is_zero() {
        "zeros"
    } else if block.u32_at(1024) == F2FS_MAGIC {
        "superblock"
    } else if segno_format::checkpoint::RawCheckpoint::verify(block, 0).is_ok() {
        "checkpoint"
    } else if footer.nid.get() > 2
        && footer.check(segno_format::Nid(footer.nid.get()), segno_format::Ino(footer.ino.get())).is_ok()
        && segno_format::node::kind_of_offset(footer.node_offset()).is_some()
    {
        "node"
    } else {
        "data"
    }
}
