//! Volumes to work on: formats and mount options that behave differently.
use crate::fs::Fs;
use crate::model::{Limits, Model};
use crate::mounted::Mounted;
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_engine::options::{AllocMode, FsyncMode, JournalMode};
use segno_engine::{MountOptions, StatFs, planted};
use segno_format::inode::max_file_size;
use segno_format::{ADDRS_PER_BLOCK, Features};
use segno_mkfs::{Member, MkfsOptions};
use std::sync::{Arc, Mutex};

const MIB_BLOCKS: u64 = 256;
/// Behind a volume that does not fill its device.
const GAP_BLOCKS: u64 = 8 * MIB_BLOCKS;
/// Size of the common volumes, and of those that are filled up.
const COMMON: u64 = 128 * MIB_BLOCKS;
const TINY: u64 = 56 * MIB_BLOCKS;
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
    /// Free space of the volume while it is empty.
    pub empty: StatFs,
}

/// How setups differ.
#[derive(Clone, Copy)]
struct Recipe {
    name: &'static str,
    format: fn(&mut MkfsOptions),
    mount: fn(&mut MountOptions),
}

const RECIPES: [Recipe; 8] = [
    Recipe { name: "default", format: |_| {}, mount: |_| {} },
    Recipe {
        name: "features",
        format: |f| {
            f.features = Features::EXTRA_ATTR
                | Features::INODE_CHKSUM
                | Features::FLEXIBLE_INLINE_XATTR
                | Features::INODE_CRTIME
                | Features::SB_CHKSUM
                | Features::COMPRESSION
                | Features::CASEFOLD;
        },
        mount: |_| {},
    },
    Recipe {
        name: "noinline",
        format: |_| {},
        mount: |m| {
            m.inline_data = false;
            m.inline_dentry = false;
            m.inline_xattr = false;
        },
    },
    Recipe { name: "posix", format: |_| {}, mount: |m| m.fsync_mode = FsyncMode::Posix },
    Recipe {
        name: "journal",
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
    Recipe { name: "lfs", format: |_| {}, mount: |m| m.mode = AllocMode::Lfs },
    Recipe { name: "smallcache", format: |_| {}, mount: |m| m.cache_bytes = 128 << 10 },
    Recipe {
        name: "sections",
        format: |f| f.segs_per_sec = 2,
        mount: |m| {
            m.discard = false;
            m.inline_data = false;
        },
    },
];

/// Small enough to be filled.
const TINY_RECIPES: [Recipe; 2] = [
    Recipe { name: "tiny", format: |_| {}, mount: |_| {} },
    Recipe { name: "tinylfs", format: |_| {}, mount: |m| m.mode = AllocMode::Lfs },
];

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
    made(&RECIPES, number, COMMON)
}

/// The small setup that a number chooses.
pub fn tiny_setup(number: u64) -> Result<Setup, String> {
    made(&TINY_RECIPES, number, TINY)
}

/// Formats are made once.
fn made(recipes: &[Recipe], number: u64, blocks: u64) -> Result<Setup, String> {
    static MADE: Mutex<Vec<Setup>> = Mutex::new(Vec::new());
    let index = (number % recipes.len().max(1) as u64) as usize;
    let recipe = recipes.get(index).copied().ok_or("no setup")?;
    let mut made = MADE.lock().map_err(|e| e.to_string())?;
    if let Some(setup) = made.iter().find(|s| s.name == recipe.name) {
        return Ok(setup.clone());
    }
    let setup =
        planted::without(|| make(recipe, blocks)).map_err(|e| format!("setup {}: {e}", recipe.name))?;
    made.push(setup.clone());
    Ok(setup)
}

fn make(recipe: Recipe, blocks: u64) -> Result<Setup, String> {
    let mut format = MkfsOptions {
        uuid: Some([7; 16]),
        checkpoint_ver: Some(1_000_000),
        timestamp: Some(1),
        ..MkfsOptions::default()
    };
    (recipe.format)(&mut format);
    let mut options = MountOptions { background: false, ..MountOptions::default() };
    (recipe.mount)(&mut options);
    let gap = if format.blocks.is_some() { GAP_BLOCKS } else { 0 };
    let device = Arc::new(MemDevice::new(blocks + gap));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &format).map_err(|e| e.to_string())?;
    let mut mounted = Mounted::mount(device.clone(), options.clone(), 1).map_err(|e| e.to_string())?;
    let empty = mounted.statfs();
    let root = mounted.root();
    let root = mounted.getattr(root).map_err(|e| format!("stat of the root: errno {e}"))?;
    mounted.unmount().map_err(|e| e.to_string())?;
    check(&*device)?;
    let limits = Limits {
        file_size: max_file_size(ADDRS_PER_BLOCK),
        inline_xattr: if options.inline_xattr { INLINE_XATTR } else { 0 },
    };
    let model = Model::new(limits, &root);
    Ok(Setup { name: recipe.name, options, base: device.snapshot(), model, empty })
}

/// The checker's findings, if there are any.
pub fn check(device: &dyn BlockDevice) -> Result<(), String> {
    let options = segno_check::CheckOptions { max_problems: 5 };
    let report = segno_check::check(device, &options, &mut |_| {}).map_err(|e| format!("checker: {e}"))?;
    // A volume that stopped says so in its superblocks, one after the other.
    let told = |p: &&segno_check::Problem| {
        !matches!(p.kind, segno_check::Kind::ErrorRecord | segno_check::Kind::SuperblockStale)
    };
    let found: Vec<String> = report.problems.iter().filter(told).map(ToString::to_string).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("checker: {}", found.join("; ")))
}
