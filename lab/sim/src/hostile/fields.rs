//! The fields of each structure: their places, and the kind of their values.
use super::decode::Layout;
use super::edit::Place;
use super::ring;
use segno_device::BlockDevice;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::dentry::DentryShape;
use segno_format::inode::{Inline, RawExtraAttr, RawInode};
use segno_format::node::{FOOTER_OFFSET, NodeKind, RawNode, RawNodeFooter, kind_of_offset};
use segno_format::orphan::RawOrphanBlock;
use segno_format::superblock::RawSuperblock;
use segno_format::xattr::HEADER_BYTES;
use std::mem::offset_of;

/// The kind of a field's value, which decides which values are worth storing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count, size, position or set of flags.
    Number,
    /// A block address.
    Addr,
    /// A node id.
    Nid,
}

/// A field of a structure of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub place: Place,
    pub offset: u16,
    pub len: u8,
    pub kind: Kind,
}

type Spec = (usize, u8, Kind);
use Kind::{Addr, Nid, Number};

macro_rules! spec {
    ($t:ty: $($($name:ident).+ $len:literal $kind:ident),* $(,)?) => { &[$((offset_of!($t, $($name).+), $len, $kind)),*] };
}

const SUPER: &[Spec] = spec!(RawSuperblock: magic 4 Number, log_sectorsize 4 Number, log_sectors_per_block 4 Number,
    log_blocksize 4 Number, log_blocks_per_seg 4 Number, segs_per_sec 4 Number, secs_per_zone 4 Number,
    checksum_offset 4 Number, block_count 8 Number, section_count 4 Number, segment_count 4 Number,
    segment_count_ckpt 4 Number, segment_count_sit 4 Number, segment_count_nat 4 Number, segment_count_ssa 4 Number,
    segment_count_main 4 Number, segment0_blkaddr 4 Addr, cp_blkaddr 4 Addr, sit_blkaddr 4 Addr, nat_blkaddr 4 Addr,
    ssa_blkaddr 4 Addr, main_blkaddr 4 Addr, root_ino 4 Nid, node_ino 4 Nid, meta_ino 4 Nid, extension_count 4 Number,
    cp_payload 4 Number, feature 4 Number, encryption_level 1 Number, devs 8 Number, qf_ino 4 Nid, hot_ext_count 1 Number,
    s_encoding 2 Number, s_encoding_flags 2 Number, s_stop_reason 8 Number, s_errors 8 Number, crc 4 Number);
const CHECKPOINT: &[Spec] = spec!(RawCheckpoint: checkpoint_ver 8 Number, user_block_count 8 Number,
    valid_block_count 8 Number, rsvd_segment_count 4 Number, overprov_segment_count 4 Number,
    free_segment_count 4 Number, cur_node_segno 4 Number, cur_node_blkoff 2 Number, cur_data_segno 4 Number,
    cur_data_blkoff 2 Number, ckpt_flags 4 Number, cp_pack_total_block_count 4 Number, cp_pack_start_sum 4 Number,
    valid_node_count 4 Number, valid_inode_count 4 Number, next_free_nid 4 Nid, sit_ver_bitmap_bytesize 4 Number,
    nat_ver_bitmap_bytesize 4 Number, checksum_offset 4 Number, elapsed_time 8 Number, alloc_type 8 Number,
    tail 8 Number);
const INODE: &[Spec] = spec!(RawInode: i_mode 2 Number, i_advise 1 Number, i_inline 1 Number, i_uid 4 Number,
    i_links 4 Number, i_size 8 Number, i_blocks 8 Number, i_atime 8 Number, i_atime_nsec 4 Number,
    i_generation 4 Number, i_current_depth 4 Number, i_xattr_nid 4 Nid, i_flags 4 Number, i_pino 4 Nid,
    i_namelen 4 Number, i_name 8 Number, i_dir_level 1 Number, i_ext 4 Number);
const EXTRA: &[Spec] = spec!(RawExtraAttr: i_extra_isize 2 Number, i_inline_xattr_size 2 Number, i_projid 4 Number,
    i_inode_checksum 4 Number, i_compr_blocks 8 Number, i_compress_algorithm 1 Number, i_log_cluster_size 1 Number,
    i_compress_flag 2 Number);
const FOOTER: &[Spec] =
    spec!(RawNodeFooter: nid 4 Nid, ino 4 Nid, flag 4 Number, cp_ver 8 Number, next_blkaddr 4 Addr);
const ORPHANS: &[Spec] = spec!(RawOrphanBlock: ino 4 Nid, footer.blk_addr 2 Number, footer.blk_count 2 Number,
    footer.entry_count 4 Number);
const NAT: &[Spec] = &[(0, 1, Number), (1, 4, Nid), (5, 4, Addr)];
const SIT: &[Spec] = &[(0, 2, Number), (2, 8, Number), (34, 8, Number), (66, 8, Number)];
const SUMMARY: &[Spec] = &[
    (0, 4, Nid),
    (4, 1, Number),
    (5, 2, Number),
    (7, 4, Nid),
    (700, 4, Nid),
    (3584, 2, Number),
    (4091, 1, Number),
];
const NAT_JOURNAL: &[Spec] = &[(0, 2, Number), (2, 4, Nid), (6, 1, Number), (7, 4, Nid), (11, 4, Addr)];
const SIT_JOURNAL: &[Spec] = &[(0, 2, Number), (2, 4, Number), (6, 2, Number), (8, 8, Number)];
const XATTR: &[Spec] = &[
    (0, 4, Number),
    (HEADER_BYTES, 1, Number),
    (HEADER_BYTES + 1, 1, Number),
    (HEADER_BYTES + 2, 2, Number),
    (HEADER_BYTES + 8, 8, Number),
];
/// Where the inline attributes start in an inode of the default size.
const INLINE_XATTR: usize = 360 + (923 - 50) * 4;

