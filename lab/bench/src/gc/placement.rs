//! Whether blocks and tables of an unmounted volume agree: each page's newest copy is where its node says, and valid.
use super::rig::Rig;
use super::tables::Tables;
use anyhow::{Context, Result, bail, ensure};
use segno_format::inode::RawInode;
use segno_format::node::{RawNode, first_block};
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, Ino, SegNo};

/// Checks every segment.
pub fn check(rig: &Rig) -> Result<()> {
    let dev = &*rig.dev.zoned;
    let mut tables = Tables::load(dev)?;
    for seg in tables.sb.geo.segments() {
        check_segment(rig, &mut tables, seg).with_context(|| format!("segment {}", seg.0))?;
    }
    Ok(())
}

fn check_segment(rig: &Rig, tables: &mut Tables<'_>, seg: SegNo) -> Result<()> {
    let (log, valid) = tables.segment(seg)?;
    let newest = rig.dev.verifier.newest_in(seg.0);
    let mut pages = 0;
    if !log.is_node() && !valid.is_empty() {
        for &off in &valid {
            let addr = tables.sb.geo.seg_start(seg).offset(off);
            let owner = tables.owner(addr)?;
            let page = newest
                .binary_search_by_key(&off, |&(at, _)| at)
                .ok()
                .and_then(|i| newest.get(i))
                .map(|&(_, page)| page);
            pages += usize::from(
                check_block(rig, tables, owner, addr, page).with_context(|| format!("block {off}"))?,
            );
        }
    }
    ensure!(
        pages == newest.len(),
        "the SIT has {pages} valid blocks of pages, and {} pages have their newest copy here ({log:?})",
        newest.len()
    );
    Ok(())
}

/// Compares a valid data block with the slot that its summary names. True if it holds a page, not directory entries.
fn check_block(
    rig: &Rig,
    tables: &mut Tables<'_>,
    owner: RawSummary,
    addr: BlockAddr,
    page: Option<u32>,
) -> Result<bool> {
    let node = tables.node(owner.nid())?;
    let (footer, slot) = (node.view::<RawNode>().footer, u32::from(owner.ofs_in_node.get()));
    let inode = tables.node(Ino(footer.ino.get()).nid())?;
    let inode: &RawInode = inode.view();
    let layout = inode.layout(tables.sb.features)?;
    let (named, first) = match footer.node_offset() {
        0 => (inode.slot(&layout, slot), Some(0)),
        ofs => (node.view::<RawNode>().addr(slot), first_block(ofs, layout.slots, layout.per_node)),
    };
    ensure!(named == addr, "slot {slot} of node {} names {}", owner.nid().0, named.0);
    let file_block = first.context("an index node owns a block")? + u64::from(slot);
    match page {
        None if inode.is_dir() => Ok(false),
        None => bail!(
            "it holds no newest copy; its slot is that of block {file_block} of file {}",
            footer.ino.get()
        ),
        Some(page) => {
            let tag = rig.tag_of(page);
            let same = tag.ino == footer.ino.get() && u64::from(tag.page) == file_block;
            ensure!(same, "{tag:?} is in the slot of block {file_block} of file {}", footer.ino.get());
            Ok(true)
        }
    }
}
