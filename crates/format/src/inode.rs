//! The inode block: fixed part, extra attributes, slots, inline areas.
use crate::node::RawNodeFooter;
use crate::{ADDRS_PER_BLOCK, BLOCK_SIZE, Block, BlockAddr, Corrupt, Features, Ino, Nid, Structure, crc};
use bitflags::bitflags;
use core::ops::Range;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the word area (extra attributes, slots, inline xattrs).
pub const BODY_OFFSET: usize = 360;
/// Words in that area.
pub const BODY_WORDS: u32 = 923;
/// Bytes of extra attributes that the kernel gives every new inode.
pub const EXTRA_ISIZE_MAX: u16 = 36;
/// End of `i_projid` in the extra attributes.
pub const PROJID_END: u16 = 8;
/// Words of inline xattrs unless the volume has flexible sizes.
pub const INLINE_XATTR_WORDS: u32 = 50;

bitflags! {
    /// `i_inline`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Inline: u8 {
        /// Extended attributes are at the end of the inode's body.
        const XATTR = 0x01;
        /// Data may be in the inode's body.
        const DATA = 0x02;
        /// Directory entries are in the inode's body.
        const DENTRY = 0x04;
        /// The inline data are not all zeros.
        const DATA_EXIST = 0x08;
        /// `.` and `..` are missing and must be added, in directories that tools made.
        const DOTS = 0x10;
        /// The inode has extra attributes.
        const EXTRA_ATTR = 0x20;
        /// Cleaning must not move the file.
        const PIN_FILE = 0x40;
        /// The space that compression saves was given back, so the file cannot be written.
        const COMPRESS_RELEASED = 0x80;
    }

    /// `i_advise`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Advise: u8 {
        /// The data is seldom rewritten.
        const COLD = 0x01;
        /// `i_pino` may not name a parent.
        const LOST_PINO = 0x02;
        /// Content, and names in it, are encrypted.
        const ENCRYPT = 0x04;
        /// The name of the inode is encrypted.
        const ENC_NAME = 0x08;
        /// Blocks may be reserved after the end of the file.
        const KEEP_SIZE = 0x10;
        /// The data is often rewritten.
        const HOT = 0x20;
        /// The content is protected by a verity tree.
        const VERITY = 0x40;
        /// A truncation of the file has to be finished.
        const TRUNC = 0x80;
    }

    /// `i_flags`, the values of the FS_IOC_GETFLAGS ioctl.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct InodeFlags: u32 {
        /// Compressed; files created in the directory are.
        const COMPR = 0x4;
        /// Writes are synchronous.
        const SYNC = 0x8;
        /// Nothing can be changed.
        const IMMUTABLE = 0x10;
        /// Writes can only append.
        const APPEND = 0x20;
        /// Left out by dump(8).
        const NODUMP = 0x40;
        /// The time of access is not changed.
        const NOATIME = 0x80;
        /// Not to be compressed.
        const NOCOMP = 0x400;
        /// A directory with hashed names.
        const INDEX = 0x1000;
        /// Changes of the directory are synchronous.
        const DIRSYNC = 0x1_0000;
        /// New files in the directory get its project.
        const PROJINHERIT = 0x2000_0000;
        /// Names of the directory ignore case.
        const CASEFOLD = 0x4000_0000;
        /// The file maps the blocks of a device.
        const DEVICE_ALIAS = 0x8000_0000;
        const _ = !0;
    }
}

/// `struct f2fs_extent`: the largest extent, a shortcut for reads. Empty when `len` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtent {
    /// First file block.
    pub fofs: U32,
    /// First block on the volume.
    pub blk: U32,
    /// Blocks.
    pub len: U32,
}

