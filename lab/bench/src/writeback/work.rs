//! Workloads of the writers.
use anyhow::{Context, Result, anyhow};
use segno_engine::{ContextSetting, Owner, Volume};
use segno_format::Ino;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub const MIB: u64 = 1 << 20;
const SMALL: usize = 4096;

/// Workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Each writer writes one file in steps of 1 MiB.
    Sequential,
    /// Each writer writes its file in blocks of 4 KiB, each once, in random order.
    Random,
    /// Each writer appends 64 KiB at a time, with pauses.
    Append,
    /// Each writer makes files of 4 KiB.
    Small,
    /// Sequential, while the number of contexts changes.
    Change,
}

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::Append => "append",
            Self::Small => "small",
            Self::Change => "change",
        }
    }
}

pub fn create(v: &Volume, dir: Ino, name: &str) -> Result<Ino> {
    Ok(v.mknod(dir, name.as_bytes(), 0o100_644, (0, 0), Owner::default())?.ino)
}

/// Each writer has its own directory. Returns the files when everything is durable.
pub fn run(
    v: &Volume,
    work: Work,
    writers: u64,
    bytes: u64,
    pattern: u8,
    seed: u64,
    name: &str,
) -> Result<Vec<Ino>> {
    let stop = AtomicBool::new(false);
    let files = thread::scope(|s| -> Result<Vec<Ino>> {
        if work == Work::Change {
            let stop = &stop;
            s.spawn(move || {
                for n in [1, 16, 4, 2, 8, 1, 12].into_iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    v.set_contexts(ContextSetting::Fixed(n));
                    thread::sleep(Duration::from_millis(100));
                }
            });
        }
        let each =
            |w: u64| s.spawn(move || writer(v, work, bytes, pattern, seed ^ w << 32, &format!("{name}{w}")));
        let threads: Vec<_> = (0..writers).map(each).collect();
        let all = threads.into_iter().map(|t| t.join().map_err(|_| anyhow!("a writer panicked"))?);
        let all = all.collect::<Result<Vec<_>>>();
        stop.store(true, Ordering::Relaxed);
        Ok(all?.into_iter().flatten().collect())
    })?;
    v.sync().context("cannot sync")?;
    Ok(files)
}

fn writer(v: &Volume, work: Work, bytes: u64, pattern: u8, seed: u64, name: &str) -> Result<Vec<Ino>> {
    let dir = v.mkdir(v.root(), name.as_bytes(), 0o755, Owner::default())?.ino;
    let data = vec![pattern; MIB as usize];
    if work == Work::Small {
        let count = bytes / SMALL as u64;
        return (0..count)
            .map(|i| {
                let ino = create(v, dir, &i.to_string())?;
                write(v, ino, 0, data.get(..SMALL).unwrap_or_default())?;
                Ok(ino)
            })
            .collect();
    }
    let ino = create(v, dir, "file")?;
    match work {
        Work::Random => {
            let blocks = bytes / SMALL as u64;
            for i in 0..blocks {
                write(
                    v,
                    ino,
                    shuffled(i, blocks, seed) * SMALL as u64,
                    data.get(..SMALL).unwrap_or_default(),
                )?;
            }
        }
        Work::Append => {
            for at in (0..bytes).step_by(64 << 10) {
                write(v, ino, at, data.get(..64 << 10).unwrap_or_default())?;
                thread::sleep(Duration::from_millis(1));
            }
        }
        _ => {
            for at in (0..bytes).step_by(MIB as usize) {
                write(v, ino, at, &data)?;
            }
        }
    }
    Ok(vec![ino])
}

fn write(v: &Volume, ino: Ino, at: u64, data: &[u8]) -> Result<()> {
    anyhow::ensure!(v.write(ino, at, data)? == data.len(), "the volume is full");
    Ok(())
}

/// A pseudorandom permutation of 0..n.
fn shuffled(i: u64, n: u64, seed: u64) -> u64 {
    let bits = 64 - (n - 1).max(1).leading_zeros();
    let mask = (1u64 << bits) - 1;
    let mut x = i;
    loop {
        // Odd factors and shifts within the mask are reversible, so no two numbers meet.
        x = x.wrapping_mul(0x9e37_79b9 | 1).wrapping_add(seed) & mask;
        x ^= x >> (bits / 2).max(1);
        x = x.wrapping_mul(0x85eb_ca6b | 1) & mask;
        x ^= x >> (bits / 3).max(1);
        if x < n {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_block_is_written_once() {
        for n in [1, 2, 255, 256, 1000, 4096] {
            for seed in [0, 7 << 32] {
                let all: BTreeSet<u64> = (0..n).map(|i| shuffled(i, n, seed)).collect();
                assert_eq!(all, (0..n).collect(), "{n}");
            }
        }
        let neighbours = (1..4096).filter(|&i| shuffled(i, 4096, 3) == shuffled(i - 1, 4096, 3) + 1).count();
        assert!(neighbours < 40, "{neighbours} of 4096 in order");
    }
}
