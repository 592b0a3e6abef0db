//! Fields of inodes: values that no writer stores become values that one would.
use crate::error::{RepairError, Result};
use crate::extra;
use crate::node::{inline_dots, set_cold, set_footer};
use crate::state::State;
use segno_format::dentry::{DentryShape, FileType, MAX_DEPTH};
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode, verify_checksum};
use segno_format::node::RawNode;
use segno_format::{BLOCK_SIZE, Block, Features, Ino, NAME_MAX};
use zerocopy::little_endian::U16;

const NSEC: u32 = 1_000_000_000;
const FORMAT: u16 = 0o170_000;
const REGULAR: u16 = 0o100_000;
const DIRECTORY: u16 = 0o040_000;
/// Words of inline attributes of inodes that Linux makes.
const XATTR_WORDS: u16 = 50;
/// Inodes whose fields may all be damaged.
const MOST_CHANGED: usize = 16;
/// Blocks of a cluster, as a power of two, that Linux makes by default.
const LOG_CLUSTER: u8 = 2;

/// Makes the fields of all inodes valid.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    let inos = state.inos();
    state.extra_sizes = extra::common_sizes(state)?;
    for &ino in &inos {
        one(state, ino)?;
    }
    // Damage is rare. If nothing fits, the measure is wrong.
    let changed = inos.iter().filter(|ino| state.edits.contains_key(ino)).count();
    if changed > MOST_CHANGED && changed > inos.len() / 2 {
        return Err(RepairError::refused(format!(
            "{changed} of {} inodes do not fit the features in the superblock, so that is in doubt",
            inos.len()
        )));
    }
    Ok(())
}

/// Makes the fields of an inode valid.
pub(crate) fn one(state: &mut State<'_>, ino: u32) -> Result<()> {
    let features = state.vol.sb.features;
    footer(state, ino)?;
    let block = state.block(ino)?;
    if verify_checksum(&block, features, state.vol.sb.inode_checksum_seed()).is_err() {
        state.edits.insert(ino, block);
        state.lose(ino, "the checksum of the inode is wrong; its fields look right and are kept");
    }
    let sized = extra::run(state, ino)?;
    let dots = has_dots(state, ino)?;
    let quota = state.quota_inos().contains(&ino);
    let known = (ino == Ino::ROOT.0).then_some(true).or(quota.then_some(false));
    let changed = state.change(ino, |block| {
        kind(block, dots, known);
        let raw: &mut RawInode = block.view_mut();
        sizes(raw, features);
        flags(raw, features);
        times_and_names(ino, raw);
    })?;
    let is_dir = state.block(ino)?.view::<RawInode>().is_dir();
    // mkfs.f2fs writes quota files without the bit.
    if sized | changed | (!quota && state.change(ino, |block| set_cold(block, !is_dir))?) {
        state.note(ino, "fields of the inode were invalid");
    }
    inline(state, ino)
}

/// The inode's own number, in its footer and in the NAT.
fn footer(state: &mut State<'_>, ino: u32) -> Result<()> {
    let Some(node) = state.nodes.get_mut(&ino) else { return Ok(()) };
    if (node.owner, node.ino, node.ofs) == (ino, ino, 0) {
        return Ok(());
    }
    (node.owner, node.ino, node.ofs) = (ino, ino, 0);
    state.change(ino, |block| set_footer(block, ino, 0))?;
    state.note(ino, "the owner of the inode was wrong in the NAT or in its footer");
    Ok(())
}

/// Decides whether an inode is a directory: by `fixed` if it is known, else by the type in the mode and the
/// cold bit. If these two differ, its content decides.
fn kind(block: &mut Block, dots: bool, fixed: Option<bool>) {
    let cold = block.view::<RawNode>().footer.is_cold();
    let raw: &RawInode = block.view();
    let mode = raw.i_mode.get();
    let known = FileType::of_mode(mode) != FileType::Unknown;
    let is_dir = match (known, raw.is_dir(), cold) {
        (true, true, false) => true,
        (true, false, true) | (false, _, true) => false,
        (false, _, false) => true,
        _ => dots,
    };
    let is_dir = fixed.unwrap_or(is_dir);
    let as_known = fixed != Some(false) || raw.is_reg();
    if known && raw.is_dir() == is_dir && as_known {
        return;
    }
    let format = if is_dir { DIRECTORY } else { REGULAR };
    block.view_mut::<RawInode>().i_mode = U16::new(mode & !FORMAT | format);
}

/// Whether the content of an inode begins as that of a directory.
fn has_dots(state: &State<'_>, ino: u32) -> Result<bool> {
    let block = state.block(ino)?;
    let raw: &RawInode = block.view();
    if inline_dots(ino, &block, state.vol.sb.features) {
        return Ok(true);
    }
    let first = raw.slot(&state.layout(raw), 0);
    let block = state.data_block(ino, 0, first)?;
    let entry = DentryShape::BLOCK.entry_at(&block.0, 0, 0);
    Ok(entry.is_ok_and(|e| e.is_some_and(|e| e.name == b"." && e.ino.0 == ino)))
}

