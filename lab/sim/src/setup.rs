//! Test volumes: combinations of format and mount options.
use crate::crash::Contract;
use crate::devices::{Devices, Opened};
use crate::fs::Fs;
use crate::model::{Limits, Model};
use crate::mounted::Mounted;
use segno_codec::Algorithm;
use segno_device::{BlockDevice, MemDevice, Operation, Snapshot};
use segno_engine::options::{AllocMode, CheckpointMode, Compression, Discard, FsyncMode, JournalMode};
use segno_engine::{ContextSetting, Error, JournalArea, MountOptions, Observer, StatFs};
use segno_format::inode::max_file_size;
use segno_format::{ADDRS_PER_BLOCK, Features};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::FlushRegion;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

const MIB_BLOCKS: u64 = 256;
/// Gap between a volume and the end of its device, for a journal.
const GAP_BLOCKS: u64 = 8 * MIB_BLOCKS;
/// Size of a journal for about six commits: two superblocks, two announcements, and the space that a commit
/// requires to be free.
const SMALL_RING_BLOCKS: u64 = 28;
/// Commits after which the end of that journal is near.
const COMMITS_TO_THE_END: u32 = 21;
/// Sizes of the common volumes, and of the small ones that are filled up.
pub(crate) const COMMON: u64 = 128 * MIB_BLOCKS;
const TINY: u64 = 56 * MIB_BLOCKS;
/// With room for several writeback contexts; and as many zones as a zoned volume of six logs needs.
const LARGE: u64 = 256 * MIB_BLOCKS;
/// Gap after a large volume: a commit of thousands of inodes does not fill half of the ring.
const LARGE_GAP: u64 = 64 * MIB_BLOCKS;
const ZONED: u64 = 84 * MIB_BLOCKS;
/// Number of writeback contexts in the setups with many.
pub(crate) const MANY_CONTEXTS: u32 = 6;
/// Bytes of an inode for attributes.
const INLINE_XATTR: usize = 200;

/// A formatted volume and how to mount it.
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub options: MountOptions,
    pub base: Snapshot,
    /// The empty volume.
    pub model: Model,
    /// Blocks of the volume; the journal follows them.
    pub blocks: u64,
    /// Free space of the volume while it is empty.
    pub empty: StatFs,
    pub(crate) devices: Devices,
    /// Number of changes at the start of a workload, each committed: later commits wrap a small journal
    /// around.
    pub commits_first: u32,
}

impl Setup {
    /// Mounts a volume of this setup; time starts at `now`.
    pub fn mount(&self, device: Arc<dyn FlushRegion>, now: i64) -> Result<Mounted, Error> {
        self.mount_observed(device, now, Observer::default())
    }

    /// Mounts a volume for someone who receives its notices.
    pub(crate) fn mount_observed(
        &self,
        device: Arc<dyn FlushRegion>,
        now: i64,
        observer: Observer,
    ) -> Result<Mounted, Error> {
        let opened =
            self.devices.open(&device).map_err(|source| Error::Io { op: Operation::Read, at: 0, source })?;
        self.mount_opened(opened, now, observer)
    }

    /// Mounts a copy of the volume on another device.
    pub fn mount_volume(
        &self,
        volume: Arc<dyn BlockDevice>,
        now: i64,
        observer: Observer,
    ) -> Result<Mounted, Error> {
        self.mount_opened(Opened { volume, journal: None }, now, observer)
    }

    /// The empty volume.
    pub fn empty_volume(&self) -> io::Result<Arc<dyn BlockDevice>> {
        self.volume(Arc::new(MemDevice::from_snapshot(&self.base)))
    }

    /// The volume on a device.
    pub(crate) fn volume(&self, device: Arc<dyn FlushRegion>) -> io::Result<Arc<dyn BlockDevice>> {
        Ok(self.devices.open(&device)?.volume)
    }

    /// Mounts the devices of a volume.
    pub(crate) fn mount_opened(
        &self,
        opened: Opened,
        now: i64,
        observer: Observer,
    ) -> Result<Mounted, Error> {
        let mut options = MountOptions { observer, ..self.options.clone() };
        if let Some(journal) = opened.journal {
            options.journal = JournalMode::External(JournalArea::whole(journal));
        }
        let mounted = Mounted::mount(opened.volume, options, now)?;
        Ok(if self.model.limits().cached { mounted.with_page_cache() } else { mounted })
    }

