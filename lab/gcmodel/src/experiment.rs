//! The experiments: geometry, file and workload.
use crate::volume::sizes;
use segno_clean::BLOCKS_PER_SEG;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::str::FromStr;

/// How data blocks are mapped by nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One file with one block in every `stride`.
    File { stride: u64 },
    /// Files of up to `blocks` blocks, mapped by their inodes.
    Small { blocks: u64 },
}

/// Access pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    Uniform,
    /// fio's zipf with this exponent.
    Zipf(f64),
    Sequential,
    /// Small files are created, deleted and overwritten.
    Mix,
    /// This share of the file gets all writes.
    Hot(f64),
    /// This share of the writes goes to this share of the pages, the rest to the others.
    Skewed {
        writes: f64,
        pages: f64,
    },
    /// 30 % of the writes go to a cyclic log, a twentieth of the file; 60 % by zipf with this exponent and 10 % uniformly to
    /// the rest.
    Database(f64),
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let number = |s: &str, what: &str, most: f64| match s.parse::<f64>() {
            Ok(n) if n > 0.0 && n < most => Ok(n),
            _ => Err(format!("{what} is a number above 0 and below {most}, not {s}")),
        };
        match s.split_once([':', '/']) {
            None => match s {
                "uniform" => Ok(Self::Uniform),
                "sequential" => Ok(Self::Sequential),
                "mix" => Ok(Self::Mix),
                "db" => Ok(Self::Database(0.9)),
                _ => Err(format!(
                    "choose uniform, zipf:EXPONENT, sequential, hot:SHARE, 90/10, db or mix, not {s}"
                )),
            },
            Some(("zipf", exponent)) => Ok(Self::Zipf(number(exponent, "the exponent", 3.0)?)),
            Some(("hot", share)) => Ok(Self::Hot(number(share, "the share", 1.0)?)),
            Some((writes, pages)) => Ok(Self::Skewed {
                writes: number(writes, "the percentage of writes", 100.0)? / 100.0,
                pages: number(pages, "the percentage of pages", 100.0)? / 100.0,
            }),
        }
    }
}

impl Display for Workload {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Sequential => f.write_str("sequential"),
            Self::Mix => f.write_str("mix"),
            Self::Hot(share) => write!(f, "hot:{share}"),
            Self::Skewed { writes, pages } => write!(f, "{}/{}", writes * 100.0, pages * 100.0),
            Self::Database(_) => f.write_str("db"),
        }
    }
}

/// One experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experiment {
    pub name: &'static str,
    pub zones: u32,
    pub blocks_per_zone: u32,
    pub reserved: u32,
    pub overprovision: f64,
    pub shape: Shape,
    /// Blocks of the file; by default as many as fit.
    pub file_blocks: Option<u64>,
    pub workload: Workload,
    /// Application writes, as a multiple of the file's blocks.
    pub times: f64,
    /// Application writes, absolute.
    pub writes: Option<u64>,
    /// Dirty pages at which writeback starts, as a share of the file; unused with fsync.
    pub dirty: f64,
    /// The same as a number.
    pub dirty_pages: Option<u64>,
    /// Interval of fdatasync in writes.
    pub fsync_every: Option<u64>,
}

const BASE: Experiment = Experiment {
    name: "",
    zones: 128,
    blocks_per_zone: 1024,
    reserved: 8,
    overprovision: 15.0,
    shape: Shape::File { stride: 1 },
    file_blocks: None,
    workload: Workload::Uniform,
    times: 2.0,
    writes: None,
    dirty: 0.011,
    dirty_pages: None,
    fsync_every: None,
};
const E1: Experiment = Experiment {
    name: "E1",
    zones: 64,
    blocks_per_zone: 2048,
    reserved: 6,
    overprovision: 25.0,
    file_blocks: Some(88_832),
    writes: Some(363_520),
    ..BASE
};
const E0: Experiment = Experiment {
    name: "E0",
    zones: 4068,
    blocks_per_zone: 2048,
    overprovision: 3.89,
    file_blocks: Some(7_983_872),
    writes: Some(33_554_432),
    dirty: 0.0114,
    ..BASE
};

