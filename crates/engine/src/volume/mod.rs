//! The mounted volume: owns everything below it.
mod mount;
mod records;
mod room;
mod shutdown;

use crate::checkpoint::{Counts, CpState, Reason, SinceCheckpoint, UnderWay};
use crate::clock::Clock;
use crate::data::Together;
use crate::error::{Error, Result};
use crate::gate::OpGate;
use crate::gc::{Cleaner, Undiscarded};
use crate::inode::{Inode, InodeCache};
use crate::journal::{Log, Recorder};
use crate::lock::{Mutex, rank};
use crate::memory::Memory;
use crate::meta::Device;
use crate::namei::Holds;
use crate::nat::Nat;
use crate::node::NodeCache;
use crate::options::MountOptions;
use crate::quota::Quota;
use crate::runtime::{Activity, Precedence, Signal};
use crate::segment::Segments;
use crate::stat::{Recorded, Stats};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::types::{StatFs, Time};
use crate::writeback::Writeback;
use records::Records;
pub use records::unguard;
use segno_format::superblock::Superblock;
use segno_format::{Features, Geometry, Ino};
pub use shutdown::Shutdown;
use std::sync::{Arc, OnceLock};

/// A mounted volume. Every method may be called from any thread.
pub struct Volume {
    pub(crate) sb: Superblock,
    pub(crate) geo: Geometry,
    pub(crate) features: Features,
    pub(crate) checksum_seed: u32,
    pub(crate) opts: MountOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dev: Arc<Device>,
    pub(crate) mem: Arc<Memory>,
    pub(crate) nat: Arc<Nat>,
    pub(crate) nodes: NodeCache,
    pub(crate) quota: Arc<Quota>,
    pub(crate) inodes: InodeCache,
    pub(crate) holds: Holds,
    pub(crate) segs: Segments,
    pub(crate) counts: Counts,
    pub(crate) since: SinceCheckpoint,
    pub(crate) stats: Stats,
    pub(crate) together: Together,
    pub(crate) gate: OpGate,
    /// Notes for the journal what operations change.
    pub(crate) notes: Arc<Recorder>,
    /// The journal, if the volume has one; set once, at mount.
    pub(crate) log: OnceLock<Log>,
    pub(crate) under_way: UnderWay,
    /// What node footers carry: version and crc of the checkpoint in force.
    pub(crate) stamp: AtomicU64,
    /// One checkpoint at a time; the state is that of the checkpoint in force.
    pub(crate) cp: Mutex<CpState, { rank::CHECKPOINT }>,
    /// One cleaner at a time.
    pub(crate) cleaner: Mutex<Cleaner, { rank::CLEANER }>,
    /// Renames of directories one at a time, so that no loop can form.
    pub(crate) rename: Mutex<(), { rank::RENAME }>,
    /// Held while blocks of the warm node log are placed and written: the chain has no holes.
    pub(crate) chain: Mutex<(), { rank::CHAIN }>,
    /// Source of flush ids and inode generations.
    pub(crate) serial: AtomicU64,
    /// What the background thread sleeps on.
    pub(crate) signal: Arc<Signal>,
    pub(crate) activity: Activity,
    /// Who writes because it is time lets them go first.
    pub(crate) fsyncs: Precedence,
    pub(crate) records: Records,
    /// An [`crate::options::FsyncLookup`]; may change while mounted.
    pub(crate) fsync_lookup: AtomicU8,
    /// A [`crate::gc::Mode`]; may change while mounted.
    pub(crate) gc_mode: AtomicU8,
    pub(crate) wb: Writeback,
    pub(crate) undiscarded: Undiscarded,
    stopped: AtomicBool,
}

impl Volume {
    /// The root directory.
    #[must_use]
    pub fn root(&self) -> Ino {
        Ino::ROOT
    }

