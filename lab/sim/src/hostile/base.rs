//! Volumes with one of everything, made by the formatter and the engine, and cut off in the middle of their work.
use super::decode::{Layout, decode};
use super::edit::{Edit, Place, Value};
use crate::mounted::FixedClock;
use segno_codec::lzo;
use segno_device::{BlockDevice, MemDevice, MultiDevice, Snapshot};
use segno_engine::lab;
use segno_engine::options::JournalMode;
use segno_engine::{Clock, Error, FallocMode, MountOptions, Owner, SetAttr, Volume, XattrMode};
use segno_format::inode::{InodeFlags, RawExtraAttr, RawInode};
use segno_format::sit::RawSitEntry;
use segno_format::{BLOCK_SIZE, BlockAddr, Features, Ino};
use segno_mkfs::{Member, MkfsOptions};
use std::mem::offset_of;
use std::sync::{Arc, OnceLock};
use zerocopy::FromBytes;

/// A volume to be damaged.
pub struct Base {
    pub name: &'static str,
    pub image: Snapshot,
    pub layout: Layout,
    recipe: Recipe,
}

/// Options of a volume.
#[derive(Clone, Copy)]
struct Recipe {
    features: Features,
    /// On two devices.
    joined: bool,
    /// Power was cut during use.
    cut: bool,
    /// A metadata journal in use follows it.
    journal: bool,
    /// Few files of each kind, for many runs.
    small: bool,
}

const BLOCKS: u64 = 72 * 256;
const JOURNAL_BLOCKS: u64 = 4 * 256;
const ALL: Features = Features::EXTRA_ATTR
    .union(Features::INODE_CHKSUM)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::INODE_CRTIME)
    .union(Features::PRJQUOTA)
    .union(Features::SB_CHKSUM)
    .union(Features::COMPRESSION)
    .union(Features::CASEFOLD)
    .union(Features::ENCRYPT)
    .union(Features::VERITY)
    .union(Features::LOST_FOUND);

/// The volumes: plain, with every feature, and with a journal, each cut off, and one on two devices that was unmounted.
pub fn bases() -> Result<&'static [Base], String> {
    static BASES: OnceLock<Result<Vec<Base>, String>> = OnceLock::new();
    let made = BASES.get_or_init(|| {
        let plain =
            Recipe { features: Features::empty(), joined: false, cut: true, journal: false, small: false };
        let quota = Features::EXTRA_ATTR.union(Features::QUOTA_INO);
        let all = [
            ("plain", plain),
            ("features", Recipe { features: ALL, ..plain }),
            ("joined", Recipe { features: quota, joined: true, cut: false, ..plain }),
            ("journal", Recipe { features: Features::EXTRA_ATTR, journal: true, ..plain }),
        ];
        make_all(&all)
    });
    made.as_deref().map_err(Clone::clone)
}

/// Volumes with few files of each kind, cut off: plain, with features, and with a journal.
pub fn small() -> Result<&'static [Base], String> {
    static SMALL: OnceLock<Result<Vec<Base>, String>> = OnceLock::new();
    let made = SMALL.get_or_init(|| {
        let plain =
            Recipe { features: Features::empty(), joined: false, cut: true, journal: false, small: true };
        let all = [
            ("small", plain),
            ("small-features", Recipe { features: ALL, ..plain }),
            ("small-journal", Recipe { features: Features::EXTRA_ATTR, journal: true, ..plain }),
        ];
        make_all(&all)
    });
    made.as_deref().map_err(Clone::clone)
}