    /// The durability guarantees of the volume.
    #[must_use]
    pub fn contract(&self) -> Contract {
        let journal = self.devices.have_journal() || !matches!(self.options.journal, JournalMode::Off);
        match self.options.fsync_mode {
            _ if journal => Contract::Journal,
            FsyncMode::Strict => Contract::Strict,
            FsyncMode::Posix | FsyncMode::Nobarrier => Contract::Posix,
        }
    }

    /// The checker's findings, if there are any.
    pub fn check(&self, device: Arc<dyn FlushRegion>) -> Result<(), String> {
        check(&*self.volume(device).map_err(|e| format!("checker: {e}"))?)
    }

    /// Applies the rules of these devices to the blocks that are left after a power cut.
    pub fn settle(&self, device: MemDevice) -> Result<Snapshot, String> {
        self.devices.settle(&device).map_err(|e| format!("zones: {e}"))?;
        Ok(device.snapshot())
    }
}

/// Definition of a setup.
#[derive(Clone, Copy)]
struct Recipe {
    name: &'static str,
    blocks: u64,
    format: fn(&mut MkfsOptions),
    mount: fn(&mut MountOptions),
}

const RECIPES: [Recipe; 11] = [
    Recipe { name: "default", blocks: COMMON, format: |_| {}, mount: |_| {} },
    Recipe {
        name: "features",
        blocks: COMMON,
        format: |f| {
            f.features = Features::EXTRA_ATTR
                | Features::INODE_CHKSUM
                | Features::FLEXIBLE_INLINE_XATTR
                | Features::INODE_CRTIME
                | Features::SB_CHKSUM
                | Features::COMPRESSION
                | Features::CASEFOLD
                | Features::PRJQUOTA
                | Features::QUOTA_INO;
        },
        mount: |_| {},
    },
    Recipe {
        name: "noinline",
        blocks: COMMON,
        format: |_| {},
        mount: |m| {
            m.inline_data = false;
            m.inline_dentry = false;
            m.inline_xattr = false;
        },
    },
    Recipe { name: "posix", blocks: COMMON, format: |_| {}, mount: |m| m.fsync_mode = FsyncMode::Posix },
    Recipe {
        name: "journal",
        blocks: COMMON,
        format: |f| {
            f.blocks = Some(128 * MIB_BLOCKS);
            f.features = Features::EXTRA_ATTR
                | Features::INODE_CHKSUM
                | Features::FLEXIBLE_INLINE_XATTR
                | Features::INODE_CRTIME
                | Features::CASEFOLD;
        },
        mount: |m| m.journal = JournalMode::On,
    },
    Recipe { name: "concurrent", blocks: COMMON, format: |_| {}, mount: concurrent },
    Recipe { name: "lfs", blocks: COMMON, format: |_| {}, mount: |m| m.mode = AllocMode::Lfs },
    // Its freed segments wait for their discard, and are used again meanwhile.
    Recipe {
        name: "smallcache",
        blocks: COMMON,
        format: |_| {},
        mount: |m| {
            m.cache_bytes = 128 << 10;
            m.discard = Discard::AfterBytes(2 << 20);
        },
    },
    Recipe {
        name: "sections",
        blocks: COMMON,
        format: |f| f.segs_per_sec = 2,
        mount: |m| {
            m.discard = Discard::Never;
            m.inline_data = false;
        },
    },
    // Contexts come and go while files are dirty: see `Mounted::set_time`.
    Recipe {
        name: "contexts",
        blocks: LARGE,
        format: |_| {},
        mount: |m| m.contexts = ContextSetting::Fixed(MANY_CONTEXTS),
    },
    Recipe { name: "zoned", blocks: ZONED, format: zoned, mount: |_| {} },
];