    /// The superblock, as mounted.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Counters since mount.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counters and state by name, for people and scripts.
    #[must_use]
    pub fn report(&self) -> Vec<(&'static str, u64)> {
        let used = self.counts.values();
        let (free_segments, prefree, parked) =
            self.segs.with_table(|t| (t.free_segments(), t.prefree() as u64, t.parked_blocks()));
        let (shared, exclusive) = self.segs.stream_counts();
        let mut out = self.stats.snapshot();
        let (flushes_asked, flushes) = self.dev.flushes();
        out.extend([
            ("flushes_asked", flushes_asked),
            ("flushes", flushes),
            ("user_block_count", self.counts.user_blocks),
            ("valid_block_count", used.valid_blocks),
            ("valid_node_count", used.valid_nodes.into()),
            ("valid_inode_count", used.valid_inodes.into()),
            ("free_sections", self.segs.free_sections()),
            ("free_segments", free_segments),
            ("prefree_segments", prefree),
            ("orphans", self.since.orphan_count() as u64),
            ("cache_bytes", self.cached_bytes()),
            ("cache_bytes_references", self.holds.bytes()),
            ("cached_inodes", self.mem.inodes.get()),
            ("cached_nodes", self.mem.nodes.get()),
            ("dirty_nodes", self.mem.dirty_nodes.get()),
            ("cached_pages", self.mem.pages.get()),
            ("dirty_data_pages", self.mem.dirty_data.get()),
            ("dirty_dentry_pages", self.mem.dirty_dents.get()),
            ("quota_needs_check", self.quota.needs_check().unwrap_or(false).into()),
            ("journal_bytes_used", self.log().map_or(0, |l| l.used())),
            ("journal_failed", self.log.get().is_some_and(Log::is_failed).into()),
            ("stopped", self.is_stopped().into()),
            ("parked_blocks", parked),
            ("undiscarded_segments", self.undiscarded.count()),
            ("streams_shared", shared),
            ("streams_exclusive", exclusive),
        ]);
        out.extend(self.segs.alloc.snapshot());
        out.extend(self.wb.report());
        out
    }

    /// Whether a checkpoint is being written.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.cp.try_lock().is_none()
    }

    /// How long operations take to join the journal's epoch, and each note what they changed: samples, one in
    /// [`stat::SAMPLED`](crate::stat::SAMPLED).
    #[must_use]
    pub fn journal_times(&self) -> (Recorded, Recorded) {
        (self.gate.join_times(), self.notes.times.recorded())
    }

    /// The inode, for an operation.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Arc<Inode>> {
        let inode = match self.inodes.get(ino, &self.nodes, self.features) {
            // The NAT has no such node: the inode was freed, or never was.
            Err(Error::Corrupt(_)) if !self.exists(ino)? => return Err(Error::NotFound),
            other => self.noted(other)?,
        };
        if inode.is_gone() { Err(Error::NotFound) } else { Ok(inode) }
    }

    /// Whether the inode's attributes are known without reading the device.
    #[must_use]
    pub fn is_cached(&self, ino: Ino) -> bool {
        self.nodes.cached(ino).is_some()
    }

    /// Whether the NAT has an inode of that number.
    pub(crate) fn exists(&self, ino: Ino) -> Result<bool> {
        if !self.geo.nid_ok(ino) {
            return Ok(false);
        }
        let entry = self.nat.get(ino)?;
        Ok(entry.ino == ino && entry.addr != segno_format::BlockAddr::NULL)
    }

    /// Everything that was done is durable when this returns: data, then the journal or a checkpoint.
    pub fn sync(&self) -> Result<()> {
        if self.opts.read_only {
            return Ok(());
        }
        self.check_running()?;
        self.flush_all_data()?;
        self.commit()
    }

    /// The volume itself has everything that was done when this returns, and needs no journal for it.
    pub fn checkpoint_now(&self) -> Result<()> {
        self.check_writable()?;
        self.flush_all_data()?;
        self.checkpoint(Reason::Sync)
    }

    /// Flushes everything and writes a clean checkpoint. The volume takes no operation afterwards.
    pub fn unmount(&self) -> Result<()> {
        if self.opts.read_only || self.is_stopped() {
            return Ok(());
        }
        self.free_orphans()?;
        self.flush_all_data()?;
        self.segs.close_streams();
        self.checkpoint(Reason::Umount)?;
        self.close_journal()?;
        self.guard(false)?;
        self.discard_while(|| true);
        if self.dev.is_zoned() {
            // Linux's checker wants them as a mount would leave them; what fails here is tried again by the next one.
            let _tried = self.segs.tidy_zones();
        }
        self.stopped.store(true, Ordering::Release);
        Ok(())
    }

    /// Space and inode counts as df(1) shows them.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        let used = self.counts.values();
        let bfree = self.counts.user_blocks.saturating_sub(used.valid_blocks);
        let nodes = u64::from(self.counts.nodes_left());
        let total_nodes = u64::from(self.geo.max_nid().saturating_sub(3));
        let [a, b, c, d, e, f, g, h, ..] = self.sb.raw.uuid;
        StatFs {
            blocks: self.geo.block_count.saturating_sub(self.geo.segment0_blkaddr.into()),
            bfree,
            bavail: bfree,
            files: total_nodes.min(self.counts.user_blocks),
            ffree: nodes.min(bfree),
            fsid: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        }
    }

    /// Refuses changes on a read-only or stopped volume. The first thing every change calls.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.opts.read_only {
            return Err(Error::ReadOnly);
        }
        self.check_running()
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if self.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Whether the volume stopped after a failed write, or was unmounted.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A number not given before in this mount.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}
