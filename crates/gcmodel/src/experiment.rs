//! The experiments: geometry, file and workload.
use segno_clean::BLOCKS_PER_SEG;

/// How data blocks are mapped by nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One file with one block in every `stride`.
    File { stride: u64 },
    /// Files of up to this many blocks, mapped by their inodes.
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
    /// Blocks available to users: all but the overprovision as mkfs.f2fs computes it for zoned volumes.
    #[must_use]
    pub fn user_blocks(&self) -> u64 {
        let main = u64::from(self.zones) * u64::from(self.segs_per_sec());
        let reserved = u64::from(self.reserved) * u64::from(self.segs_per_sec());
        let ovp = ((main - reserved) as f64 * self.overprovision / 100.0) as u64 + reserved;
        (main - ovp) * u64::from(BLOCKS_PER_SEG)
    }
}
