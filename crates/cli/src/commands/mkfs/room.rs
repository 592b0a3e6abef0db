//! Refusals of a size, with the smallest one that would do.
use anyhow::anyhow;
use segno_format::BLOCK_SIZE;
use segno_format::size;
use segno_mkfs::{Layout, MkfsError, MkfsOptions, plan};

/// Sizes are searched up to 16 TiB, the limit of the format.
const MOST_BLOCKS: u64 = 1 << 32;

/// Adds the smallest size to a refusal of `given` blocks.
pub fn explain(e: MkfsError, options: &MkfsOptions, given: u64) -> anyhow::Error {
    if !e.is_about_size() {
        return e.into();
    }
    let Some((blocks, layout)) = smallest(options) else { return e.into() };
    let bytes = |blocks: u64| size::human(blocks * BLOCK_SIZE as u64);
    let files = layout.reserve.user_block_count;
    anyhow!(
        "{} is too small: with these options a volume has {} at least, of which metadata and the reserve for cleaning \
         take {} and {} remain for files",
        bytes(given),
        bytes(blocks),
        bytes(blocks.saturating_sub(files)),
        bytes(files)
    )
}

/// The smallest number of blocks that can be formatted, and the layout with that size.
fn smallest(options: &MkfsOptions) -> Option<(u64, Layout)> {
    let options = MkfsOptions { blocks: None, ..options.clone() };
    let works = |blocks: u64| plan(&[blocks], &options).ok();
    let (mut too_few, mut enough) = (0, 1);
    while works(enough).is_none() {
        (too_few, enough) = (enough, enough * 2);
        if enough > MOST_BLOCKS {
            return None;
        }
    }
    while too_few + 1 < enough {
        let middle = too_few.midpoint(enough);
        if works(middle).is_some() { enough = middle } else { too_few = middle }
    }
    works(enough).map(|layout| (enough, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_size_is_exact() {
        for options in [
            MkfsOptions::default(),
            MkfsOptions { segs_per_sec: 4, ..MkfsOptions::default() },
            MkfsOptions { gap_blocks: 4096, ..MkfsOptions::default() },
        ] {
            let (blocks, _) = smallest(&options).unwrap();
            assert!(plan(&[blocks], &options).is_ok() && plan(&[blocks - 1], &options).is_err(), "{blocks}");
        }
    }
}
