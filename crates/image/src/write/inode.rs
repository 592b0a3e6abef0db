//! The inode block.
use super::body::Body;
use super::dirs;
use super::plan::Plan;
use super::xattr;
use crate::tree::{Index, Inode, Kind, ROOT};
use crate::{Error, Result};
use segno_engine::{Time, temperature};
use segno_format::dentry::DentryShape;
use segno_format::inode::{
    EXTRA_ISIZE_MAX, INLINE_XATTR_WORDS, Inline, InodeFlags, InodeLayout, RawExtent, RawExtraAttr, RawInode,
};
use segno_format::{BLOCK_SIZE, Block, Features, rdev};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

/// An inode block without addresses, and how it is divided.
pub(crate) struct Draft {
    pub(crate) block: Block,
    pub(crate) layout: InodeLayout,
    /// Attributes for the xattr node.
    pub(crate) xattr_node: Vec<u8>,
}

impl Plan<'_> {
    /// How an inode is divided that has its content or its entries within.
    fn inline_layout(&self, index: Index) -> Result<InodeLayout> {
        let inode = self.tree.get(index)?;
        let mut block = Block::zeroed();
        let mut inline = self.inline_flags(inode);
        inline.set(Inline::DENTRY, inode.kind.is_dir());
        self.divide(&mut block, inode, inline, None)
    }

    pub(crate) fn dentry_shape(&self, index: Index) -> Result<DentryShape> {
        Ok(DentryShape::inline(&self.inline_layout(index)?))
    }

    pub(crate) fn inline_capacity(&self, index: Index) -> Result<usize> {
        Ok(self.inline_layout(index)?.inline_capacity())
    }

    fn inline_flags(&self, inode: &Inode) -> Inline {
        let mut flags = Inline::empty();
        flags.set(Inline::EXTRA_ATTR, self.features.contains(Features::EXTRA_ATTR));
        // On a writable volume, inodes have room for later attributes, as if the kernel had created the file.
        flags.set(Inline::XATTR, !self.read_only() || !inode.xattrs.is_empty());
        flags
    }

    /// Stores all that the division of an inode depends on, and returns it.
    fn divide(
        &self,
        block: &mut Block,
        inode: &Inode,
        inline: Inline,
        body: Option<&Body>,
    ) -> Result<InodeLayout> {
        let raw: &mut RawInode = block.view_mut();
        raw.i_mode = U16::new(inode.kind.format() | inode.mode);
        raw.i_inline = inline.bits();
        let mut flags = inode.flags;
        if inode.kind.is_dir() {
            flags |= InodeFlags::INDEX;
        }
        let compression = body.and_then(|b| b.compression);
        flags.set(InodeFlags::COMPR, compression.is_some());
        raw.i_flags = U32::new(flags.bits());
        if self.features.contains(Features::EXTRA_ATTR) {
            let mut extra = RawExtraAttr::new_zeroed();
            extra.i_extra_isize = U16::new(EXTRA_ISIZE_MAX);
            let has = |f| self.features.contains(f);
            if has(Features::FLEXIBLE_INLINE_XATTR) && inline.intersects(Inline::XATTR | Inline::DENTRY) {
                extra.i_inline_xattr_size = U16::new(INLINE_XATTR_WORDS as u16);
            }
            if has(Features::PRJQUOTA) {
                extra.i_projid = U32::new(inode.projid);
            }
            if has(Features::INODE_CRTIME) {
                extra.i_crtime = U64::new(inode.time.secs.cast_unsigned());
                extra.i_crtime_nsec = U32::new(inode.time.nsec);
            }
            if let (Some(compression), Some(body)) = (compression, body) {
                extra.i_compress_algorithm = compression.algorithm.to_disk();
                extra.i_log_cluster_size = compression.log_blocks;
                extra.i_compress_flag = U16::new(u16::from(stored_level(compression.algorithm)) << 8);
                let saved = if self.released { 0 } else { body.runs.saved(1 << compression.log_blocks) };
                extra.i_compr_blocks = U64::new(saved);
            }
            raw.set_extra(&extra);
        }
        raw.layout(self.features).map_err(|_| Error::Invariant("a new inode is divided in a legal way"))
    }

    /// The parts of the inode block that do not depend on addresses. Inline content is read now.
    pub(crate) fn draft(&self, index: Index, body: &Body, main: u32) -> Result<Draft> {
        let inode = self.tree.get(index)?;
        let mut block = Block::zeroed();
        let mut inline = self.inline_flags(inode);
        let in_inode = self.is_inline(index, body)?;
        match &inode.kind {
            Kind::Directory(_) => inline.set(Inline::DENTRY, in_inode),
            Kind::File(content) => {
                inline.set(Inline::DATA, in_inode);
                inline.set(Inline::DATA_EXIST, in_inode && content.size > 0);
            }
            Kind::Symlink(_) => inline.set(Inline::DATA | Inline::DATA_EXIST, in_inode),
            Kind::Special { .. } => {}
        }
        inline.set(Inline::COMPRESS_RELEASED, self.released && body.compression.is_some());
        let layout = self.divide(&mut block, inode, inline, Some(body))?;
        let raw: &mut RawInode = block.view_mut();
        self.put_attributes(raw, inode, index);
        raw.i_size = U64::new(self.size(inode, body, &layout, in_inode));
        if inode.kind.is_dir() {
            raw.i_current_depth = U32::new(body.dir.1.max(1));
        }
        if let Some(run) = body.runs.largest().filter(|_| body.compression.is_none() && !inode.kind.is_dir())
        {
            let blk = U32::new(main + run.rel);
            raw.i_ext = RawExtent { fofs: U32::new(run.at), blk, len: U32::new(run.len) };
        }
        if in_inode {
            self.put_content(&mut block, &layout, index)?;
        }
        if let Kind::Special { numbers: (major, minor), .. } = &inode.kind {
            let (word0, word1) = rdev::encode(*major, *minor);
            block.set_u32_at(layout.slot_offset(0), word0);
            block.set_u32_at(layout.slot_offset(1), word1);
        }
        let path = || self.tree.host_path(index);
        let area = xattr::area(inode, &path)?;
        let range = if inline.contains(Inline::XATTR) { layout.xattr_range() } else { 0..0 };
        let Some((head, rest)) = xattr::split(&area, range.len()) else {
            return Err(Error::entry(
                path(),
                format!("its extended attributes take {} bytes, too many", area.len()),
            ));
        };
        if let Some(place) = block.0.get_mut(range).and_then(|r| r.get_mut(..head.len())) {
            place.copy_from_slice(head);
        }
        let xattr_node = rest.to_vec();
        Ok(Draft { block, layout, xattr_node })
    }

    /// Whether content, target or entries are in the inode.
    pub(crate) fn is_inline(&self, index: Index, body: &Body) -> Result<bool> {
        Ok(match &self.tree.get(index)?.kind {
            Kind::Directory(_) => body.dir == (0, 0),
            Kind::File(content) => content.size <= self.inline_capacity(index)? as u64,
            Kind::Symlink(target) => target.len() <= self.inline_capacity(index)?,
            Kind::Special { .. } => false,
        })
    }

    fn put_attributes(&self, raw: &mut RawInode, inode: &Inode, index: Index) {
        raw.i_uid = U32::new(inode.uid);
        raw.i_gid = U32::new(inode.gid);
        raw.i_links = U32::new(inode.links.max(1));
        let Time { secs, nsec } = inode.time;
        [raw.i_atime, raw.i_ctime, raw.i_mtime] = [U64::new(secs.cast_unsigned()); 3];
        [raw.i_atime_nsec, raw.i_ctime_nsec, raw.i_mtime_nsec] = [U32::new(nsec); 3];
        if index != ROOT {
            raw.set_name(self.numbers.inode(inode.parent), &inode.name);
        }
        if matches!(inode.kind, Kind::File(_)) {
            raw.i_advise = temperature(&self.superblock, &inode.name).bits();
        }
    }

    fn size(&self, inode: &Inode, body: &Body, layout: &InodeLayout, in_inode: bool) -> u64 {
        match &inode.kind {
            Kind::Directory(_) if in_inode => layout.inline_capacity() as u64,
            Kind::Directory(_) => u64::from(body.dir.0) * BLOCK_SIZE as u64,
            Kind::File(content) => content.size,
            Kind::Symlink(target) => target.len() as u64,
            Kind::Special { .. } => 0,
        }
    }

    fn put_content(&self, block: &mut Block, layout: &InodeLayout, index: Index) -> Result<()> {
        let area = block.0.get_mut(layout.inline_range()).unwrap_or_default();
        let inode = self.tree.get(index)?;
        match &inode.kind {
            Kind::Directory(_) => {
                let names = dirs::names(self.tree, index, &|i| self.numbers.inode(i))?;
                let (ino, parent) = (self.numbers.inode(index), self.numbers.inode(inode.parent));
                dirs::fill_inline(&DentryShape::inline(layout), area, &names, ino, parent)
            }
            Kind::File(content) => {
                let bytes = area.get_mut(..content.size as usize).unwrap_or_default();
                let reading = content.open()?;
                reading.read(bytes, 0)?;
                reading.finish()
            }
            Kind::Symlink(target) => {
                area.get_mut(..target.len()).unwrap_or_default().copy_from_slice(target);
                Ok(())
            }
            Kind::Special { .. } => Ok(()),
        }
    }
}

/// The level that later writes use. Kernels refuse levels that they cannot use, so LZ4 has none, whatever the
/// data was packed with.
fn stored_level(algorithm: segno_codec::Algorithm) -> u8 {
    u8::from(algorithm == segno_codec::Algorithm::Zstd)
}
