//! Mounting: superblock, checkpoint pack, tables, recovery.
use super::{Volume, in_memory};
use crate::admission::Admission;
use crate::base::Base;
use crate::clock::{Clock, SystemClock};
use crate::commit::{Commit, read_pack};
use crate::error::{Error, Result};
use crate::files::{Files, Inode};
use crate::gc::{Cleaner, Gc};
use crate::health::Health;
use crate::memory::Memory;
use crate::meta::Device;
use crate::names::Names;
use crate::nodes::Nat;
use crate::nodes::{NodeFrame, Nodes};
use crate::options::{AllocMode, Discard, MountOptions};
use crate::recovery::Recovery;
use crate::room::Room;
use crate::space::{Loaded, Space};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::transaction::Transactions;
use crate::writeback::{Contexts, Reclaim, Writeback};
use segno_device::{BlockDevice, Operation, ReadError};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::superblock::Superblock;
use segno_format::{Corrupt, Features, Geometry, Ino, Nid, Structure};
use segno_layout::{NoSuperblock, superblock_in_force};
use std::sync::{Arc, Weak};

impl Volume {
    /// Mounts with the system clock.
    pub fn mount(dev: Arc<dyn BlockDevice>, opts: MountOptions) -> Result<Arc<Self>> {
        Self::mount_with_clock(dev, opts, Arc::new(SystemClock))
    }

    /// Mounts: reads superblock and checkpoint, then recovers from a crash: a writable mount on the device, a read-only one
    /// in memory.
    pub(super) fn mount_with_clock(
        dev: Arc<dyn BlockDevice>,
        opts: MountOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let volume = match (opts.read_only, dev.read_only()) {
            (true, _) => in_memory::mount(dev, opts, clock)?,
            (false, true) => return Err(Error::ReadOnly),
            (false, false) => {
                let volume = Self::load(dev, opts, clock)?;
                let recovered = volume.recovery().run()?;
                volume.recovered.store(recovered, Ordering::Relaxed);
                volume
            }
        };
        volume.commit.queue_earlier_discards();
        // Not before: recovery repeats operations that were allowed once.
        if let Some(most) = volume.guarded().most_nodes().filter(|_| volume.base.opts.node_limit) {
            volume.space.counts.limit_nodes(most);
        }
        // Warms the cache with the root; without a root the volume cannot be mounted.
        volume.getattr(volume.root()).map_err(|e| root_lost(&volume.base.geo, e))?;
        volume.writeback.adjust_contexts();
        Ok(volume)
    }

    /// A volume as of its checkpoint.
    pub(super) fn load(
        dev: Arc<dyn BlockDevice>,
        opts: MountOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let sb = read_superblock(&*dev)?;
        if sb.features.contains(Features::RO) && !opts.read_only {
            return Err(Error::Incompatible("ro".to_owned(), "write; mount it read-only"));
        }
        let lookup = opts.fsync_lookup;
        let volume = Arc::new(Self::assemble(dev, sb, opts, clock)?);
        volume.set_fsync_lookup(lookup);
        let flags = volume.commit.cp.lock().header.view::<RawCheckpoint>().flags();
        volume.files.load_quota(flags)?;
        Ok(volume)
    }

