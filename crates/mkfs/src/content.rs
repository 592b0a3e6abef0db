//! The first files: root, quota files, `lost+found`.
use crate::{Layout, MkfsOptions, quota};
use segno_format::dentry::{DentryShape, FileType, LOST_FOUND};
use segno_format::inode::{Inline, InodeFlags, RawExtraAttr, RawInode, seal_checksum};
use segno_format::node::RawNodeFooter;
use segno_format::quota::QuotaEntry;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Features, Ino, Nid, crc, name_hash};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

const MODE_ROOT: u16 = 0o040_755;
const MODE_LOST_FOUND: u16 = 0o040_700;
const MODE_QUOTA: u16 = 0o100_600;
/// Where inode numbers start that are free to choose.
const FIRST_INO: u32 = Ino::ROOT.0 + 1;
/// Checkpoint version of nodes written before the first checkpoint.
const CP_VER: u64 = 1;

/// All node and data blocks of a fresh volume, in the order of their addresses.
pub(crate) struct Content {
    /// The hot node log, which has only inodes: number and block.
    pub nodes: Vec<(Ino, Block)>,
    /// The hot data log: owner and block.
    pub data: Vec<(RawSummary, Block)>,
    /// User, group and project quota files.
    pub quota_inos: [Option<Ino>; 3],
}

/// The properties in which the inodes differ.
struct NewInode {
    mode: u16,
    links: u32,
    size: u64,
    flags: InodeFlags,
    depth: u32,
    name: &'static [u8],
}

struct Builder<'a> {
    features: Features,
    time: u64,
    checksum_seed: u32,
    /// Uid and gid of all files.
    owner: (u32, u32),
    layout: &'a Layout,
    content: Content,
}

impl Content {
    pub(crate) fn build(layout: &Layout, opts: &MkfsOptions, uuid: &[u8; 16], time: u64) -> Self {
        let quota_inos = quota_inos(opts.all_features());
        let lost_found = opts.has(Features::LOST_FOUND).then(|| {
            let quota_files = quota_inos.iter().flatten().count() as u32;
            Ino(FIRST_INO + quota_files)
        });
        let mut builder = Builder {
            features: opts.all_features(),
            time,
            checksum_seed: crc(u32::MAX, uuid),
            owner: opts.root_owner,
            layout,
            content: Self { nodes: Vec::new(), data: Vec::new(), quota_inos },
        };
        builder.add_root(lost_found);
        let dirs = 1 + u64::from(lost_found.is_some());
        let used = QuotaEntry { inodes: dirs, bytes: dirs * BLOCK_SIZE as u64, ..QuotaEntry::default() };
        builder.add_quota_files(used);
        if let Some(ino) = lost_found {
            builder.add_lost_found(ino);
        }
        builder.content
    }

    /// The nid after the last one in use.
    pub(crate) fn next_free_nid(&self) -> Nid {
        Nid(Nid::ROOT.0 + self.nodes.len() as u32)
    }
}

/// Inodes of the quota files of users, groups and projects, if the features require them. They follow the
/// root directory.
#[must_use]
pub fn quota_inos(features: Features) -> [Option<Ino>; 3] {
    if !features.contains(Features::QUOTA_INO) {
        return [None; 3];
    }
    let project = features.contains(Features::PRJQUOTA).then_some(Ino(FIRST_INO + 2));
    [Some(Ino(FIRST_INO)), Some(Ino(FIRST_INO + 1)), project]
}