/// `struct f2fs_inode` with its footer.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawInode {
    /// Type and permission bits.
    pub i_mode: U16,
    /// See [`Advise`].
    pub i_advise: u8,
    /// See [`Inline`].
    pub i_inline: u8,
    /// User that owns it.
    pub i_uid: U32,
    /// Group that owns it.
    pub i_gid: U32,
    /// Number of names.
    pub i_links: U32,

    /// Bytes.
    pub i_size: U64,
    /// Blocks in use: data, nodes, and the inode itself.
    pub i_blocks: U64,

    /// Seconds of the last access.
    pub i_atime: U64,
    /// Seconds of the last change of content or attributes.
    pub i_ctime: U64,

    /// Seconds of the last change of content.
    pub i_mtime: U64,
    /// Nanoseconds within `i_atime`.
    pub i_atime_nsec: U32,
    /// Nanoseconds within `i_ctime`.
    pub i_ctime_nsec: U32,

    /// Nanoseconds within `i_mtime`.
    pub i_mtime_nsec: U32,
    /// Tells apart inodes that had the same number, for NFS.
    pub i_generation: U32,
    /// Of a directory the levels of its hash table; of a pinned file the failures to clean it.
    pub i_current_depth: U32,
    /// Node with the extended attributes that do not fit into the inode; 0 without one.
    pub i_xattr_nid: U32,

    /// See [`InodeFlags`].
    pub i_flags: U32,
    /// Directory of the name in `i_name`.
    pub i_pino: U32,
    /// Bytes of `i_name`.
    pub i_namelen: U32,
    /// A name of the inode, by which recovery finds its place in `i_pino`.
    pub i_name: [u8; 255],
    /// Buckets of a directory's first level, as a power of two.
    pub i_dir_level: u8,
    /// The largest extent, a hint for readers.
    pub i_ext: RawExtent,
    /// Extra attributes, then block addresses or inline data, then inline extended attributes.
    pub body: [u8; BODY_WORDS as usize * 4],
    /// Two direct, two indirect and one double indirect node.
    pub i_nid: [U32; 5],
    /// The footer, as in every node block.
    pub footer: RawNodeFooter,
}
const _: () = assert!(size_of::<RawInode>() == BLOCK_SIZE);
const _: () = assert!(core::mem::offset_of!(RawInode, body) == BODY_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawInode, i_nid) == 4052);

/// The extra attribute area in full; fields past `i_extra_isize` or without their feature do not exist.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtraAttr {
    /// Bytes of the extra attributes.
    pub i_extra_isize: U16,
    /// Words at the end of the body that hold extended attributes.
    pub i_inline_xattr_size: U16,
    /// Project that the space is accounted to.
    pub i_projid: U32,
    /// Checksum of the inode, on volumes with that feature.
    pub i_inode_checksum: U32,
    /// Seconds of the creation.
    pub i_crtime: U64,
    /// Nanoseconds within `i_crtime`.
    pub i_crtime_nsec: U32,
    /// Blocks saved by compression.
    pub i_compr_blocks: U64,
    /// LZO 0, LZ4 1, ZSTD 2, LZO-RLE 3.
    pub i_compress_algorithm: u8,
    /// Blocks of a cluster, as a power of two.
    pub i_log_cluster_size: u8,
    /// Bit 0: clusters carry a checksum; the upper byte is the level.
    pub i_compress_flag: U16,
}
const _: () = assert!(size_of::<RawExtraAttr>() == 36);

/// How the word area of one inode is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeLayout {
    /// Words of extra attributes.
    pub extra_words: u32,
    /// Words of inline xattrs.
    pub xattr_words: u32,
    /// Slots in the inode ("A").
    pub slots: u32,
    /// Slots used in a direct node ("P").
    pub per_node: u32,
}

impl InodeLayout {
    /// Byte offset of slot 0 in the block.
    #[must_use]
    pub fn base(&self) -> usize {
        BODY_OFFSET + self.extra_words as usize * 4
    }
    /// Byte offset of slot `i`.
    #[must_use]
    pub fn slot_offset(&self, i: u32) -> usize {
        self.base() + i as usize * 4
    }
    /// Bytes of inline data or an inline directory.
    #[must_use]
    pub fn inline_capacity(&self) -> usize {
        BODY_WORDS.saturating_sub(self.extra_words + self.xattr_words + 1) as usize * 4
    }
    /// Where they are in the block.
    #[must_use]
    pub fn inline_range(&self) -> Range<usize> {
        let start = self.base() + 4;
        start..start + self.inline_capacity()
    }
    /// They themselves. [`RawInode::layout`] gives no layout that exceeds the block.
    #[must_use]
    pub fn inline<'a>(&self, block: &'a Block) -> &'a [u8] {
        block.0.get(self.inline_range()).unwrap_or_default()
    }
    /// They themselves, to be changed.
    pub fn inline_mut<'a>(&self, block: &'a mut Block) -> &'a mut [u8] {
        block.0.get_mut(self.inline_range()).unwrap_or_default()
    }
    /// Where inline xattrs are in the block.
    #[must_use]
    pub fn xattr_range(&self) -> Range<usize> {
        let end = BODY_OFFSET + BODY_WORDS as usize * 4;
        end - self.xattr_words as usize * 4..end
    }
    /// Blocks that the index tree can reach.
    #[must_use]
    pub fn max_blocks(&self) -> u64 {
        crate::node::max_blocks(self.slots, self.per_node)
    }
}

