//! State shared by all subsystems: device, properties of the mount, clock, counters, health, transactions.
use crate::clock::Clock;
use crate::error::Error;
use crate::health::Health;
use crate::memory::Memory;
use crate::meta::Device;
use crate::options::MountOptions;
use crate::stat::Stats;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::transaction::Transactions;
use crate::types::Time;
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Features, Geometry};
use std::sync::Arc;

/// Shared state. Only counters, [`Health`], [`Transactions`] and [`Base::is_cached`] change after mount.
pub struct Base {
    /// The superblock as mounted.
    pub sb: Superblock,
    pub geo: Geometry,
    pub features: Features,
    pub checksum_seed: u32,
    pub opts: MountOptions,
    pub clock: Arc<dyn Clock>,
    pub dev: Arc<Device>,
    pub mem: Arc<Memory>,
    pub stats: Stats,
    pub health: Arc<Health>,
    pub tx: Transactions,
    serial: AtomicU64,
    cached: AtomicBool,
}

impl Base {
    pub fn new(
        sb: Superblock,
        opts: MountOptions,
        clock: Arc<dyn Clock>,
        dev: Arc<Device>,
        mem: Arc<Memory>,
        health: Arc<Health>,
        tx: Transactions,
    ) -> Self {
        let now = clock.now();
        Self {
            geo: sb.geo,
            features: sb.features,
            checksum_seed: sb.inode_checksum_seed(),
            health,
            tx,
            sb,
            opts,
            clock,
            dev,
            mem,
            stats: Stats::default(),
            serial: AtomicU64::new(now.secs.unsigned_abs() << 30 ^ u64::from(now.nsec)),
            cached: AtomicBool::new(false),
        }
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether a cache above the volume holds written data and its times. Does not change once files are in use.
    pub fn is_cached(&self) -> bool {
        self.cached.load(Ordering::Relaxed)
    }

    pub fn set_cached(&self) {
        self.cached.store(true, Ordering::Relaxed);
    }

    /// The mtime and ctime of content that changes now; `None` if the cache above sets them later.
    pub fn content_time(&self) -> Option<Time> {
        (!self.is_cached()).then(|| self.now())
    }

    /// A number not used before in this mount, for flush ids and inode generations.
    pub fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// Stops a zoned volume after a failed write: the gap in the zone cannot be written past.
    pub fn stop_if_zoned(&self, why: &Error) {
        if self.dev.is_zoned() {
            self.health.stop(why);
        }
    }

    /// Capacity of the cache in blocks.
    pub fn cache_blocks(&self) -> u64 {
        (self.opts.cache_bytes / BLOCK_SIZE) as u64
    }
}
