//! Layout of files on the volume.
use anyhow::Result;
use segno_engine::{ExtentKind, Volume};
use segno_format::{BLOCK_SIZE, Ino};

/// Layout of files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Layout {
    /// Runs in which file block and address grow together, across segments.
    pub extents: u64,
    pub bytes: u64,
    /// Places where a block of one file follows a block of another file.
    pub interleaved: u64,
}

pub fn layout(volume: &Volume, files: &[Ino]) -> Result<Layout> {
    let mut all = Vec::new();
    for (i, &ino) in files.iter().enumerate() {
        for e in volume.extents(ino)? {
            if e.kind == ExtentKind::Written {
                all.push((u64::from(e.addr), e.len, i));
            }
        }
    }
    Ok(of(all))
}

fn of(mut all: Vec<(u64, u64, usize)>) -> Layout {
    all.sort_unstable();
    let bytes = all.iter().map(|e| e.1).sum::<u64>() * BLOCK_SIZE as u64;
    let next_to = |w: &&[(u64, u64, usize)]| matches!(w, [a, b] if a.0 + a.1 == b.0 && a.2 != b.2);
    Layout { extents: all.len() as u64, bytes, interleaved: all.windows(2).filter(next_to).count() as u64 }
}

/// The fewest extents in which these free intervals hold files of that size, longest first.
pub fn best(intervals: &[u64], files: u64, bytes: u64) -> u64 {
    let mut free: std::collections::BinaryHeap<u64> = intervals.iter().copied().collect();
    let mut extents = 0;
    for _ in 0..files {
        let mut left = bytes;
        while left > 0 {
            let Some(longest) = free.pop().filter(|&l| l > 0) else { return extents };
            let taken = longest.min(left);
            left -= taken;
            free.push(longest - taken);
            extents += 1;
        }
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_different_files_are_counted() {
        let l = of(vec![(10, 5, 0), (15, 5, 1), (20, 5, 1), (30, 5, 0), (35, 1, 1)]);
        assert_eq!(l, Layout { extents: 5, bytes: 21 * 4096, interleaved: 2 });
    }

    #[test]
    fn the_best_is_what_the_intervals_allow() {
        assert_eq!(best(&[100], 12, 8), 12);
        assert_eq!(best(&[50, 50, 7], 2, 50), 2);
        assert_eq!(best(&[10, 10, 10], 1, 25), 3);
    }
}