/// Largest file the kernel admits: it does not count the slots in the inode.
#[must_use]
pub fn max_file_size(per_node: u32) -> u64 {
    crate::node::max_blocks(0, per_node) * BLOCK_SIZE as u64
}

impl RawInode {
    /// `i_inline`.
    #[must_use]
    pub fn inline(&self) -> Inline {
        Inline::from_bits_retain(self.i_inline)
    }
    /// `i_advise`.
    #[must_use]
    pub fn advise(&self) -> Advise {
        Advise::from_bits_retain(self.i_advise)
    }
    /// `i_flags`.
    #[must_use]
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.i_flags.get())
    }
    /// Whether it is a directory, by its mode.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.i_mode.get() & 0o170_000 == 0o040_000
    }
    /// Whether it is a regular file, by its mode.
    #[must_use]
    pub fn is_reg(&self) -> bool {
        self.i_mode.get() & 0o170_000 == 0o100_000
    }
    /// Whether it is a symbolic link, by its mode.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.i_mode.get() & 0o170_000 == 0o120_000
    }
    /// Whether it has an index of blocks: neither inline content nor a device number.
    #[must_use]
    pub fn has_index(&self) -> bool {
        (self.is_reg() || self.is_dir() || self.is_symlink())
            && !self.inline().intersects(Inline::DATA | Inline::DENTRY)
    }
    /// The name stored for recovery.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.i_name.get(..self.i_namelen.get() as usize).unwrap_or_default()
    }
    /// Stores parent and name for recovery; a longer name is cut (callers have checked it).
    pub fn set_name(&mut self, parent: Ino, name: &[u8]) {
        let n = name.len().min(self.i_name.len());
        self.i_name = [0; 255];
        if let (Some(dst), Some(src)) = (self.i_name.get_mut(..n), name.get(..n)) {
            dst.copy_from_slice(src);
        }
        self.i_namelen = U32::new(n as u32);
        self.i_pino = U32::new(parent.0);
    }
    /// The extra attribute area, whether or not it exists: check with [`RawInode::has_extra`].
    #[must_use]
    pub fn extra(&self) -> RawExtraAttr {
        RawExtraAttr::read_from_prefix(&self.body)
            .map_or_else(|_| zerocopy::FromZeros::new_zeroed(), |(e, _)| e)
    }
    /// Stores the extra attribute area.
    pub fn set_extra(&mut self, e: &RawExtraAttr) {
        let n = usize::from(e.i_extra_isize.get()).min(size_of::<RawExtraAttr>());
        if let (Some(dst), Some(src)) = (self.body.get_mut(..n), e.as_bytes().get(..n)) {
            dst.copy_from_slice(src);
        }
    }
    /// Whether a field that ends at byte `end` of the extra area exists.
    #[must_use]
    pub fn has_extra(&self, end: u16) -> bool {
        self.inline().contains(Inline::EXTRA_ATTR) && self.extra().i_extra_isize.get() >= end
    }
    /// Changes extra attributes.
    pub fn edit_extra(&mut self, f: impl FnOnce(&mut RawExtraAttr)) {
        let mut extra = self.extra();
        f(&mut extra);
        self.set_extra(&extra);
    }
    /// The project, 0 where the inode has no such field.
    #[must_use]
    pub fn projid(&self) -> u32 {
        if self.has_extra(PROJID_END) { self.extra().i_projid.get() } else { 0 }
    }
    /// Sets or clears bits of `i_inline`.
    pub fn set_inline(&mut self, which: Inline, on: bool) {
        let mut inline = self.inline();
        inline.set(which, on);
        self.i_inline = inline.bits();
    }
    /// Nodes hanging from the inode.
    #[must_use]
    pub fn nid(&self, i: u32) -> Nid {
        self.i_nid.get(i as usize).map_or(Nid::NONE, |n| Nid(n.get()))
    }
    /// Stores one of them.
    pub fn set_nid(&mut self, i: u32, nid: Nid) {
        if let Some(n) = self.i_nid.get_mut(i as usize) {
            *n = U32::new(nid.0);
        }
    }
    /// Slot `i`.
    #[must_use]
    pub fn slot(&self, layout: &InodeLayout, i: u32) -> BlockAddr {
        if i >= layout.slots {
            return BlockAddr::NULL;
        }
        let off = (layout.extra_words + i) as usize * 4;
        self.body
            .get(off..)
            .and_then(|s| s.first_chunk::<4>())
            .map_or(BlockAddr::NULL, |b| BlockAddr(u32::from_le_bytes(*b)))
    }
    /// Stores slot `i`.
    pub fn set_slot(&mut self, layout: &InodeLayout, i: u32, a: BlockAddr) {
        let off = (layout.extra_words + i) as usize * 4;
        if i < layout.slots
            && let Some(b) = self.body.get_mut(off..).and_then(|s| s.first_chunk_mut::<4>())
        {
            *b = a.0.to_le_bytes();
        }
    }
    /// Whether the file's data may be stored compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.is_reg() && self.flags().contains(InodeFlags::COMPR) && self.has_extra(36)
    }

    /// Divides the word area, checking the sizes it depends on.
    pub fn layout(&self, features: Features) -> Result<InodeLayout, Corrupt> {
        let ino = self.footer.ino.get();
        let bad = |why, found: u32, expected: u32| {
            Err(Corrupt::nid(Structure::Inode, ino, why, found.into(), expected.into()))
        };
        let flexible = features.contains(Features::FLEXIBLE_INLINE_XATTR);
        let extra = self.extra();
        let mut extra_words = 0;
        if self.inline().contains(Inline::EXTRA_ATTR) {
            let n = extra.i_extra_isize.get();
            if !features.contains(Features::EXTRA_ATTR) {
                return bad("extra attributes without the extra_attr feature", 1, 0);
            }
            if !n.is_multiple_of(4) || !(4..=EXTRA_ISIZE_MAX).contains(&n) {
                return bad("i_extra_isize", n.into(), EXTRA_ISIZE_MAX.into());
            }
            extra_words = u32::from(n) / 4;
        } else if flexible {
            return bad("extra attributes are missing though the volume has flexible_inline_xattr", 0, 1);
        }
        let xattr_words = if flexible {
            let n = u32::from(extra.i_inline_xattr_size.get());
            let min = if self.inline().contains(Inline::XATTR) { 6 } else { 0 };
            let max = BODY_WORDS - u32::from(EXTRA_ISIZE_MAX) / 4 - 11;
            if n > max || n < min {
                return bad("i_inline_xattr_size", n, max);
            }
            n
        } else if self.inline().intersects(Inline::XATTR | Inline::DENTRY) {
            INLINE_XATTR_WORDS
        } else {
            0
        };
        let mut layout = InodeLayout {
            extra_words,
            xattr_words,
            slots: BODY_WORDS - extra_words - xattr_words,
            per_node: ADDRS_PER_BLOCK,
        };
        if self.is_compressed() {
            let log = extra.i_log_cluster_size;
            if !(2..=8).contains(&log) {
                return bad("i_log_cluster_size", log.into(), 8);
            }
            layout.slots = layout.slots >> log << log;
            layout.per_node = ADDRS_PER_BLOCK >> log << log;
        }
        Ok(layout)
    }
}