/// Slots of a directory block that are offered for change, from its start.
const DENTRIES: u32 = 40;
const QUOTA_HEADER: &[Spec] =
    &[(0, 4, Number), (8, 4, Number), (20, 4, Number), (24, 4, Number), (28, 4, Number)];

fn add(out: &mut Vec<Field>, place: Place, base: usize, specs: &[Spec]) {
    let field = |&(offset, len, kind): &Spec| Field { place, offset: (base + offset) as u16, len, kind };
    out.extend(specs.iter().map(field));
}

/// All fields of a volume, by group.
pub fn groups(dev: &dyn BlockDevice, layout: &Layout) -> Result<Vec<Vec<Field>>, String> {
    let [mut sb, mut cp, mut nat, mut sit, mut summary, mut orphans] = [const { Vec::new() }; 6];
    let [mut inode, mut index, mut footer, mut dentry, mut xattr, mut quota] = [const { Vec::new() }; 6];
    let mut journal = Vec::new();
    for place in layout.places() {
        match place {
            Place::Super(_) => add(&mut sb, place, 0, SUPER),
            Place::Checkpoint | Place::CheckpointEnd(_) => add(&mut cp, place, 0, CHECKPOINT),
            Place::NatJournal => add(&mut nat, place, 0, NAT_JOURNAL),
            Place::SitJournal => add(&mut sit, place, 0, SIT_JOURNAL),
            Place::Nat(n) if n < 3 || layout.nids.contains(&n) => add(&mut nat, place, 0, NAT),
            Place::Nat(_) => {}
            Place::Sit(_) => add(&mut sit, place, 0, SIT),
            Place::Summary(_) => add(&mut summary, place, 0, SUMMARY),
            Place::Orphans(_) => add(&mut orphans, place, 0, ORPHANS),
            Place::Node(_) | Place::Chain(_) => {
                let (block, _) = layout.block(dev, place)?;
                add(&mut footer, place, FOOTER_OFFSET, FOOTER);
                match kind_of_offset(block.view::<RawNode>().footer.node_offset()) {
                    Some(NodeKind::Inode) => {
                        let raw = block.view::<RawInode>();
                        add(&mut inode, place, 0, INODE);
                        inode_body(layout, place, raw, [&mut inode, &mut index, &mut dentry, &mut xattr])?;
                    }
                    Some(NodeKind::Xattr) => add(&mut xattr, place, 0, XATTR),
                    Some(NodeKind::Indirect) => words(&mut index, place, 0, Nid),
                    _ => words(&mut index, place, 0, Addr),
                }
            }
            Place::Journal(block) => ring::fields(&mut journal, block),
            Place::Data(ino, _) if layout.dirs.contains(&ino) => {
                dentries(&mut dentry, place, 0, &DentryShape::BLOCK, 0)
            }
            Place::Data(ino, 0) if ino < 8 => add(&mut quota, place, 0, QUOTA_HEADER),
            Place::Data(ino, 1) if ino < 8 => words(&mut quota, place, 0, Number),
            Place::Data(..) => {}
        }
    }
    let all = [sb, cp, nat, sit, summary, orphans, inode, index, footer, dentry, xattr, quota, journal];
    Ok(all.into_iter().filter(|g| !g.is_empty()).collect())
}

/// The first words of a node or of a file's block.
fn words(out: &mut Vec<Field>, place: Place, base: usize, kind: Kind) {
    out.extend((0..6).map(|i| Field { place, offset: (base + 4 * i) as u16, len: 4, kind }));
}

fn inode_body(
    layout: &Layout,
    place: Place,
    raw: &RawInode,
    out: [&mut Vec<Field>; 4],
) -> Result<(), String> {
    let [inode, index, dentry, xattr] = out;
    let shape = layout.inode_layout(raw)?;
    if raw.inline().contains(Inline::EXTRA_ATTR) {
        add(inode, place, offset_of!(RawInode, body), EXTRA);
    }
    if raw.inline().contains(Inline::DENTRY) {
        let area = shape.inline_range();
        let inline = DentryShape::inline(&shape);
        dentries(dentry, place, area.start, &inline, area.len());
    } else {
        words(index, place, shape.slot_offset(0), Addr);
    }
    index.extend((0..5).map(|i| Field {
        place,
        offset: (offset_of!(RawInode, i_nid) + 4 * i) as u16,
        len: 4,
        kind: Nid,
    }));
    if raw.inline().contains(Inline::XATTR) {
        add(xattr, place, INLINE_XATTR, XATTR);
    }
    Ok(())
}

/// Bitmap, entries and names of a directory block (`len` 0), or of an inline area of `len` bytes.
fn dentries(out: &mut Vec<Field>, place: Place, base: usize, shape: &DentryShape, len: usize) {
    let slots = shape.slots as usize;
    let (entries, names) = if len == 0 { (30, 2384) } else { (len - 19 * slots, len - 8 * slots) };
    let field = |offset: usize, len, kind| Field { place, offset: (base + offset) as u16, len, kind };
    out.push(field(0, 1, Number));
    out.push(field(1, 8, Number));
    for i in 0..(DENTRIES.min(shape.slots) as usize) {
        let at = entries + 11 * i;
        out.extend([
            field(at, 4, Number),
            field(at + 4, 4, Nid),
            field(at + 8, 2, Number),
            field(at + 10, 1, Number),
        ]);
        out.push(field(names + 8 * i, 8, Number));
    }
}
