//! Creation of inodes.
use super::compress::flags_of_file;
use super::extension::temperature;
use super::inherit::{FromParent, inherit};
use crate::error::Result;
use crate::files::{Inode, Parameters, put_bytes};
use crate::names::Names;
use crate::names::xattr::Inherited;
use crate::times::{set_atime, touch};
use crate::transaction::{Op, unpack_rdev};
use crate::types::{Owner, Time};
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{
    Advise, EXTRA_ISIZE_MAX, INLINE_XATTR_WORDS, Inline, InodeFlags, RawExtraAttr, RawInode,
};
use segno_format::{BLOCK_SIZE, Block, Features, Ino, rdev};
use segno_journal::record::InodeNew;
use std::sync::Arc;
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

/// Initial content of a new inode.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    Empty,
    /// Major and minor.
    Device(u32, u32),
    Target(&'a [u8]),
    Directory,
}

/// Attributes and content of a new inode, determined before the gate.
pub(super) struct Plan<'a> {
    pub(super) parent: Ino,
    /// Empty for an inode without a name.
    pub(super) name: &'a [u8],
    pub(super) links: u32,
    content: Content<'a>,
    owner: Owner,
    from_parent: FromParent,
    inherited: Inherited,
    advise: Advise,
    inline: Inline,
    generation: u32,
    now: Time,
}

impl Plan<'_> {
    pub(super) fn kind(&self) -> FileType {
        FileType::of_mode(self.inherited.mode)
    }
}

impl Names {
    /// Plans a new inode in a directory. The caller holds the directory's lock.
    pub(super) fn plan_inode<'a>(
        &self,
        dir: &Inode,
        name: &'a [u8],
        mode: u16,
        content: Content<'a>,
        owner: Owner,
    ) -> Result<Plan<'a>> {
        let inherited = self.xattrs.inherit(dir, mode, owner.umask)?;
        let regular = FileType::of_mode(mode) == FileType::Regular;
        let advise = if regular && self.base.opts.ext_identify {
            temperature(&self.base.sb.raw, name)
        } else {
            Advise::empty()
        };
        let mut from_parent = dir.get(|i| inherit(i, mode));
        if !self.base.features.contains(Features::COMPRESSION | Features::EXTRA_ATTR) {
            from_parent.flags -= InodeFlags::COMPR | InodeFlags::NOCOMP;
        } else if regular {
            let own = flags_of_file(&self.base.opts.compression, &self.base.sb.raw, name, from_parent.flags);
            from_parent.flags = (from_parent.flags - InodeFlags::COMPR - InodeFlags::NOCOMP) | own;
        }
        if !self.base.features.contains(Features::CASEFOLD) {
            from_parent.flags -= InodeFlags::CASEFOLD;
        }
        let links = if matches!(content, Content::Directory) { 2 } else { 1 };
        let now = self.base.now();
        let mut inline = self.inline_flags(FileType::of_mode(inherited.mode));
        inline.set(
            Inline::DATA,
            inline.contains(Inline::DATA) && !(regular && from_parent.flags.contains(InodeFlags::COMPR)),
        );
        let generation = scramble(self.base.next_serial());
        let parent = dir.ino;
        Ok(Plan {
            parent,
            name,
            links,
            content,
            owner,
            from_parent,
            inherited,
            advise,
            inline,
            generation,
            now,
        })
    }

    /// Creates the inode without a name; leaves nothing on failure.
    pub(super) fn make_inode(&self, op: &Op<'_>, plan: &Plan<'_>) -> Result<Arc<Inode>> {
        let ino = self.nodes.new_nid(None)?.as_ino();
        self.make_numbered(op, plan, ino)
    }

    /// Creates the inode under a number that is already allocated and counted.
    fn make_numbered(&self, op: &Op<'_>, plan: &Plan<'_>, ino: Ino) -> Result<Arc<Inode>> {
        let cold = !matches!(plan.content, Content::Directory);
        let frame = self.nodes.cache.create(op, ino.nid(), ino, 0, cold);
        self.nodes.cache.modify(op, &frame, |block| self.fill_inode(block, plan, ino));
        op.inode_made(&frame.read(), ino, self.base.features);
        if plan.from_parent.flags.contains(InodeFlags::COMPR) {
            self.note_compression(op, ino, Some(frame.inode(Parameters::of)));
        }
        let inode = self.files.inodes.insert(frame);
        self.or_discard(op, &inode, self.fill_blocks(op, plan, &inode)).map(|()| inode)
    }

    /// Creates an inode from a journal record; its number is already allocated.
    pub fn make_logged(&self, op: &Op<'_>, ino: Ino, new: &InodeNew) -> Result<Arc<Inode>> {
        let kind = FileType::of_mode(new.mode);
        let content = match kind {
            FileType::Directory => Content::Directory,
            FileType::CharDevice | FileType::BlockDevice => {
                let (major, minor) = unpack_rdev(new.rdev);
                Content::Device(major, minor)
            }
            _ => Content::Empty,
        };
        let links = match (new.tmpfile, kind) {
            (true, _) => 0,
            (false, FileType::Directory) => 2,
            _ => 1,
        };
        let flags = InodeFlags::from_bits_retain(new.flags);
        let (gid, projid) = (Some(new.gid), new.projid);
        self.nodes.space.counts.reserve_node(true)?;
        let plan = Plan {
            parent: new.pino,
            name: b"",
            links,
            content,
            owner: Owner { uid: new.uid, gid: new.gid, umask: 0 },
            from_parent: FromParent { flags, projid, gid, mode: 0 },
            inherited: Inherited { mode: new.mode, attrs: Vec::new() },
            advise: Advise::from_bits_retain(new.advise),
            inline: Inline::from_bits_retain(new.inline),
            generation: new.generation,
            now: new.time,
        };
        self.make_numbered(op, &plan, ino)
    }

    /// Fills the inode's block.
    fn fill_inode(&self, block: &mut Block, plan: &Plan<'_>, ino: Ino) {
        let from = &plan.from_parent;
        let i: &mut RawInode = block.view_mut();
        i.i_mode = U16::new(plan.inherited.mode | from.mode);
        i.i_advise = plan.advise.bits();
        i.i_inline = plan.inline.bits();
        i.i_uid = U32::new(plan.owner.uid);
        i.i_gid = U32::new(from.gid.unwrap_or(plan.owner.gid));
        i.i_links = U32::new(plan.links);
        i.i_blocks = U64::new(1);
        i.i_flags = U32::new(from.flags.bits());
        i.i_generation = U32::new(plan.generation);
        touch(i, plan.now);
        set_atime(i, plan.now);
        i.set_name(plan.parent, plan.name);
        if self.base.features.contains(Features::EXTRA_ATTR) {
            i.set_extra(&self.extra_attrs(plan));
        }
        if from.flags.contains(InodeFlags::COMPR) {
            // For an inode from the journal a record with its parameters follows.
            Parameters::of_mount(&self.base.opts.compression).store(i);
        }
        match plan.content {
            Content::Empty => {}
            Content::Device(major, minor) => store_device(block, self.base.features, major, minor),
            Content::Target(target) => store_target(block, self.base.features, target),
            Content::Directory => store_dots(block, self.base.features, ino, plan.parent),
        }
    }

    fn inline_flags(&self, kind: FileType) -> Inline {
        let mut flags = Inline::empty();
        flags.set(Inline::EXTRA_ATTR, self.base.features.contains(Features::EXTRA_ATTR));
        flags.set(Inline::XATTR, self.base.opts.inline_xattr);
        flags.set(Inline::DENTRY, self.base.opts.inline_dentry && kind == FileType::Directory);
        let may_hold = matches!(kind, FileType::Regular | FileType::Symlink);
        flags.set(Inline::DATA, self.base.opts.inline_data && may_hold);
        flags
    }

    fn extra_attrs(&self, plan: &Plan<'_>) -> RawExtraAttr {
        let has = |f| self.base.features.contains(f);
        let mut extra = RawExtraAttr::new_zeroed();
        extra.i_extra_isize = U16::new(EXTRA_ISIZE_MAX);
        if has(Features::FLEXIBLE_INLINE_XATTR) && plan.inline.contains(Inline::XATTR) {
            extra.i_inline_xattr_size = U16::new(INLINE_XATTR_WORDS as u16);
        }
        if has(Features::PRJQUOTA) {
            extra.i_projid = U32::new(plan.from_parent.projid);
        }
        if has(Features::INODE_CRTIME) {
            extra.i_crtime = U64::new(plan.now.secs.cast_unsigned());
            extra.i_crtime_nsec = U32::new(plan.now.nsec);
        }
        extra
    }

    /// Writes what does not fit in the inode's block: attributes, first dentry block, long target.
    fn fill_blocks(&self, op: &Op<'_>, plan: &Plan<'_>, inode: &Arc<Inode>) -> Result<()> {
        if !plan.inherited.attrs.is_empty() {
            self.xattrs.store(op, inode, &plan.inherited.attrs)?;
        }
        let inline = inode.get(|i| i.inline());
        match plan.content {
            Content::Directory if !inline.contains(Inline::DENTRY) => {
                self.files.modify_block(op, inode, 0, |block| {
                    DentryShape::BLOCK.insert_dots(&mut block.0, inode.ino, plan.parent);
                })
            }
            Content::Target(target) if !inline.contains(Inline::DATA) => {
                self.files.modify_block(op, inode, 0, |block| put_bytes(&mut block.0, 0, target))
            }
            _ => Ok(()),
        }
    }
}