/// Chosen by name alone, so that cases keep their numbers. In the first the journal is full after a few
/// commits, and soon wraps around, and the volume is guarded; its device is smaller, and so is the gap after
/// it. `cached…` is below the kernel's writeback cache. The journal of `beside` is on a separate device. In
/// the `compressed…` setups all files are compressed. The others have several devices, or zones and a
/// journal.
const NAMED_RECIPES: [Recipe; 13] = [
    Recipe {
        name: "smallring",
        blocks: COMMON - GAP_BLOCKS + SMALL_RING_BLOCKS,
        format: |f| f.blocks = Some(COMMON),
        mount: |m| {
            m.journal = JournalMode::On;
        },
    },
    Recipe { name: "cached", blocks: COMMON, format: |_| {}, mount: |_| {} },
    Recipe {
        name: "cachedjournal",
        blocks: COMMON,
        format: |f| f.blocks = Some(COMMON),
        mount: |m| m.journal = JournalMode::On,
    },
    Recipe { name: "beside", blocks: COMMON, format: |f| f.blocks = Some(COMMON), mount: |_| {} },
    Recipe {
        name: "compressed",
        blocks: COMMON,
        format: compressible,
        mount: |m| compress(m, Algorithm::Lz4, 2),
    },
    Recipe {
        name: "compressedjournal",
        blocks: COMMON,
        format: |f| {
            compressible(f);
            f.features |= Features::INODE_CRTIME | Features::PRJQUOTA | Features::QUOTA_INO;
            f.blocks = Some(COMMON);
        },
        mount: |m| {
            compress(m, Algorithm::Zstd, 2);
            m.compression.level = 5;
            m.journal = JournalMode::On;
        },
    },
    Recipe {
        name: "compressedlarge",
        blocks: COMMON,
        format: compressible,
        mount: |m| {
            compress(m, Algorithm::LzoRle, 3);
            m.checkpoint = CheckpointMode::Concurrent;
        },
    },
    Recipe {
        name: "compressedzoned",
        blocks: ZONED,
        format: |f| {
            compressible(f);
            zoned(f);
        },
        mount: |m| compress(m, Algorithm::Lzo, 2),
    },
    Recipe { name: "devices", blocks: COMMON, format: |_| {}, mount: |_| {} },
    Recipe { name: "zoneddevices", blocks: ZONED, format: zoned, mount: |_| {} },
    Recipe {
        name: "multijournal",
        blocks: COMMON,
        format: |f| f.gap_blocks = GAP_BLOCKS,
        mount: |m| m.journal = JournalMode::On,
    },
    Recipe {
        name: "zonedjournal",
        blocks: ZONED,
        format: zoned_with_gap,
        mount: |m| m.journal = JournalMode::On,
    },
    Recipe {
        name: "zonedbeside",
        blocks: ZONED,
        format: |f| {
            zoned(f);
            f.blocks = Some(ZONED);
        },
        mount: |_| {},
    },
];

/// Small enough to be filled.
const TINY_RECIPES: [Recipe; 9] = [
    Recipe { name: "tiny", blocks: TINY, format: |_| {}, mount: |_| {} },
    Recipe { name: "tinylfs", blocks: TINY, format: |_| {}, mount: |m| m.mode = AllocMode::Lfs },
    Recipe { name: "tinyconcurrent", blocks: TINY, format: |_| {}, mount: concurrent },
    Recipe { name: "zonedgreedy", blocks: ZONED, format: zoned, mount: |m| policy(m, "greedy") },
    Recipe { name: "zonedatgc", blocks: ZONED, format: zoned, mount: |m| policy(m, "atgc") },
    Recipe { name: "zonedpredictive", blocks: ZONED, format: zoned, mount: |m| policy(m, "predictive") },
    Recipe {
        name: "tinyjournal",
        blocks: TINY,
        format: |f| f.blocks = Some(TINY),
        mount: |m| m.journal = JournalMode::On,
    },
    Recipe {
        name: "tinylfsjournal",
        blocks: TINY,
        format: |f| f.blocks = Some(TINY),
        mount: |m| {
            m.mode = AllocMode::Lfs;
            m.journal = JournalMode::On;
        },
    },
    Recipe {
        name: "tinyzonedjournal",
        blocks: ZONED,
        format: zoned_with_gap,
        mount: |m| m.journal = JournalMode::On,
    },
];

/// For the recovery of thousands of inodes. Of the first two all pairs of cuts are tried.
const LARGE_RECIPES: [Recipe; 9] = [
    Recipe {
        name: "largejournal",
        blocks: LARGE,
        format: |f| {
            attributes(f);
            f.blocks = Some(LARGE);
        },
        mount: |m| m.journal = JournalMode::On,
    },
    Recipe { name: "largechain", blocks: LARGE, format: attributes, mount: |_| {} },
    Recipe { name: "largebeside", blocks: LARGE, format: |f| f.blocks = Some(LARGE), mount: |_| {} },
    Recipe { name: "largezoned", blocks: LARGE, format: zoned, mount: |_| {} },
    Recipe {
        name: "largecompressed",
        blocks: LARGE,
        format: |f| {
            compressible(f);
            f.blocks = Some(LARGE);
        },
        mount: |m| {
            compress(m, Algorithm::Lz4, 2);
            m.journal = JournalMode::On;
        },
    },
    Recipe {
        name: "largesections",
        blocks: LARGE,
        format: |f| {
            f.segs_per_sec = 2;
            f.blocks = Some(LARGE);
        },
        mount: |m| {
            m.mode = AllocMode::Lfs;
            m.journal = JournalMode::On;
        },
    },
    Recipe { name: "largedevices", blocks: LARGE, format: attributes, mount: |_| {} },
    Recipe { name: "largezoneddevices", blocks: LARGE, format: zoned, mount: |_| {} },
    Recipe {
        name: "largezonedjournal",
        blocks: LARGE,
        format: |f| {
            zoned(f);
            f.gap_blocks = LARGE_GAP;
        },
        mount: |m| m.journal = JournalMode::On,
    },
];

