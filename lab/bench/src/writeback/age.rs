//! Used and aged volumes.
use super::case::Case;
use super::work::{self, MIB};
use anyhow::Result;
use segno_engine::{Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::Rng;
use std::sync::Arc;

/// Writes the files of the case and removes them.
pub fn reuse(v: &Arc<Volume>, case: &Case, pattern: u8, seed: u64) -> Result<()> {
    work::run(v, case.work, case.writers, case.bytes, pattern, seed, "old")?;
    for w in 0..case.writers {
        let name = format!("old{w}");
        let dir = v.lookup(v.root(), name.as_bytes())?.ino;
        v.unlink(dir, b"file")?;
        v.rmdir(v.root(), name.as_bytes())?;
    }
    Ok(v.sync()?)
}

/// Fills to 85 %, removes every second file, fills to 80 %, overwrites a quarter of the capacity in pieces of 4 KiB to
/// 1 MiB, one in fifty with an fsync.
pub fn age(v: &Volume, seed: u64) -> Result<()> {
    let mut rng = Rng::new(seed);
    let dir = v.mkdir(v.root(), b"aged", 0o755, Owner::default())?.ino;
    let mut files: Vec<(Ino, u64, String)> = Vec::new();
    let data = vec![0; MIB as usize];
    let mut number = 0;
    let mut fill = |files: &mut Vec<(Ino, u64, String)>, rng: &mut Rng, percent: u64| -> Result<()> {
        while used_percent(v) < percent {
            // Sizes from 4 KiB to 32 MiB, uniform in their logarithm.
            let size = (4096u64 << rng.below(14)) + rng.below(4096);
            let name = number.to_string();
            number += 1;
            let ino = work::create(v, dir, &name)?;
            for at in (0..size).step_by(MIB as usize) {
                let piece = data.get(..(size - at).min(MIB) as usize).unwrap_or_default();
                v.write(ino, at, piece)?;
            }
            files.push((ino, size, name));
        }
        Ok(v.sync()?)
    };
    fill(&mut files, &mut rng, 85)?;
    let mut kept = Vec::new();
    for (i, file) in files.into_iter().enumerate() {
        if i % 2 == 0 {
            v.unlink(dir, file.2.as_bytes())?;
        } else {
            kept.push(file);
        }
    }
    fill(&mut kept, &mut rng, 80)?;
    let mut left = v.statfs().blocks * BLOCK_SIZE as u64 / 4;
    while left > 0 {
        let Some((ino, size, _)) = kept.get(rng.below(kept.len() as u64) as usize) else { break };
        let piece = (4096u64 << rng.below(9)).min(*size);
        let at = rng.below(size - piece + 1);
        v.write(*ino, at, data.get(..piece as usize).unwrap_or_default())?;
        if rng.below(50) == 0 {
            v.fsync(*ino)?;
        }
        left = left.saturating_sub(piece);
    }
    Ok(v.sync()?)
}

fn used_percent(v: &Volume) -> u64 {
    let s = v.statfs();
    100 - s.bfree * 100 / s.blocks.max(1)
}