/// Maps serial numbers to all values, because generations should be hard to guess.
fn scramble(serial: u64) -> u32 {
    let mut z = serial.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ z >> 31) as u32
}

/// In a fresh inode the fields exist. One whose journal record has flags without a layout is refused when it is used.
fn store_device(block: &mut Block, features: Features, major: u32, minor: u32) {
    let Ok(layout) = block.view::<RawInode>().layout(features) else { return };
    let (word0, word1) = rdev::encode(major, minor);
    block.set_u32_at(layout.slot_offset(0), word0);
    block.set_u32_at(layout.slot_offset(1), word1);
}

/// Stores a short target inline; a longer one goes to a block later.
fn store_target(block: &mut Block, features: Features, target: &[u8]) {
    let i: &mut RawInode = block.view_mut();
    i.i_size = U64::new(target.len() as u64);
    let Ok(layout) = i.layout(features) else { return };
    let fits = i.inline().contains(Inline::DATA) && target.len() <= layout.inline_capacity();
    i.set_inline(Inline::DATA, fits);
    i.set_inline(Inline::DATA_EXIST, fits);
    if fits {
        put_bytes(layout.inline_mut(block), 0, target);
    }
}

fn store_dots(block: &mut Block, features: Features, ino: Ino, parent: Ino) {
    let i: &mut RawInode = block.view_mut();
    i.i_current_depth = U32::new(1);
    i.i_size = U64::new(BLOCK_SIZE as u64);
    let Ok(layout) = i.layout(features) else { return };
    if i.inline().contains(Inline::DENTRY) {
        i.i_size = U64::new(layout.inline_capacity() as u64);
        DentryShape::inline(&layout).insert_dots(layout.inline_mut(block), ino, parent);
    }
}
