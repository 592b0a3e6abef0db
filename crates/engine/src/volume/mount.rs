//! Mounting: superblock, checkpoint pack, tables, recovery.
use super::Volume;
use super::records::Records;
use crate::checkpoint::{Counts, CpState, SinceCheckpoint, UnderWay, read_pack, stamp};
use crate::clock::{Clock, SystemClock};
use crate::data::Together;
use crate::error::{Error, Result};
use crate::gate::OpGate;
use crate::gc::{Cleaner, Mode, Undiscarded};
use crate::inode::InodeCache;
use crate::journal::Recorder;
use crate::lock::Mutex;
use crate::memory::Memory;
use crate::meta::Device;
use crate::namei::Holds;
use crate::nat::Nat;
use crate::node::{NodeCache, NodeTables};
use crate::options::{AllocMode, FsyncLookup, JournalMode, MountOptions};
use crate::quota::Quota;
use crate::runtime::{Activity, Precedence, Signal};
use crate::segment::{Loaded, Segments};
use crate::stat::Stats;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use crate::writeback::Writeback;
use segno_device::BlockDevice;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Block, Corrupt, Features, Nid, Structure};
use std::sync::{Arc, OnceLock};

/// Features whose volumes can be read and written.
const WRITABLE: Features = Features::ATOMIC_WRITE
    .union(Features::BLKZONED)
    .union(Features::EXTRA_ATTR)
    .union(Features::PRJQUOTA)
    .union(Features::QUOTA_INO)
    .union(Features::INODE_CHKSUM)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::INODE_CRTIME)
    .union(Features::LOST_FOUND)
    .union(Features::SB_CHKSUM)
    .union(Features::CASEFOLD)
    .union(Features::COMPRESSION)
    .union(Features::ENCRYPT)
    .union(Features::VERITY);
/// Features whose volumes can only be read.
const READABLE: Features = WRITABLE.union(Features::RO);

impl Volume {
    /// Mounts with the machine's clock.
    pub fn mount(dev: Arc<dyn BlockDevice>, opts: MountOptions) -> Result<Arc<Self>> {
        Self::mount_with_clock(dev, opts, Arc::new(SystemClock))
    }

    /// Mounts: reads superblock and checkpoint, then, unless read-only, finishes what a crash left undone.
    pub fn mount_with_clock(
        dev: Arc<dyn BlockDevice>,
        opts: MountOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let sb = read_superblock(&*dev)?;
        check_features(&sb, &opts)?;
        if dev.read_only() && !opts.read_only {
            return Err(Error::ReadOnly);
        }
        let lookup = opts.fsync_lookup;
        let volume = Arc::new(Self::assemble(dev, sb, opts, clock)?);
        volume.set_fsync_lookup(lookup);
        if !volume.opts.background_gc {
            volume.set_gc_mode(Mode::Off);
        }
        volume.load_quota()?;
        volume.recover()?;
        // Whoever comes looks here first; and without a root there is nothing to mount.
        volume.getattr(volume.root())?;
        volume.adjust_contexts();
        Ok(volume)
    }