/// Whether the inode carries a checksum on this volume.
fn has_checksum(inode: &RawInode, features: Features) -> bool {
    features.contains(Features::INODE_CHKSUM) && inode.has_extra(12)
}

fn checksum(block: &Block, seed: u32) -> u32 {
    const AT: usize = BODY_OFFSET + 8;
    let inode = block.view::<RawInode>();
    let c = crc(seed, inode.footer.ino.as_bytes());
    let c = crc(c, inode.i_generation.as_bytes());
    let c = crc(c, block.0.get(..AT).unwrap_or_default());
    let c = crc(c, &[0; 4]);
    crc(c, block.0.get(AT + 4..).unwrap_or_default())
}

/// Checks the inode checksum, if there is one; `seed` is [`crate::superblock::Superblock::inode_checksum_seed`].
pub fn verify_checksum(block: &Block, features: Features, seed: u32) -> Result<(), Corrupt> {
    let inode = block.view::<RawInode>();
    if !has_checksum(inode, features) {
        return Ok(());
    }
    let (stored, computed) = (inode.extra().i_inode_checksum.get(), checksum(block, seed));
    if stored == computed {
        return Ok(());
    }
    let ino = inode.footer.ino.get();
    Err(Corrupt::nid(Structure::Inode, ino, "inode checksum", stored.into(), computed.into()))
}

/// Stores the inode checksum, if there is one. The very last step before the block is written.
pub fn seal_checksum(block: &mut Block, features: Features, seed: u32) {
    if has_checksum(block.view::<RawInode>(), features) {
        let c = checksum(block, seed);
        block.set_u32_at(BODY_OFFSET + 8, c);
    }
}