fn sizes(raw: &mut RawInode, features: Features) {
    if !raw.inline().contains(Inline::EXTRA_ATTR) {
        return;
    }
    let mut extra = raw.extra();
    if features.contains(Features::FLEXIBLE_INLINE_XATTR) && raw.layout(features).is_err() {
        extra.i_inline_xattr_size = U16::new(XATTR_WORDS);
        raw.set_extra(&extra);
    }
    if raw.is_compressed() && raw.layout(features).is_err() {
        extra.i_log_cluster_size = LOG_CLUSTER;
        raw.set_extra(&extra);
    }
}

fn flags(raw: &mut RawInode, features: Features) {
    let mut flags = raw.flags();
    let mut advise = raw.advise();
    let lacks = |f: Features| !features.contains(f);
    if lacks(Features::CASEFOLD) || !raw.is_dir() {
        flags.remove(InodeFlags::CASEFOLD);
    }
    if lacks(Features::COMPRESSION) {
        flags.remove(InodeFlags::COMPR);
    }
    if flags.contains(InodeFlags::COMPR | InodeFlags::NOCOMP) {
        flags.remove(InodeFlags::NOCOMP);
    }
    flags.remove(InodeFlags::DEVICE_ALIAS);
    if lacks(Features::ENCRYPT) {
        advise.remove(Advise::ENCRYPT);
    }
    if lacks(Features::VERITY) {
        advise.remove(Advise::VERITY);
    }
    raw.i_flags.set(flags.bits());
    raw.i_advise = advise.bits();
}

fn times_and_names(ino: u32, raw: &mut RawInode) {
    for nsec in [&mut raw.i_atime_nsec, &mut raw.i_ctime_nsec, &mut raw.i_mtime_nsec] {
        if nsec.get() >= NSEC {
            nsec.set(0);
        }
    }
    if raw.i_namelen.get() as usize > NAME_MAX {
        raw.i_namelen.set(0);
    }
    if raw.i_xattr_nid.get() == ino {
        raw.i_xattr_nid.set(0);
    }
    if raw.is_dir() && raw.i_current_depth.get() > MAX_DEPTH {
        raw.i_current_depth.set(1);
    }
    // Failures to clean a pinned file.
    if raw.is_reg() && !raw.inline().contains(Inline::PIN_FILE) {
        raw.i_current_depth.set(0);
    }
}

/// Inline data and directories: the flag, against size and nodes.
pub(crate) fn inline(state: &mut State<'_>, ino: u32) -> Result<()> {
    let block = state.block(ino)?;
    let raw: &RawInode = block.view();
    let layout = state.layout(raw);
    let kind = FileType::of_mode(raw.i_mode.get());
    let mut inline = raw.inline();
    match kind {
        FileType::Directory => inline.remove(Inline::DATA),
        FileType::Regular | FileType::Symlink => inline.remove(Inline::DENTRY),
        _ => inline.remove(Inline::DATA | Inline::DENTRY),
    }
    if state.quota_inos().contains(&ino) {
        inline.remove(Inline::DATA | Inline::DATA_EXIST | Inline::DENTRY);
    }
    let opaque = raw.advise().intersects(Advise::ENCRYPT | Advise::VERITY) || raw.is_compressed();
    let has_nodes = raw.i_nid.iter().any(|n| n.get() != 0);
    let big = raw.i_size.get() > layout.inline_capacity() as u64;
    let real = |i| state.vol.geo.in_main(raw.slot(&layout, i));
    // An inline file has no other block than a node of attributes.
    if inline.contains(Inline::DATA) && (raw.is_reg() && opaque || (has_nodes || big) && real(0)) {
        inline.remove(Inline::DATA | Inline::DATA_EXIST);
    }
    if inline.contains(Inline::DENTRY) && real(0) && !inline_dots(ino, &block, state.vol.sb.features) {
        inline.remove(Inline::DENTRY);
    }
    let is_inline = inline.intersects(Inline::DATA | Inline::DENTRY);
    let bits = inline.bits();
    let capacity = layout.inline_capacity() as u64;
    let mut cut = false;
    let changed = state.change(ino, |block| {
        block.view_mut::<RawInode>().i_inline = bits;
        let area = layout.inline_range();
        if is_inline {
            let raw: &mut RawInode = block.view_mut();
            raw.i_nid.iter_mut().for_each(|n| n.set(0));
            if raw.i_size.get() > capacity {
                raw.i_size.set(capacity);
                cut = true;
            }
            let size = raw.i_size.get() as usize;
            block.set_u32_at(layout.base(), 0);
            if inline.contains(Inline::DATA)
                && let Some(bytes) = block.0.get_mut(area)
            {
                let (data, rest) = bytes.split_at_mut(size.min(capacity as usize));
                rest.fill(0);
                if data.iter().any(|&b| b != 0) {
                    block.view_mut::<RawInode>().i_inline |= Inline::DATA_EXIST.bits();
                }
            }
        }
    })?;
    if cut {
        state.lose(ino, format!("the size was larger than an inline file can be; it is now {capacity}"));
    } else if changed {
        state.note(ino, "the marks of inline content did not fit the inode");
    }
    Ok(())
}

/// Size limit of the inode's index.
pub(crate) fn size_limit(raw: &RawInode, state: &State<'_>) -> u64 {
    state.layout(raw).max_blocks().saturating_mul(BLOCK_SIZE as u64)
}
