//! A tree of files of mixed content and size.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use segno_testkit::Rng;

/// Files in a directory.
pub const EACH: u32 = 25;
const SEED: u64 = 22;

/// Makes the tree.
pub fn plant(dir: &Path, files: u32) -> Result<()> {
    let mut rng = Rng::new(SEED);
    // The more files, the smaller: the tree has 120 to 170 MB from 1,000 files on.
    let share = (files / 1000).max(1);
    for i in 0..files {
        let folder = dir.join(format!("d{}", i / EACH));
        fs::create_dir_all(&folder)?;
        // Up to 100 KB, some up to 3 MB, and sizes close to those of blocks and clusters.
        let size = match i % (30 * share) {
            0 => rng.below(3_000_000),
            1..=3 => 4096 * (1 << rng.below(9)) + rng.below(3),
            4..=6 => rng.below(5000),
            _ => rng.below(u64::from(10_000 + 90_000 / share)),
        };
        fs::write(folder.join(format!("f{}", i % EACH)), content(&mut rng, size as usize))?;
        symlink(format!("f{}", i % EACH), folder.join(format!("l{}", i % EACH)))?;
    }
    Ok(())
}

/// Runs of text, noise and zeros.
fn content(rng: &mut Rng, size: usize) -> Vec<u8> {
    let words: &[&[u8]] = &[b"block ", b"segment ", b"checkpoint\n", b"node ", b"summary "];
    let mut out = Vec::with_capacity(size + 4096);
    while out.len() < size {
        let end = (out.len() + 1 + rng.below(60_000) as usize).min(size);
        match rng.below(5) {
            0 => out.resize(end, 0),
            1 => (out.len()..end).for_each(|_| out.push(rng.below(256) as u8)),
            _ => {
                while out.len() < end {
                    out.extend_from_slice(words.get(rng.below(5) as usize).copied().unwrap_or_default());
                }
            }
        }
    }
    out.truncate(size);
    out
}