fn attributes(format: &mut MkfsOptions) {
    format.features = Features::EXTRA_ATTR
        | Features::INODE_CHKSUM
        | Features::FLEXIBLE_INLINE_XATTR
        | Features::INODE_CRTIME
        | Features::PRJQUOTA
        | Features::QUOTA_INO;
}

fn concurrent(mount: &mut MountOptions) {
    mount.checkpoint = CheckpointMode::Concurrent;
}

fn zoned(format: &mut MkfsOptions) {
    format.zoned = true;
    format.overprovision_percent = Some(20.0);
    format.reserved_sections = Some(8);
}

fn zoned_with_gap(format: &mut MkfsOptions) {
    zoned(format);
    format.gap_blocks = GAP_BLOCKS;
}

fn compressible(format: &mut MkfsOptions) {
    format.features = Features::EXTRA_ATTR | Features::INODE_CHKSUM | Features::COMPRESSION;
    // Hot files are never compressed.
    format.hot_extensions.clear();
}

/// Compresses all new files.
fn compress(mount: &mut MountOptions, algorithm: Algorithm, log_cluster: u8) {
    let extensions = vec!["*".into()];
    mount.compression =
        Compression { algorithm, log_cluster, checksum: true, extensions, ..mount.compression.clone() };
}

fn policy(mount: &mut MountOptions, name: &str) {
    mount.gc_policy = Some(name.to_owned());
}

/// Number of common setups.
#[must_use]
pub fn common() -> u64 {
    RECIPES.len() as u64
}

/// Number of setups that are small enough to be filled.
#[must_use]
pub fn tiny() -> u64 {
    TINY_RECIPES.len() as u64
}

/// The common setup that a number chooses.
pub fn setup(number: u64) -> Result<Setup, String> {
    made(&RECIPES, number)
}

/// The setup of a name, or else the common setup that a number chooses.
pub fn chosen(name: Option<&str>, number: u64) -> Result<Setup, String> {
    let Some(name) = name else { return setup(number) };
    match NAMED_RECIPES.iter().position(|r| r.name == name) {
        Some(at) => made(&NAMED_RECIPES, at as u64),
        None => setup(named(name)?),
    }
}

/// The name of a setup that [`chosen`] accepts.
pub fn name(text: &str) -> Result<&'static str, String> {
    let all = || RECIPES.iter().chain(&NAMED_RECIPES).map(|r| r.name);
    let names = || all().collect::<Vec<_>>().join(", ");
    all().find(|&name| name == text).ok_or_else(|| format!("'{text}' is none of {}", names()))
}

/// Whether the setup of a name has the kernel's writeback cache above the volume.
#[must_use]
pub fn is_cached(name: &str) -> bool {
    name.starts_with("cached")
}

/// Number of the common setup of a name.
pub fn named(name: &str) -> Result<u64, String> {
    let at = RECIPES.iter().position(|r| r.name == name);
    at.map(|n| n as u64).ok_or_else(|| format!("no setup {name}"))
}

/// Number of setups for large recoveries.
#[must_use]
pub fn large() -> u64 {
    LARGE_RECIPES.len() as u64
}

/// The setup for large recoveries that a number chooses.
pub fn large_setup(number: u64) -> Result<Setup, String> {
    made(&LARGE_RECIPES, number)
}

/// Number of the setup for large recoveries of a name.
pub fn large_named(name: &str) -> Result<u64, String> {
    let at = LARGE_RECIPES.iter().position(|r| r.name == name);
    at.map(|n| n as u64).ok_or_else(|| format!("no setup {name}"))
}

/// The small setup that a number chooses.
pub fn tiny_setup(number: u64) -> Result<Setup, String> {
    made(&TINY_RECIPES, number)
}