    fn assemble(
        dev: Arc<dyn BlockDevice>,
        sb: Superblock,
        mut opts: MountOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let (geo, features) = (sb.geo, sb.features);
        let ro_image = features.contains(Features::RO);
        let zoned = features.contains(Features::BLKZONED);
        if zoned {
            if matches!(opts.journal, JournalMode::On | JournalMode::Beside(_)) {
                return Err(Error::Invalid("journal: not on a zoned volume"));
            }
            opts.mode = AllocMode::Lfs;
            opts.journal = JournalMode::Off;
        }
        let dev = Arc::new(if zoned { Device::zoned(dev, geo)? } else { Device::new(dev, geo) });
        let pack = read_pack(&dev, &geo, ro_image)?;
        let cp = CpState::of(&pack);
        let raw = pack.raw();
        let counts = Counts::of(raw, geo.max_nid());
        let footer_stamp = stamp(raw, pack.crc);
        let version = cp.version();
        let (elapsed_time, reserved_segments, overprov_segments) =
            (raw.elapsed_time.get(), raw.rsvd_segment_count.get(), raw.overprov_segment_count.get());
        let next_free = Nid(raw.next_free_nid.get());
        let nat = Arc::new(Nat::load(geo, dev.clone(), pack.nat_bitmap, &pack.nat_journal, next_free)?);
        let loaded = Loaded {
            bitmap: pack.sit_bitmap,
            journal: &pack.sit_journal,
            logs: pack.logs,
            elapsed_time,
            reserved_segments,
            overprov_segments,
            ro_image,
        };
        let segs = Segments::load(geo, dev.clone(), opts.mode, loaded)?;
        if !ro_image {
            check_totals(&segs, &counts)?;
        }
        segs.check_pointers()?;
        let cleaner = Cleaner::new(opts.gc_policy.as_deref())?;
        if cleaner.needs_ages() {
            segs.with_table(|t| t.keep_ages());
        }
        let mem = Arc::new(Memory::default());
        let checksum_seed = sb.inode_checksum_seed();
        let quota = Arc::new(Quota::new(&sb));
        let notes = Arc::new(Recorder::default());
        let tables = NodeTables { nat: nat.clone(), quota: quota.clone(), notes: notes.clone() };
        let nodes = NodeCache::new(tables, dev.clone(), mem.clone(), features, checksum_seed);
        let inodes = InodeCache::new(mem.clone());
        let since = SinceCheckpoint::default();
        pack.orphans.iter().for_each(|&ino| since.add_orphan(ino));
        let now = clock.now();
        let records = Records::new(sb.raw);
        let wb = Writeback::new(opts.contexts, opts.exclusive_streams);
        Ok(Self {
            wb,
            undiscarded: Undiscarded::default(),
            geo,
            features,
            checksum_seed,
            sb,
            opts,
            clock,
            dev,
            mem,
            nat,
            nodes,
            quota,
            inodes,
            holds: Holds::default(),
            segs,
            counts,
            since,
            stats: Stats::default(),
            together: Together::default(),
            gate: OpGate::new(version),
            notes,
            log: OnceLock::new(),
            under_way: UnderWay::new(cp.version()),
            stamp: AtomicU64::new(footer_stamp),
            cp: Mutex::new(cp),
            cleaner: Mutex::new(cleaner),
            rename: Mutex::new(()),
            chain: Mutex::new(()),
            serial: AtomicU64::new(now.secs.unsigned_abs() << 30 ^ u64::from(now.nsec)),
            signal: Arc::new(Signal::default()),
            fsyncs: Precedence::default(),
            activity: Activity::default(),
            records,
            fsync_lookup: AtomicU8::new(FsyncLookup::default() as u8),
            gc_mode: AtomicU8::new(Mode::default() as u8),
            stopped: AtomicBool::new(false),
        })
    }
}

/// The first valid copy of the superblock; the error of the first copy if neither is.
pub(super) fn read_superblock(dev: &dyn BlockDevice) -> Result<Superblock> {
    let mut first_error = None;
    for copy in SUPERBLOCK_COPIES {
        let mut one = [Block::zeroed()];
        dev.read(copy.0.into(), &mut one).map_err(|source| Error::Io {
            op: "read",
            at: copy.0.into(),
            source,
        })?;
        let [block] = &one;
        match RawSuperblock::from_block(&block.0).parse(copy.0.into()) {
            Ok(sb) => return check_size(dev, sb),
            Err(e) => first_error = first_error.or(Some(e)),
        }
    }
    Err(first_error.map_or(Error::Invalid("no superblock"), Error::from))
}

fn check_size(dev: &dyn BlockDevice, sb: Superblock) -> Result<Superblock> {
    let end = u64::from(sb.geo.main_end());
    if dev.block_count() < end {
        return Err(Corrupt::block(
            Structure::Volume,
            dev.block_count(),
            "the device is smaller than the volume; it may be truncated, or members may be missing",
            dev.block_count(),
            end,
        )
        .into());
    }
    Ok(sb)
}

fn check_features(sb: &Superblock, opts: &MountOptions) -> Result<()> {
    let beyond = |can: Features| Features::from_bits_retain(sb.features.bits() & !can.bits());
    let unreadable = beyond(READABLE);
    if !unreadable.is_empty() {
        return Err(Error::Incompatible(unreadable.names().join(", "), "read"));
    }
    let unwritable = beyond(WRITABLE);
    if !opts.read_only && !unwritable.is_empty() {
        return Err(Error::Incompatible(unwritable.names().join(", "), "write; mount it read-only"));
    }
    Ok(())
}

/// The SIT and the checkpoint must agree on what is in use; slots that only reserve a block are not in the SIT.
fn check_totals(segs: &Segments, counts: &Counts) -> Result<()> {
    let (valid, nodes) = segs.with_table(|t| t.totals());
    let cp = counts.values();
    let bad = |why, found, expected| Corrupt::block(Structure::SitBlock, 0, why, found, expected);
    if nodes != u64::from(cp.valid_nodes) {
        return Err(bad(
            "valid blocks of node segments against valid_node_count",
            nodes,
            cp.valid_nodes.into(),
        )
        .into());
    }
    if valid > cp.valid_blocks {
        return Err(bad("valid blocks against valid_block_count", valid, cp.valid_blocks).into());
    }
    Ok(())
}
