//! The contestants: how changes are made durable, and how often.
use anyhow::Result;
use segno_engine::lab::Probe;
use segno_engine::options::{CheckpointMode, JournalMode};
use segno_engine::{MountOptions, Volume};
use serde::Serialize;

/// Seconds between two applies, and between two flushes of data, with a journal: those of the product.
const APPLY: u64 = 30;
const DATA: u64 = 5;

/// How changes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Mode {
    /// Checkpoints as those of F2FS, by default every minute.
    #[serde(rename = "checkpoint 60 s")]
    Minute,
    /// As often as commits to a journal.
    #[serde(rename = "checkpoint 1 s")]
    Second,
    #[serde(rename = "journal")]
    Journal,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Minute, Self::Second, Self::Journal];
    /// Where the interval of checkpoints has no effect, or is that of a mount.
    pub const BOTH: [Self; 2] = [Self::Minute, Self::Journal];
    /// Those of F2FS.
    pub const CLASSIC: [Self; 2] = [Self::Minute, Self::Second];

    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "checkpoint 60 s",
            Self::Second => "checkpoint 1 s",
            Self::Journal => "journal",
        }
    }

    /// The same as words of `segno mount -o`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Minute => "journal=off,checkpoint=blocking,commit=60",
            Self::Second => "journal=off,checkpoint=blocking,commit=1",
            Self::Journal => "journal=on",
        }
    }

    pub fn options(self, cache_bytes: usize) -> MountOptions {
        // The classic behaviour is that of F2FS, where all changes wait for a checkpoint.
        let (journal, checkpoint) = match self {
            Self::Minute | Self::Second => (JournalMode::Off, CheckpointMode::Blocking),
            Self::Journal => (JournalMode::On, CheckpointMode::Auto),
        };
        // `commit` does it.
        MountOptions {
            journal,
            checkpoint,
            cache_bytes,
            commit_interval: 1 << 20,
            background_gc: false,
            ..MountOptions::default()
        }
    }

    /// Writes the data that is due when the time has advanced from one second to another. Checkpoints write theirs themselves.
    pub fn write_data(self, volume: &Volume, from: u64, to: u64) -> Result<()> {
        let is_due = self == Self::Journal && advanced(DATA, from, to);
        Ok(if is_due { Probe(volume).write_aged() } else { Ok(()) }?)
    }

    /// Makes durable what is due.
    pub fn commit(self, volume: &Volume, from: u64, to: u64) -> Result<()> {
        match self {
            Self::Minute if !advanced(60, from, to) => {}
            Self::Minute | Self::Second => Probe(volume).tick()?,
            Self::Journal if advanced(APPLY, from, to) => Probe(volume).checkpoint_metadata()?,
            Self::Journal => Probe(volume).tick()?,
        }
        Ok(())
    }
}

/// Whether an interval has ended in between.
fn advanced(interval: u64, from: u64, to: u64) -> bool {
    to / interval > from / interval
}

#[cfg(test)]
mod tests {
    use super::super::arm::format;
    use super::*;
    use crate::place::Place;
    use segno_engine::Owner;
    use segno_format::Ino;
    use std::sync::atomic::Ordering;

    #[test]
    fn the_schedule_decides_how_often_changes_are_made_durable() {
        for (mode, checkpoints, commits) in
            [(Mode::Minute, 5, 0), (Mode::Second, 310, 0), (Mode::Journal, 10, 300)]
        {
            let scale = super::super::tests::scale();
            let (device, _) = format(&Place::memory(scale.bytes), &scale).unwrap();
            let volume = Volume::mount(device, mode.options(scale.cache_bytes)).unwrap();
            let counts = || {
                let stats = volume.stats();
                (stats.checkpoints.load(Ordering::Relaxed), stats.journal_commits.load(Ordering::Relaxed))
            };
            let before = counts();
            for second in 0..310 {
                volume.mkdir(Ino::ROOT, format!("{second}").as_bytes(), 0o755, Owner::default()).unwrap();
                mode.write_data(&volume, second, second + 1).unwrap();
                mode.commit(&volume, second, second + 1).unwrap();
            }
            let after = counts();
            assert_eq!((after.0 - before.0, after.1 - before.1), (checkpoints, commits), "{}", mode.name());
        }
    }
}