fn make_all(all: &[(&'static str, Recipe)]) -> Result<Vec<Base>, String> {
    all.iter().map(|&(name, recipe)| make(name, recipe).map_err(|e| format!("base {name}: {e}"))).collect()
}

fn make(name: &'static str, recipe: Recipe) -> Result<Base, String> {
    let device = Arc::new(MemDevice::new(BLOCKS + if recipe.journal { JOURNAL_BLOCKS } else { 0 }));
    format(&device, recipe)?;
    let text = |e: Error| e.to_string();
    let volume = mount(&device, recipe)?;
    if recipe.small { fill_small(&volume) } else { fill(&volume, recipe.features) }.map_err(text)?;
    volume.unmount().map_err(text)?;
    if recipe.features.contains(Features::COMPRESSION) && !recipe.small {
        mark_compressed(&device, recipe)?;
    }
    let volume = mount(&device, recipe)?;
    volume.sync().map_err(text)?;
    let open = leave_open(&volume).map_err(text)?;
    if recipe.cut {
        chain(&volume, recipe.small).map_err(text)?;
    } else {
        open.into_iter().try_for_each(|ino| volume.release(ino)).map_err(text)?;
        volume.unmount().map_err(text)?;
    }
    let image = device.snapshot();
    crate::setup::check(&MemDevice::from_snapshot(&image))?;
    let layout = decode(&MemDevice::from_snapshot(&image), recipe.journal)?;
    Ok(Base { name, image, layout, recipe })
}

impl Base {
    /// Mount options.
    pub fn mount_options(&self) -> MountOptions {
        mount_options(self.recipe)
    }
}

fn format(device: &Arc<MemDevice>, recipe: Recipe) -> Result<(), String> {
    let options = MkfsOptions {
        features: recipe.features,
        blocks: recipe.journal.then_some(BLOCKS),
        uuid: Some([9; 16]),
        checkpoint_ver: Some(1_000_000),
        timestamp: Some(1),
        ..MkfsOptions::default()
    };
    if !recipe.joined {
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        return segno_mkfs::format(&[member], &options).map(drop).map_err(|e| e.to_string());
    }
    // The formatter writes to two devices; their contents are then concatenated, which is the engine's view.
    let halves = [48 * 256, 24 * 256].map(|n| Arc::new(MemDevice::new(n)));
    let members: Vec<Member> = (halves.iter().enumerate())
        .map(|(i, d)| Member { device: d.clone(), path: format!("member{i}"), zeroed: true })
        .collect();
    segno_mkfs::format(&members, &options).map_err(|e| e.to_string())?;
    let table = halves.iter().map(|d| (d.clone() as Arc<dyn BlockDevice>, d.block_count())).collect();
    let whole = MultiDevice::new(table).map_err(|e| e.to_string())?;
    let mut one = [segno_format::Block::zeroed()];
    for addr in 0..whole.block_count() {
        whole
            .read(addr, &mut one)
            .and_then(|()| device.write(addr, &[&one[0]]))
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// With a fixed clock and without threads.
fn mount_options(recipe: Recipe) -> MountOptions {
    let journal = if recipe.journal { JournalMode::On } else { JournalMode::Off };
    MountOptions { background: false, cache_bytes: 8 << 20, journal, ..MountOptions::default() }
}

fn mount(device: &Arc<MemDevice>, recipe: Recipe) -> Result<Arc<Volume>, String> {
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::default());
    lab::mount(device.clone(), mount_options(recipe), clock).map_err(|e| e.to_string())
}

fn file(v: &Volume, dir: Ino, name: &str) -> Result<Ino, Error> {
    v.mknod(dir, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).map(|a| a.ino)
}

fn bytes(len: usize, tag: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7) as u8 ^ tag).collect()
}

/// Blocks of a file that need each kind of node: the inode, both direct nodes, both indirect ones, the double one.
const SPREAD: [u64; 7] = [0, 950, 2000, 3000, 3700, 1_040_000, 2_080_000];

fn fill(v: &Volume, features: Features) -> Result<(), Error> {
    let me = Owner::default();
    let root = v.root();
    v.write(file(v, root, "inline")?, 0, b"a few bytes")?;
    v.write(file(v, root, "three")?, 0, &bytes(3 * BLOCK_SIZE, 1))?;
    let spread = file(v, root, "spread")?;
    for at in SPREAD {
        v.write(spread, at * BLOCK_SIZE as u64, &bytes(BLOCK_SIZE, at as u8))?;
    }
    v.write(file(v, root, "long")?, 0, &bytes(1000 * BLOCK_SIZE, 3))?;
    let reserved = file(v, root, "reserved")?;
    v.fallocate(reserved, FallocMode::Allocate, 0, 5 * BLOCK_SIZE as u64)?;
    v.symlink(root, b"link", b"three", me)?;
    v.symlink(root, b"longlink", &bytes(3900, 64).iter().map(|b| b | 1).collect::<Vec<_>>(), me)?;
    v.mknod(root, b"fifo", 0o010_600, (0, 0), me)?;
    v.mknod(root, b"disk", 0o060_600, (8, 1), me)?;
    v.mknod(root, b"socket", 0o140_600, (0, 0), me)?;
    let marked = file(v, root, "attributes")?;
    v.setxattr(marked, b"user.small", b"value", XattrMode::Set)?;
    v.setxattr(marked, b"user.large", &bytes(3000, 5), XattrMode::Set)?;
    v.setxattr(marked, b"security.label", &bytes(60, 6), XattrMode::Set)?;
    let mut dir = root;
    for name in [b"a", b"b", b"c"] {
        dir = v.mkdir(dir, name, 0o755, me)?.ino;
        v.write(file(v, dir, "deep")?, 0, &bytes(5000, 8))?;
    }
    let many = v.mkdir(root, b"many", 0o755, me)?.ino;
    let target = file(v, many, "target")?;
    for i in 0..140 {
        let name = format!("{i:03}-{}", "n".repeat(96));
        if i % 10 == 0 {
            file(v, many, &name).map(drop)?
        } else {
            v.link(target, many, name.as_bytes()).map(drop)?
        }
    }
    let plain = bytes(4 * BLOCK_SIZE, 0).iter().map(|b| b & 3).collect::<Vec<_>>();
    let data = lzo::compress(&plain);
    // The first block is for the mark of a cluster; a header of 24 bytes starts with the length.
    let mut payload = vec![0; BLOCK_SIZE];
    payload.extend((data.len() as u32).to_le_bytes());
    payload.resize(BLOCK_SIZE + 24, 0);
    payload.extend(data);
    payload.resize(4 * BLOCK_SIZE, 0);
    v.write(file(v, root, "packed")?, 0, &payload)?;
    if features.contains(Features::CASEFOLD) {
        let folded = v.mkdir(root, b"folded", 0o755, me)?.ino;
        v.set_flags(folded, InodeFlags::CASEFOLD)?;
        for name in ["Straße", "README", "ÄÖÜ"] {
            file(v, folded, name)?;
        }
    }
    if features.contains(Features::PRJQUOTA) {
        v.set_projid(marked, 7)?;
        v.setattr(spread, &SetAttr { uid: Some(1000), gid: Some(100), ..SetAttr::default() })?;
    }
    Ok(())
}

fn fill_small(v: &Volume) -> Result<(), Error> {
    let (me, root) = (Owner::default(), v.root());
    v.write(file(v, root, "inline")?, 0, b"a few bytes")?;
    let spread = file(v, root, "spread")?;
    for at in [0, 950, 2000, 3000] {
        v.write(spread, at * BLOCK_SIZE as u64, &bytes(BLOCK_SIZE, at as u8))?;
    }
    v.symlink(root, b"link", b"inline", me)?;
    v.mknod(root, b"disk", 0o060_600, (8, 1), me)?;
    v.setxattr(spread, b"user.large", &bytes(3000, 5), XattrMode::Set)?;
    let dir = v.mkdir(root, b"a", 0o755, me)?.ino;
    for i in 0..20 {
        v.link(spread, dir, format!("{i:02}-{}", "n".repeat(96)).as_bytes())?;
    }
    Ok(())
}

/// Makes a compressed file of a plain one: the engine writes none.
fn mark_compressed(device: &Arc<MemDevice>, recipe: Recipe) -> Result<(), String> {
    let v = mount(device, recipe)?;
    let ino = |name: &str| v.lookup(v.root(), name.as_bytes()).map(|a| a.ino.0).map_err(|e| e.to_string());
    let packed = ino("packed")?;
    v.unmount().map_err(|e| e.to_string())?;
    let layout = decode(device, false)?;
    let (block, _) = layout.block(&**device, Place::Node(packed))?;
    let inode = block.view::<RawInode>();
    let shape = layout.inode_layout(inode)?;
    let (seg, bit) = layout.geo().seg_of(inode.slot(&shape, 0)).ok_or("no first block")?;
    let (table, at) = layout.block(&**device, Place::Sit(seg.0))?;
    let (entry, _) =
        RawSitEntry::read_from_prefix(table.0.get(at..).unwrap_or_default()).map_err(|e| e.to_string())?;
    let (byte, mask) = (bit as usize / 8, 0x80 >> (bit % 8));
    let map = entry.valid_map.get(byte).copied().unwrap_or_default() & !mask;
    let field = |place, offset: usize, len, value| Edit {
        place,
        offset: offset as u16,
        len,
        value: Value::Raw(value),
    };
    let node = |ino, offset, len, value| field(Place::Node(ino), offset, len, value);
    let body = offset_of!(RawInode, body);
    let edits = [
        node(packed, offset_of!(RawInode, i_flags), 4, InodeFlags::COMPR.bits().into()),
        node(packed, body + offset_of!(RawExtraAttr, i_compr_blocks), 8, 1),
        node(packed, body + offset_of!(RawExtraAttr, i_log_cluster_size), 1, 2),
        node(packed, shape.slot_offset(0), 4, BlockAddr::COMPRESS.0.into()),
        node(packed, offset_of!(RawInode, i_ext) + 8, 4, 0),
        field(Place::Sit(seg.0), 2 + byte, 1, map.into()),
        field(Place::Sit(seg.0), 0, 2, u64::from(entry.vblocks.get()) - 1),
    ];
    layout.apply(device, &edits, true)
}

/// Files without names that are still open when the power goes.
fn leave_open(v: &Volume) -> Result<Vec<Ino>, Error> {
    let mut open = Vec::new();
    for i in 0..3 {
        let ino = v.tmpfile(v.root(), 0o600, Owner::default())?.ino;
        v.write(ino, i * 950 * BLOCK_SIZE as u64, &bytes(2 * BLOCK_SIZE, 9))?;
        open.push(ino);
    }
    v.sync()?;
    Ok(open)
}

/// Leaves a roll-forward chain after the checkpoint.
fn chain(v: &Volume, small: bool) -> Result<(), Error> {
    let root = v.root();
    let spread = v.lookup(root, b"spread")?.ino;
    v.write(spread, 950 * BLOCK_SIZE as u64, &bytes(2 * BLOCK_SIZE, 11))?;
    v.fsync(spread)?;
    let new = file(v, root, "new")?;
    v.write(new, 0, &bytes(if small { 2 } else { 1100 } * BLOCK_SIZE, 12))?;
    v.setxattr(new, b"user.new", &bytes(2000, 13), XattrMode::Set)?;
    v.fsync(new)?;
    let deep = v.lookup(root, b"a")?.ino;
    let small = file(v, deep, "logged")?;
    v.write(small, 0, b"inline")?;
    v.fsync(small)
}