    pub(super) fn recovery(&self) -> Recovery<'_> {
        Recovery::new(&self.names, &self.commit)
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
            opts.mode = AllocMode::Lfs;
        }
        let dev = Arc::new(if zoned { Device::zoned(dev, geo)? } else { Device::new(dev, geo) });
        if opts.discard == Discard::Auto {
            opts.discard = if dev.raw.is_preallocated() { Discard::Never } else { Discard::DAY };
        }
        let health = Arc::new(Health::new(sb.raw, dev.clone(), opts.observer.clone(), opts.read_only));
        let pack = read_pack(&dev, &geo)?;
        let cp: &RawCheckpoint = pack.state.header.view();
        let tx = Transactions::new(pack.state.version(), pack.state.stamp().value());
        let next_free = Nid(cp.next_free_nid.get());
        let nat = Nat::load(geo, dev.clone(), health.clone(), pack.nat_bitmap, &pack.nat_journal, next_free)?;
        let loaded =
            Loaded { cp, bitmap: pack.sit_bitmap, journal: &pack.sit_journal, logs: pack.logs, ro_image };
        let space =
            Arc::new(Space::load(geo, dev.clone(), health.clone(), opts.mode, clock.clone(), loaded)?);
        if !ro_image {
            check_totals(&space)?;
        }
        space.check_pointers()?;
        let cleaner = Cleaner::new(opts.gc_policy.as_deref())?;
        space.with_table(|t| {
            t.stamp_by_mtime();
            if cleaner.needs_ages() {
                t.keep_ages();
            }
            if cleaner.needs_openings() {
                t.keep_openings();
            }
            if opts.lifetime {
                t.separate_lifetimes();
            }
        });
        let mem = Arc::new(Memory::new(size_of::<NodeFrame>(), size_of::<Inode>()));
        let base = Arc::new(Base::new(sb, opts, clock, dev, mem, health, tx));
        let nodes = Arc::new(Nodes::new(base.clone(), space.clone(), nat));
        pack.orphans.iter().for_each(|&ino| nodes.since.add_orphan(ino));
        let contexts = Arc::new(Contexts::new(base.opts.contexts, base.opts.exclusive_streams));
        let room = Arc::new(Room::new(nodes.clone()));
        let files = Arc::new(Files::new(nodes.clone(), room, contexts.clone()));
        let writeback = Arc::new(Writeback::new(files.clone(), contexts));
        let names = Arc::new(Names::new(writeback.clone()));
        let commit = Arc::new(Commit::new(writeback.clone(), pack.state));
        let gc = Arc::new(Gc::new(files.clone(), commit.clone(), cleaner));
        let reclaim: Weak<dyn Reclaim> = Arc::downgrade(&gc) as _;
        writeback.set_reclaim(reclaim);
        let admission = Admission::new(writeback.clone(), commit.clone());
        let recovered = AtomicBool::new(false);
        Ok(Self { writeback, admission, names, commit, gc, base, nodes, files, space, recovered })
    }
}

/// The superblock in force, if the volume is supported.
pub(super) fn read_superblock(dev: &dyn BlockDevice) -> Result<Superblock> {
    let unread = |e: ReadError| Error::Io { op: Operation::Read, at: e.at.0.into(), source: e.source };
    let sb = superblock_in_force(dev).map_err(unread)?.map_err(|why| match why {
        NoSuperblock::Unsupported(why) => why.into(),
        NoSuperblock::Damaged(copies) => {
            let [first, _] = *copies;
            Error::from(first)
        }
    })?;
    sb.check_support()?;
    check_size(dev, sb)
}

fn check_size(dev: &dyn BlockDevice, sb: Superblock) -> Result<Superblock> {
    let end = u64::from(sb.geo.main_end());
    if dev.block_count() < end {
        let why = "the device is smaller than the volume; it may be truncated, or members may be missing";
        let found = dev.block_count();
        return Err(Corrupt::block(Structure::Volume, found, why, found, end).into());
    }
    Ok(sb)
}

/// A root that the NAT does not have is damage, not a missing file.
fn root_lost(geo: &Geometry, error: Error) -> Error {
    let at = geo.nat_blkaddr.into();
    let ino = Ino::ROOT.0.into();
    match error {
        Error::NotFound => {
            Corrupt::block(Structure::NatBlock, at, "entry of the root directory", 0, ino).into()
        }
        error => error,
    }
}

/// SIT and checkpoint must agree on blocks in use; slots that only reserve a block are not in the SIT.
fn check_totals(space: &Space) -> Result<()> {
    let (valid, nodes) = space.with_table(|t| t.totals());
    let cp = space.counts.values();
    let bad = |why, found, expected| Corrupt::block(Structure::SitBlock, 0, why, found, expected);
    if nodes != u64::from(cp.valid_nodes) {
        let why = "valid blocks of node segments against valid_node_count";
        return Err(bad(why, nodes, cp.valid_nodes.into()).into());
    }
    if valid > cp.valid_blocks {
        return Err(bad("valid blocks against valid_block_count", valid, cp.valid_blocks).into());
    }
    Ok(())
}