/// Formats are made once.
fn made(recipes: &[Recipe], number: u64) -> Result<Setup, String> {
    static MADE: Mutex<Vec<Setup>> = Mutex::new(Vec::new());
    let index = (number % recipes.len().max(1) as u64) as usize;
    let recipe = recipes.get(index).copied().ok_or("no setup")?;
    let mut made = MADE.lock().map_err(|e| e.to_string())?;
    if let Some(setup) = made.iter().find(|s| s.name == recipe.name) {
        return Ok(setup.clone());
    }
    let setup = make(recipe).map_err(|e| format!("setup {}: {e}", recipe.name))?;
    made.push(setup.clone());
    Ok(setup)
}

fn make(recipe: Recipe) -> Result<Setup, String> {
    let mut format = MkfsOptions {
        uuid: Some([7; 16]),
        checkpoint_ver: Some(1_000_000),
        timestamp: Some(1),
        ..MkfsOptions::default()
    };
    (recipe.format)(&mut format);
    // At once, so that cuts meet discards.
    // All have room for a journal; those without one are as F2FS is.
    let mut options = MountOptions {
        background: false,
        discard: Discard::NOW,
        journal: JournalMode::Off,
        ..MountOptions::default()
    };
    (recipe.mount)(&mut options);
    let gap = match format.blocks {
        None => format.gap_blocks,
        Some(LARGE..) => LARGE_GAP,
        Some(_) => GAP_BLOCKS,
    };
    let blocks = format.blocks.unwrap_or(recipe.blocks);
    let memory = Arc::new(MemDevice::new(recipe.blocks + gap));
    let packing = &options.compression;
    let compressed =
        (!packing.extensions.is_empty()).then_some((packing.algorithm.to_disk(), packing.log_cluster));
    let log = compressed.map_or(0, |(_, log)| log);
    let has = |feature| format.features.contains(feature);
    let limits = Limits {
        file_size: max_file_size(ADDRS_PER_BLOCK >> log << log),
        compressed,
        compress_flag: u16::from(packing.level) << 8 | u16::from(packing.checksum),
        compressible: has(Features::COMPRESSION),
        creation_times: has(Features::INODE_CRTIME),
        projects: has(Features::PRJQUOTA),
        hot_names: !format.hot_extensions.is_empty(),
        cached: is_cached(recipe.name),
        inline_xattr: if options.inline_xattr { INLINE_XATTR } else { 0 },
    };
    let mut setup = Setup {
        name: recipe.name,
        options,
        base: memory.snapshot(),
        model: Model::from_inodes(limits, BTreeMap::new()),
        blocks,
        empty: StatFs::default(),
        devices: Devices::of_setup(recipe.name, format.zoned, blocks..memory.block_count()),
        commits_first: if recipe.name == "smallring" { COMMITS_TO_THE_END } else { 0 },
    };
    let members = setup.devices.members(&(memory.clone() as _)).map_err(|e| e.to_string())?;
    let named = |(n, (device, _))| Member { device, path: format!("device {n}"), zeroed: true };
    let members: Vec<Member> = (0..).zip(members).map(named).collect();
    segno_mkfs::format(&members, &format).map_err(|e| e.to_string())?;
    let mut mounted = setup.mount(memory.clone(), 1).map_err(|e| e.to_string())?;
    setup.empty = mounted.statfs();
    let root = mounted.root();
    let root = mounted.getattr(root).map_err(|e| format!("stat of the root: errno {e}"))?;
    mounted.unmount().map_err(|e| e.to_string())?;
    setup.check(memory.clone())?;
    setup.model = Model::new(limits, &root);
    setup.base = memory.snapshot();
    Ok(setup)
}

/// The checker's findings, if there are any.
pub fn check(device: &dyn BlockDevice) -> Result<(), String> {
    let options = segno_check::CheckOptions { max_problems: 5, ..Default::default() };
    let mut starts = 0;
    let mut count =
        |step: segno_check::Progress| starts += u32::from(step.pass == segno_check::Pass::Superblock);
    let report = segno_check::check(device, &options, &mut count).map_err(|e| format!("checker: {e}"))?;
    if report.is_clean() && starts > 1 {
        return Err("checker: nothing is wrong, and that was not proven".to_owned());
    }
    segno_testkit::decoders::compare(device)?;
    // A stopped volume records the reason in its superblocks, one after the other.
    let unexpected = |p: &&segno_check::Problem| {
        !matches!(p.kind, segno_check::Kind::ErrorRecord | segno_check::Kind::SuperblockStale)
    };
    let found: Vec<String> = report.problems.iter().filter(unexpected).map(ToString::to_string).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("checker: {}", found.join("; ")))
}
