//! Whether a checkpoint fits, from the state of the logs alone, in the worst distribution of blocks over them.
use super::write_observer::Due;
use segno_clean::need::Figures;

/// Fails if the checkpoint, and the one after a recovery now, may open more sections than are free. The
/// blocks to be written are the greater of the engine's count and of the writes that the device received.
pub fn checkpoint_fits(f: &Figures, due: Due) -> Result<(), String> {
    let nodes = f.logged.min(f.nodes).max(due.logged) + f.dirty_nodes.max(due.dirty);
    // Data logs share what they have left but for a block each.
    let room: u64 = f.data_left.iter().map(|left| left.saturating_sub(1)).sum();
    let for_dents = f.dents.saturating_sub(room).div_ceil(f.per_section);
    let opened = for_dents + opens(f.node_left, nodes, f.per_section);
    if opened <= f.free_sections {
        return Ok(());
    }
    Err(format!("a checkpoint opens {opened} sections: {f:?}, {due:?}"))
}

/// The largest number of sections that logs with `left` free blocks open for `blocks`, however the blocks are
/// distributed. A log that fills its section opens the next one at once.
fn opens(left: [u64; 3], blocks: u64, per_section: u64) -> u64 {
    let opened_by = |some: u32| {
        let some = left.iter().enumerate().filter(|(log, _)| some >> log & 1 == 1);
        let (logs, filled) = some.fold((0, 0), |(logs, filled), (_, left)| (logs + 1, filled + left));
        blocks.checked_sub(filled).map_or(0, |more| logs + more / per_section.max(1))
    };
    (1..8).map(opened_by).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_distribution_counts() {
        assert_eq!((opens([1, 2, 3], 0, 4), opens([1, 2, 3], 3, 4), opens([1, 2, 3], 6, 4)), (0, 2, 3));
        assert_eq!(opens([4, 4, 4], 11, 4), 2);
    }
}