pub const ALL: [Experiment; 12] = [
    E0,
    E1,
    Experiment { name: "E2", fsync_every: Some(1024), writes: Some(177_664), ..E1 },
    Experiment { name: "E3", ..BASE },
    Experiment { name: "E4", overprovision: 20.0, shape: Shape::File { stride: 32 }, ..BASE },
    Experiment { name: "E5", workload: Workload::Zipf(0.99), times: 4.0, ..BASE },
    Experiment { name: "E6", workload: Workload::Sequential, ..BASE },
    Experiment {
        name: "E7",
        blocks_per_zone: 512,
        file_blocks: None,
        writes: None,
        times: 4.1,
        dirty: 0.011,
        ..E0
    },
    Experiment {
        name: "E8",
        overprovision: 20.0,
        shape: Shape::Small { blocks: 4 },
        workload: Workload::Mix,
        times: 4.0,
        ..BASE
    },
    Experiment { name: "database", fsync_every: Some(4), times: 2.0, ..BASE },
    Experiment { name: "archive", workload: Workload::Hot(0.1), times: 4.0, ..BASE },
    Experiment {
        name: "refill",
        shape: Shape::Small { blocks: 256 },
        workload: Workload::Mix,
        times: 4.0,
        ..BASE
    },
];

impl Experiment {
    /// By name, as `E1`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|e| e.name.eq_ignore_ascii_case(name))
    }
    #[must_use]
    pub fn segs_per_sec(&self) -> u32 {
        self.blocks_per_zone / BLOCKS_PER_SEG
    }
    /// Blocks of the main area.
    #[must_use]
    pub fn main_blocks(&self) -> u64 {
        u64::from(self.zones) * u64::from(self.blocks_per_zone)
    }
    /// Numbers of pages and of files.
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        let (pages, nodes, _) = sizes(self);
        match self.shape {
            Shape::File { .. } => (pages as u64, 1),
            // All nodes but the directory's.
            Shape::Small { .. } => (pages as u64, nodes as u64 - 1),
        }
    }
    /// File blocks from one page to the next.
    #[must_use]
    pub fn stride(&self) -> u64 {
        match self.shape {
            Shape::File { stride } => stride,
            Shape::Small { .. } => 1,
        }
    }
    /// Pages of one of many small files.
    #[must_use]
    pub fn pages_of(&self, file: u32) -> Range<u32> {
        match self.shape {
            Shape::File { .. } => 0..self.extent().0 as u32,
            Shape::Small { blocks } => file * blocks as u32..(file + 1) * blocks as u32,
        }
    }
    /// Application writes of the experiment.
    #[must_use]
    pub fn wanted_writes(&self) -> u64 {
        self.writes.unwrap_or((self.extent().0 as f64 * self.times) as u64)
    }
    /// Dirty pages down to which writeback goes.
    #[must_use]
    pub fn dirty_limit(&self) -> u64 {
        self.dirty_pages.unwrap_or((self.extent().0 as f64 * self.dirty) as u64)
    }
    /// Blocks available to users: all but the overprovision as mkfs.f2fs computes it for zoned volumes.
    #[must_use]
    pub fn user_blocks(&self) -> u64 {
        let main = u64::from(self.zones) * u64::from(self.segs_per_sec());
        let reserved = u64::from(self.reserved) * u64::from(self.segs_per_sec());
        let ovp = ((main - reserved) as f64 * self.overprovision / 100.0) as u64 + reserved;
        (main - ovp) * u64::from(BLOCKS_PER_SEG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_named_as_they_are_given() {
        for name in ["uniform", "zipf:0.9", "zipf:1", "sequential", "mix", "hot:0.1", "90/10", "80/20", "db"]
        {
            assert_eq!(name.parse::<Workload>().unwrap().to_string(), name);
        }
        for bad in ["", "zip", "zipf:0", "zipf:x", "hot:1", "100/10", "90/0", "/", "zipf:nan"] {
            bad.parse::<Workload>().unwrap_err();
        }
    }
}