impl Builder<'_> {
    fn add_root(&mut self, lost_found: Option<Ino>) {
        let mut dentries = dot_entries(Ino::ROOT, Ino::ROOT);
        if let Some(ino) = lost_found {
            DentryShape::BLOCK.insert(
                &mut dentries.0,
                2,
                name_hash(LOST_FOUND),
                ino,
                LOST_FOUND,
                FileType::Directory,
            );
        }
        let links = 2 + u32::from(lost_found.is_some());
        self.add(Ino::ROOT, &NewInode { links, ..directory(MODE_ROOT) }, &[dentries]);
    }

    fn add_lost_found(&mut self, ino: Ino) {
        let inode = NewInode { name: LOST_FOUND, ..directory(MODE_LOST_FOUND) };
        self.add(ino, &inode, &[dot_entries(ino, Ino::ROOT)]);
    }

    fn add_quota_files(&mut self, used: QuotaEntry) {
        // Project 0 owns everything that no project was given.
        let ids = [self.owner.0, self.owner.1, 0];
        for (kind, (ino, id)) in self.content.quota_inos.into_iter().zip(ids).enumerate() {
            let Some(ino) = ino else { continue };
            let bytes = quota::file(kind, id, used);
            let inode = NewInode {
                mode: MODE_QUOTA,
                links: 1,
                size: bytes.len() as u64,
                flags: InodeFlags::IMMUTABLE,
                depth: 0,
                name: b"",
            };
            let blocks = bytes.chunks(BLOCK_SIZE).map(|part| {
                let mut block = Block::zeroed();
                block.0.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
                block
            });
            self.add(ino, &inode, &blocks.collect::<Vec<_>>());
        }
    }

    /// Appends an inode to the hot node log and its blocks to the hot data log.
    fn add(&mut self, ino: Ino, new: &NewInode, blocks: &[Block]) {
        let at = self.layout.curseg_start(LogType::HotNode).offset(self.content.nodes.len() as u32);
        let first = self.layout.curseg_start(LogType::HotData).offset(self.content.data.len() as u32);
        let addrs: Vec<BlockAddr> = (0..blocks.len() as u32).map(|i| first.offset(i)).collect();
        let block = self.inode_block(ino, at, new, &addrs);
        self.content.nodes.push((ino, block));
        let owned = (0u16..).zip(blocks).map(|(slot, b)| (RawSummary::data(ino.nid(), 0, slot), b.clone()));
        self.content.data.extend(owned);
    }

    fn inode_block(&self, ino: Ino, at: BlockAddr, new: &NewInode, addrs: &[BlockAddr]) -> Block {
        let mut block = Block::zeroed();
        let inode = block.view_mut::<RawInode>();
        inode.i_mode = U16::new(new.mode);
        (inode.i_uid, inode.i_gid) = (U32::new(self.owner.0), U32::new(self.owner.1));
        inode.i_links = U32::new(new.links);
        inode.i_size = U64::new(new.size);
        inode.i_blocks = U64::new(1 + addrs.len() as u64);
        [inode.i_atime, inode.i_ctime, inode.i_mtime] = [U64::new(self.time); 3];
        inode.i_flags = U32::new(new.flags.bits());
        inode.i_current_depth = U32::new(new.depth);
        if !new.name.is_empty() {
            inode.set_name(Ino::ROOT, new.name);
        }
        let extra_words = self.put_extra(inode);
        for (i, addr) in addrs.iter().enumerate() {
            put_slot(inode, extra_words + i, *addr);
        }
        inode.footer = RawNodeFooter::new(ino.nid(), ino, 0, false);
        inode.footer.cp_ver = U64::new(CP_VER);
        inode.footer.next_blkaddr = U32::new(at.offset(1).0);
        seal_checksum(&mut block, self.features, self.checksum_seed);
        block
    }

    /// Gives the inode its extra attributes; returns their words.
    fn put_extra(&self, inode: &mut RawInode) -> usize {
        let isize = extra_isize(self.features);
        if isize == 0 {
            return 0;
        }
        inode.i_inline = Inline::EXTRA_ATTR.bits();
        let mut extra = RawExtraAttr::new_zeroed();
        extra.i_extra_isize = U16::new(isize);
        if self.features.contains(Features::INODE_CRTIME) {
            extra.i_crtime = U64::new(self.time);
        }
        inode.set_extra(&extra);
        usize::from(isize / 4)
    }
}

fn put_slot(inode: &mut RawInode, word: usize, addr: BlockAddr) {
    if let Some(dst) = inode.body.get_mut(word * 4..).and_then(|s| s.first_chunk_mut::<4>()) {
        *dst = addr.0.to_le_bytes();
    }
}

fn directory(mode: u16) -> NewInode {
    NewInode { mode, links: 2, size: BLOCK_SIZE as u64, flags: InodeFlags::empty(), depth: 1, name: b"" }
}

fn dot_entries(this: Ino, parent: Ino) -> Block {
    let mut block = Block::zeroed();
    DentryShape::BLOCK.insert_dots(&mut block.0, this, parent);
    block
}

/// Bytes of extra attributes: up to the last field that a feature needs.
fn extra_isize(features: Features) -> u16 {
    let ends = [
        (Features::EXTRA_ATTR, 4),
        (Features::PRJQUOTA, 8),
        (Features::INODE_CHKSUM, 12),
        (Features::INODE_CRTIME, 24),
        (Features::COMPRESSION, 36),
    ];
    ends.iter().filter(|(f, _)| features.contains(*f)).map(|&(_, end)| end).max().unwrap_or(0)
}
