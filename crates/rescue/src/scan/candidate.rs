//! The record that is kept of a node block.
use segno_format::dentry::FileType;
use segno_format::inode::{BODY_WORDS, EXTRA_ISIZE_MAX, INLINE_XATTR_WORDS, Inline, RawInode};
use segno_format::node::{NodeKind, RawNode, kind_of_offset};
use segno_format::{Block, BlockAddr, NAME_MAX, Nid};

/// The largest node id plus one.
const NIDS: u32 = 1 << 31;

/// Version that mkfs stores in its nodes, whatever the version of its checkpoint.
pub(crate) const OF_MKFS: u64 = 1;

/// A node block that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is; in the source while scanning, on the volume afterwards.
    pub addr: u32,
    /// Its number.
    pub nid: u32,
    /// Inode that it belongs to.
    pub ino: u32,
    /// Place in the inode's tree, and marks, as in the footer.
    pub flag: u32,
    /// Version of the checkpoint that it follows.
    pub cp_ver: u64,
    /// Next block of its log.
    pub next: u32,
    /// Of an inode: seconds of the last change, low half.
    pub ctime: u32,
    /// Of an inode: distinguishes inodes with the same number.
    pub generation: u32,
    /// Position in a chain of blocks of one log and version; set when versions are ordered.
    pub rank: u32,
    /// Which chain that is.
    pub chain: u32,
}
const _: () = assert!(size_of::<Candidate>() == 48);

impl Candidate {
    /// The node block at a place of the source, if it can be one. `blocks` is the size of the source.
    pub(crate) fn of(block: &Block, at: u32, blocks: u32) -> Option<Self> {
        let node: &RawNode = block.view();
        let f = node.footer;
        let (nid, ino, offset) = (f.nid.get(), f.ino.get(), f.node_offset());
        let range = Nid::ROOT.0..NIDS;
        if !range.contains(&nid) || !range.contains(&ino) || (nid == ino) != (offset == 0) {
            return None;
        }
        let kind = kind_of_offset(offset)?;
        if f.next_blkaddr.get() >= blocks || f.cp_ver.get() as u32 == 0 {
            return None;
        }
        let plausible = match kind {
            NodeKind::Inode => is_inode(block.view(), blocks),
            NodeKind::Direct { .. } => most(node.words.iter().map(|w| is_slot(w.get(), blocks))),
            NodeKind::Indirect => most(node.words.iter().map(|w| w.get() < NIDS)),
            NodeKind::Xattr => true,
        };
        let inode: &RawInode = block.view();
        let (ctime, generation) = match kind {
            NodeKind::Inode => (inode.i_ctime.get() as u32, inode.i_generation.get()),
            _ => (0, 0),
        };
        plausible.then_some(Self {
            addr: at,
            nid,
            ino,
            flag: f.flag.get(),
            cp_ver: f.cp_ver.get(),
            next: f.next_blkaddr.get(),
            ctime,
            generation,
            rank: 0,
            chain: 0,
        })
    }

    /// Place in the inode's tree.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.flag >> 3
    }

    /// Whether it is an inode block.
    #[must_use]
    pub fn is_inode(&self) -> bool {
        self.nid == self.ino
    }

    /// Whether fsync wrote it.
    #[must_use]
    pub fn is_fsync(&self) -> bool {
        self.flag & 2 != 0
    }

    /// Whether it was written to a log, which links each block to the next. f2fs-tools (sload.f2fs,
    /// fsck.f2fs) store no link.
    #[must_use]
    pub fn in_log(&self) -> bool {
        self.next != 0
    }

    /// The address on the volume.
    #[must_use]
    pub fn place(&self) -> BlockAddr {
        BlockAddr(self.addr)
    }

    /// Where block 0 is if the next block of the log follows this one.
    pub(super) fn vote(&self) -> Option<i64> {
        self.in_log().then(|| i64::from(self.addr) + 1 - i64::from(self.next))
    }
}

fn is_slot(word: u32, blocks: u32) -> bool {
    word < blocks || !BlockAddr(word).is_real()
}

/// A damaged word must not hide a node, but seven of eight words in use have to make sense.
fn most(words: impl Iterator<Item = bool>) -> bool {
    let (mut all, mut good) = (0u32, 0u32);
    for ok in words {
        all += 1;
        good += u32::from(ok);
    }
    good >= all - all / 8
}

fn is_inode(inode: &RawInode, blocks: u32) -> bool {
    let kind = FileType::of_mode(inode.i_mode.get());
    if kind == FileType::Unknown || inode.i_namelen.get() as usize > NAME_MAX {
        return false;
    }
    let inline = inode.inline();
    if !inode.has_index() {
        return true;
    }
    let extra = if inline.contains(Inline::EXTRA_ATTR) { usize::from(EXTRA_ISIZE_MAX) } else { 0 };
    let xattr = INLINE_XATTR_WORDS.max(inode.extra().i_inline_xattr_size.get().into());
    let end = BODY_WORDS.saturating_sub(if extra > 0 { xattr } else { INLINE_XATTR_WORDS }) as usize * 4;
    let (words, _) = inode.body.get(extra..end).unwrap_or_default().as_chunks::<4>();
    most(words.iter().map(|w| is_slot(u32::from_le_bytes(*w), blocks)))
}
