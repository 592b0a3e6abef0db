//! The directory that names small files: a hash table in levels, as F2FS keeps it.

/// Names in a block.
const NAMES: u64 = 214;
/// Blocks of a bucket.
const BUCKET: u64 = 2;

/// Blocks of a directory with `names` names.
pub fn blocks(names: u64) -> u64 {
    let (level, nth) = last_level(names);
    let (buckets, in_first) = (1 << level, NAMES << level);
    first_block(level) + nth.min(buckets) + nth.saturating_sub(in_first).min(buckets)
}

/// The block with a name. Levels fill up one after the other. In the last one the hash chooses the bucket; first
/// blocks of buckets are numbered ahead of second ones.
pub fn block_of(name: u64) -> u64 {
    let (level, nth) = last_level(name + 1);
    let buckets = 1 << level;
    let second = (nth - 1) / (NAMES << level);
    first_block(level) + second * buckets + (nth - 1) % buckets
}

/// The level in which `names` names end, and how many of them it has.
fn last_level(names: u64) -> (u32, u64) {
    let (mut level, mut left) = (0, names);
    while left > (NAMES * BUCKET) << level {
        left -= (NAMES * BUCKET) << level;
        level += 1;
    }
    (level, left)
}

/// Blocks of all levels ahead of one.
fn first_block(level: u32) -> u64 {
    BUCKET * ((1 << level) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `segno info` and `stat` of the directory of E8 in the engine: 190 blocks.
    #[test]
    fn a_directory_of_27_303_names_has_190_blocks() {
        assert_eq!(blocks(27_303), 190);
    }

    #[test]
    fn each_block_has_a_name_and_no_more_than_fit() {
        for names in [0, 1, 214, 215, 428, 429, 5_000, 27_303] {
            let mut found = vec![0; blocks(names) as usize];
            (0..names).for_each(|name| found[block_of(name) as usize] += 1);
            assert!(found.iter().all(|&n| (1..=NAMES).contains(&n)), "{names}: {found:?}");
        }
    }
}
