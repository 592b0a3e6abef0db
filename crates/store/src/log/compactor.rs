//! Compaction: ranges in many small extents are written again, to separate objects. A commit switches to
//! them.
use crate::Result;
use crate::log::extents::Extent;
use crate::log::read::reader::Reader;
use crate::log::state::{Content, State};
use crate::log::writer::Writer;
use crate::stats::Cause;
use crate::wire::pieces::OBJECT_BLOCKS;
use segno_format::{BLOCK_SIZE, Block};
use std::sync::Arc;

/// A range with more extents is copied.
const EXTENTS_MAX: usize = 16;
/// Blocks of a range in conventional zones: 1 MiB.
const CHUNK: u16 = 256;

/// Blocks that move, each with its zone.
type Moves = Vec<(u32, Extent)>;

/// Moves all ranges that are to be copied.
pub(crate) async fn run(writer: &Arc<Writer>, reader: &Reader) -> Result<()> {
    let batches = plan(&writer.state.lock());
    for batch in batches {
        let content = read(&batch, writer, reader).await?;
        let id = writer.state.lock().data_id();
        writer.put_data(id, &content, Cause::Compaction).await?;
        let mut state = writer.state.lock();
        let object = state.map.add(id);
        state.new_objects.push(id);
        let mut offset = 0;
        for (zone, from) in batch {
            state.relocate(zone, from, object, offset);
            offset += from.len;
        }
    }
    Ok(())
}

/// Plans the moves, in batches of one object each.
fn plan(state: &State) -> Vec<Moves> {
    let geometry = state.map.geometry;
    let mut ranges = Vec::<Moves>::new();
    for (number, zone) in state.map.zones() {
        if zone.extents.len() <= EXTENTS_MAX {
            continue;
        }
        let step = if geometry.is_conventional(number) { CHUNK } else { geometry.zone_blocks };
        if !geometry.is_conventional(number) && zone.pointer < geometry.zone_blocks {
            continue;
        }
        for start in (0..geometry.zone_blocks).step_by(step.into()) {
            let range: Moves =
                zone.extents.within(start, start.saturating_add(step)).map(|e| (number, e)).collect();
            // Blocks in an open buffer may be overwritten in place.
            let is_open = |e: &Extent| matches!(state.content.get(&e.object), Some(Content::Open(_)));
            if range.len() > EXTENTS_MAX && !range.iter().any(|(_, e)| is_open(e)) {
                ranges.push(range);
            }
        }
    }
    batches(ranges.into_iter().flatten())
}

fn batches(moves: impl Iterator<Item = (u32, Extent)>) -> Vec<Moves> {
    let (mut all, mut blocks) = (vec![Moves::new()], 0);
    for (zone, mut extent) in moves {
        while extent.len > 0 {
            if blocks == OBJECT_BLOCKS {
                all.push(Moves::new());
                blocks = 0;
            }
            let len = extent.len.min(OBJECT_BLOCKS - blocks);
            if let Some(batch) = all.last_mut() {
                batch.push((zone, Extent { len, ..extent }));
            }
            extent = Extent {
                start: extent.start + len,
                len: extent.len - len,
                offset: extent.offset + len,
                object: extent.object,
            };
            blocks += len;
        }
    }
    all.retain(|batch| !batch.is_empty());
    all
}

/// The content of a batch. A block that was overwritten after planning is read in its new version, and not
/// moved.
async fn read(batch: &Moves, writer: &Writer, reader: &Reader) -> Result<Vec<u8>> {
    let geometry = writer.state.lock().map.geometry;
    let mut content = Vec::with_capacity(usize::from(OBJECT_BLOCKS) * BLOCK_SIZE);
    for run in batch.chunk_by(|(z, a), (y, b)| z == y && a.end() == b.start) {
        let Some((zone, first)) = run.first() else { continue };
        let blocks: u64 = run.iter().map(|(_, e)| u64::from(e.len)).sum();
        let mut into = vec![Block::zeroed(); blocks as usize];
        reader.read(geometry.start_of(*zone) + u64::from(first.start), &mut into, Cause::Compaction).await?;
        into.iter().for_each(|block| content.extend_from_slice(&block.0));
    }
    Ok(content)
}
