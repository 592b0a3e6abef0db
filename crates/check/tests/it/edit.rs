//! Changes to a volume, by fields, with all checksums made right again.
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place, newer_pack};
use segno_format::dentry::{DentryShape, FileType, slots_for};
use segno_format::inode::{Inline, InodeFlags, InodeLayout, RawInode, seal_checksum};
use segno_format::nat::{RawNatBlock, RawNatEntry, RawNatJournal, nat_index};
use segno_format::node::{RawNode, RawNodeFooter};
use segno_format::orphan::RawOrphanBlock;
use segno_format::sit::{LogType, RawSitBlock, RawSitEntry, RawSitJournal};
use segno_format::summary::{JOURNAL_BYTES, RawSummary, RawSummaryBlock};
use segno_format::superblock::{RawSuperblock, Superblock};
use segno_format::{Block, BlockAddr, Geometry, Ino, Nid, SegNo, bits::msb, name_hash};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

pub struct Edit {
    pub dev: MemDevice,
    pub sb: Superblock,
    pub geo: Geometry,
    /// Start of the pack in force.
    pub pack: BlockAddr,
}

impl Edit {
    pub fn new(image: &Snapshot) -> Self {
        let dev = MemDevice::from_snapshot(image);
        let sb = RawSuperblock::from_block(&read(&dev, BlockAddr(0)).0).parse(0).unwrap();
        let geo = sb.geo;
        let version = |pack| {
            let block = read(&dev, geo.pack_addr(pack));
            RawCheckpoint::verify(&block, 0).ok().map(|_| block.view::<RawCheckpoint>().checkpoint_ver.get())
        };
        let pack = geo.pack_addr(newer_pack(version(0), version(1)).unwrap());
        Self { dev, sb, geo, pack }
    }

    pub fn block(&self, addr: BlockAddr) -> Block {
        read(&self.dev, addr)
    }

    pub fn put(&self, addr: BlockAddr, block: &Block) {
        self.dev.write(addr.0.into(), &[block]).unwrap();
    }

    /// Changes a whole block seen as a structure.
    pub fn edit<T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned>(
        &self,
        addr: BlockAddr,
        change: impl FnOnce(&mut T),
    ) {
        let mut block = self.block(addr);
        change(block.view_mut());
        self.put(addr, &block);
    }

    /// Changes a superblock copy.
    pub fn superblock(&self, copy: u32, change: impl FnOnce(&mut RawSuperblock)) {
        let mut block = self.block(BlockAddr(copy));
        let mut sb = RawSuperblock::from_block(&block.0);
        change(&mut sb);
        sb.seal();
        sb.store(&mut block.0);
        self.put(BlockAddr(copy), &block);
    }

    pub fn cp(&self) -> Block {
        self.block(self.pack)
    }

    pub fn flags(&self) -> CpFlags {
        self.cp().view::<RawCheckpoint>().flags()
    }

    /// Changes both ends of the pack in force.
    pub fn change_cp(&self, change: impl FnOnce(&mut RawCheckpoint)) {
        let mut block = self.cp();
        change(block.view_mut());
        RawCheckpoint::seal(&mut block);
        let total = block.view::<RawCheckpoint>().cp_pack_total_block_count.get();
        self.put(self.pack, &block);
        self.put(self.pack.offset(total - 1), &block);
    }

    /// Lists orphans in a new block; the summaries move up by one block.
    pub fn orphans(&self, inos: &[u32]) {
        let total = self.cp().view::<RawCheckpoint>().cp_pack_total_block_count.get();
        for i in (1..total - 1).rev() {
            self.put(self.pack.offset(i + 1), &self.block(self.pack.offset(i)));
        }
        self.edit::<RawOrphanBlock>(self.pack.offset(1), |block| {
            *block = RawOrphanBlock::new_zeroed();
            block.ino.iter_mut().zip(inos).for_each(|(slot, &ino)| slot.set(ino));
            block.footer.entry_count.set(inos.len() as u32);
            block.footer.blk_addr.set(1);
            block.footer.blk_count.set(1);
        });
        self.change_cp(|cp| {
            cp.ckpt_flags.set((cp.flags() | CpFlags::ORPHAN_PRESENT).bits());
            cp.cp_pack_start_sum.set(2);
            cp.cp_pack_total_block_count.set(total + 1);
        });
    }

    /// The block that the log of ordinary files' nodes writes next.
    pub fn next_node(&self) -> BlockAddr {
        let cp = self.cp();
        let cp: &RawCheckpoint = cp.view();
        self.geo.seg_start(SegNo(cp.cur_node_segno[1].get())).offset(cp.cur_node_blkoff[1].get().into())
    }

    /// Writes a node of a file at the end of its log, with everything that counts it but the file itself.
    pub fn add_node(&self, nid: u32, ino: u32, offset: u32, mut block: Block) {
        let addr = self.next_node();
        block.view_mut::<RawNode>().footer = RawNodeFooter::new(Nid(nid), Ino(ino), offset, true);
        self.put(addr, &block);
        self.nat(nid, |n| {
            n.ino.set(ino);
            n.block_addr.set(addr.0);
        });
        self.mark(addr, true);
        self.summary(addr, |s| *s = RawSummary::node(Nid(nid)));
        self.change_cp(|cp| {
            cp.cur_node_blkoff[1].set(cp.cur_node_blkoff[1].get() + 1);
            cp.valid_node_count.set(cp.valid_node_count.get() + 1);
        });
        self.count_blocks(1);
        self.charge(0, 1);
    }

    /// Writes the node block that an fsync of a file writes after the checkpoint; `next` is the address of
    /// the next one.
    pub fn fsync(&self, ino: u32, next: BlockAddr) {
        let mut block = self.block(self.node(ino));
        let cp = self.cp();
        let cp: &RawCheckpoint = cp.view();
        let footer = &mut block.view_mut::<RawNode>().footer;
        footer.set_marks(true, false);
        footer.cp_ver.set(cp.checkpoint_ver.get());
        footer.next_blkaddr.set(next.0);
        self.put(self.next_node(), &block);
    }

    /// Frees slot `i` of a file, or leaves a reserved block there.
    pub fn punch(&self, ino: u32, i: u32, reserve: bool) {
        self.mark(self.slot(ino, i), false);
        self.set_slot(ino, i, if reserve { BlockAddr::NEW } else { BlockAddr::NULL });
        self.inode(ino, |n| {
            n.i_ext.len.set(0);
            n.i_blocks.set(n.i_blocks.get() - u64::from(!reserve));
        });
        if !reserve {
            self.count_blocks(-1);
            self.charge(0, -1);
        }
    }

    fn start_sum(&self) -> BlockAddr {
        self.pack.offset(self.cp().view::<RawCheckpoint>().cp_pack_start_sum.get())
    }

    /// Where the NAT (`false`) or SIT journal is: block and offset.
    fn journal(&self, sit: bool) -> (BlockAddr, usize) {
        if self.flags().contains(CpFlags::COMPACT_SUM) {
            (self.start_sum(), if sit { JOURNAL_BYTES } else { 0 })
        } else {
            (self.start_sum().offset(if sit { 2 } else { 0 }), 3584)
        }
    }

    pub fn nat_journal(&self, change: impl FnOnce(&mut RawNatJournal)) {
        let (addr, at) = self.journal(false);
        let mut block = self.block(addr);
        change(RawNatJournal::mut_from_bytes(&mut block.0[at..at + JOURNAL_BYTES]).unwrap());
        self.put(addr, &block);
    }

    pub fn sit_journal(&self, change: impl FnOnce(&mut RawSitJournal)) {
        let (addr, at) = self.journal(true);
        let mut block = self.block(addr);
        change(RawSitJournal::mut_from_bytes(&mut block.0[at..at + JOURNAL_BYTES]).unwrap());
        self.put(addr, &block);
    }

    fn second_copy(&self, sit: bool, b: u32) -> bool {
        let cp = self.cp();
        let place = bitmap_place(&self.geo, cp.view::<RawCheckpoint>().flags());
        msb::test(&cp.0[if sit { place.sit } else { place.nat }..], b as usize)
    }

    /// Changes the entry of a nid, in the journal if it is there.
    pub fn nat(&self, nid: u32, change: impl FnOnce(&mut RawNatEntry)) -> RawNatEntry {
        let mut change = Some(change);
        let mut out = RawNatEntry::default();
        self.nat_journal(|j| {
            let n = j.count.get() as usize;
            if let Some(e) = j.entries[..n].iter_mut().find(|e| e.nid.get() == nid) {
                change.take().unwrap()(&mut e.entry);
                out = e.entry;
            }
        });
        let (b, i) = nat_index(Nid(nid));
        if let Some(change) = change {
            self.edit::<RawNatBlock>(self.geo.nat_addr(b, self.second_copy(false, b)), |block| {
                change(&mut block.entries[i]);
                out = block.entries[i];
            });
        }
        out
    }

    /// Place of a node.
    pub fn node(&self, nid: u32) -> BlockAddr {
        self.nat(nid, |_| {}).addr()
    }

    /// Changes the entry of a segment, in the journal if it is there.
    pub fn sit(&self, seg: SegNo, change: impl FnOnce(&mut RawSitEntry)) {
        let mut change = Some(change);
        self.sit_journal(|j| {
            let n = j.count.get() as usize;
            if let Some(e) = j.entries[..n].iter_mut().find(|e| e.segno.get() == seg.0) {
                change.take().unwrap()(&mut e.entry);
            }
        });
        if let Some(change) = change {
            let b = seg.0 / 55;
            self.edit::<RawSitBlock>(self.geo.sit_addr(b, self.second_copy(true, b)), |block| {
                change(&mut block.entries[seg.idx() % 55]);
            });
        }
    }

    /// Marks a block valid or free in the SIT, count included.
    pub fn mark(&self, addr: BlockAddr, valid: bool) {
        let (seg, off) = self.geo.seg_of(addr).unwrap();
        self.sit(seg, |e| {
            let log = LogType::from_disk((e.vblocks.get() >> 10) as u8).unwrap();
            let mut map = e.valid_map;
            msb::put(&mut map, off as usize, valid);
            *e = RawSitEntry::new(log, segno_format::bits::popcount(&map) as u16, &map, 0);
        });
    }

    pub fn raw_inode(&self, ino: u32) -> RawInode {
        *self.block(self.node(ino)).view()
    }

    pub fn layout(&self, ino: u32) -> InodeLayout {
        self.raw_inode(ino).layout(self.sb.features).unwrap()
    }

    /// Changes an inode.
    pub fn inode(&self, ino: u32, change: impl FnOnce(&mut RawInode)) {
        let addr = self.node(ino);
        let mut block = self.block(addr);
        change(block.view_mut());
        seal_checksum(&mut block, self.sb.features, self.sb.inode_checksum_seed());
        self.put(addr, &block);
    }

    /// Adds to what the user and group quota files charge to id 0.
    pub fn charge(&self, inodes: u64, blocks: i64) {
        // mkfs.f2fs puts the records of id 0 into quota block 5.
        const RECORD: usize = 1024 + 16;
        for ino in self.sb.quota_inos().into_iter().flatten() {
            let addr = self.slot(ino, 1);
            let mut block = self.block(addr);
            let mut add = |at: usize, n: i64| {
                let field = &mut block.0[RECORD + at..][..8];
                let value = u64::from_le_bytes(field.try_into().unwrap()).checked_add_signed(n).unwrap();
                field.copy_from_slice(&value.to_le_bytes());
            };
            add(24, inodes as i64);
            add(48, blocks * 4096);
            self.put(addr, &block);
        }
    }

    /// Adds to the checkpoint's count of valid blocks.
    pub fn count_blocks(&self, n: i64) {
        self.change_cp(|cp| {
            cp.valid_block_count.set(cp.valid_block_count.get().checked_add_signed(n).unwrap())
        });
    }

    /// Turns the file `three` into a compressed one whose single cluster has these slots. Blocks it had are freed
    /// where they are not among the slots; all counts follow.
    pub fn compress(&self, slots: [BlockAddr; 4], saved: u64) {
        let ino = self.lookup("three");
        for old in (0..3).map(|i| self.slot(ino, i)).filter(|a| !slots.contains(a)) {
            self.mark(old, false);
        }
        let used = slots.iter().filter(|&&a| a != BlockAddr::NULL).count() as u64;
        self.inode(ino, |n| {
            n.i_flags.set(InodeFlags::COMPR.bits());
            let mut extra = n.extra();
            extra.i_compr_blocks.set(saved);
            extra.i_log_cluster_size = 2;
            n.set_extra(&extra);
            n.i_ext.len.set(0);
            n.i_blocks.set(1 + used);
        });
        for (i, addr) in slots.into_iter().enumerate() {
            self.set_slot(ino, i as u32, addr);
        }
        let more = used as i64 - 3;
        self.count_blocks(more);
        self.charge(0, more);
    }

    pub fn slot(&self, ino: u32, i: u32) -> BlockAddr {
        self.raw_inode(ino).slot(&self.layout(ino), i)
    }

    pub fn set_slot(&self, ino: u32, i: u32, addr: BlockAddr) {
        let layout = self.layout(ino);
        self.inode(ino, |n| n.set_slot(&layout, i, addr));
    }

    /// Moves the entries of a one-block directory into its inode. The inode must not have attributes.
    pub fn inline_dir(&self, dir: u32) {
        let old = self.block(self.slot(dir, 0));
        self.punch(dir, 0, false);
        self.inode(dir, |n| n.i_inline |= (Inline::XATTR | Inline::DENTRY).bits());
        let (layout, addr) = (self.layout(dir), self.node(dir));
        let mut block = self.block(addr);
        let (shape, area) = (DentryShape::inline(&layout), &mut block.0[layout.inline_range()]);
        let (mut to, mut from) = (0, 0);
        while let Some(e) = DentryShape::BLOCK.next(&old.0, from, 0).unwrap() {
            let kind = FileType::from_disk(e.file_type).unwrap();
            shape.insert(area, to, e.hash, e.ino, e.name, kind);
            (to, from) = (to + slots_for(e.name.len()), e.next());
        }
        self.put(addr, &block);
        self.inode(dir, |n| n.i_size.set(layout.inline_capacity() as u64));
    }

    /// Block and slot of a name in a directory whose blocks hang from the inode.
    pub fn entry(&self, dir: u32, name: &[u8]) -> (BlockAddr, u32, u32) {
        for i in 0..self.layout(dir).slots {
            let addr = self.slot(dir, i);
            if !addr.is_real() {
                continue;
            }
            let (block, mut pos) = (self.block(addr), 0);
            while let Some(e) = DentryShape::BLOCK.next(&block.0, pos, 0).unwrap() {
                if e.name == name {
                    return (addr, e.slot, e.ino.0);
                }
                pos = e.next();
            }
        }
        panic!("no entry {}", name.escape_ascii());
    }

    /// Inode of a path.
    pub fn lookup(&self, path: &str) -> u32 {
        path.split('/').filter(|n| !n.is_empty()).fold(3, |dir, name| self.entry(dir, name.as_bytes()).2)
    }

    /// Changes the dentry block that holds a name.
    pub fn dentry(&self, dir: u32, name: &[u8], change: impl FnOnce(&mut [u8], u32, u32)) {
        let (addr, slot, ino) = self.entry(dir, name);
        let mut block = self.block(addr);
        change(&mut block.0, slot, ino);
        self.put(addr, &block);
    }

    /// Adds a name to the first block of a directory.
    pub fn add_name(&self, dir: u32, name: &[u8], ino: u32, t: FileType) {
        self.add_hashed_name(dir, name, name_hash(name), ino, t);
    }

    /// The same with a hash of the caller's.
    pub fn add_hashed_name(&self, dir: u32, name: &[u8], hash: u32, ino: u32, t: FileType) {
        let addr = self.slot(dir, 0);
        let mut block = self.block(addr);
        let shape = DentryShape::BLOCK;
        let slot = shape.find_room(&block.0, name.len().div_ceil(8) as u32).unwrap();
        shape.insert(&mut block.0, slot, hash, Ino(ino), name, t);
        self.put(addr, &block);
    }

    /// Changes the summary entry of a block, in the pack or in the SSA.
    pub fn summary(&self, addr: BlockAddr, change: impl FnOnce(&mut RawSummary)) {
        let (seg, off) = self.geo.seg_of(addr).unwrap();
        let at = self.summary_block(seg).expect("compacted summaries are not edited");
        self.edit::<RawSummaryBlock>(at, |s| change(&mut s.entries[off as usize]));
    }

    /// Where the summary of a segment is; `None` in compacted form.
    pub fn summary_block(&self, seg: SegNo) -> Option<BlockAddr> {
        let cp = self.cp();
        let cp: &RawCheckpoint = cp.view();
        if let Some(i) = cp.cur_node_segno[..3].iter().position(|s| s.get() == seg.0) {
            return Some(self.pack.offset(cp.cp_pack_total_block_count.get() - 4 + i as u32));
        }
        if let Some(i) = cp.cur_data_segno[..3].iter().position(|s| s.get() == seg.0) {
            let compact = self.flags().contains(CpFlags::COMPACT_SUM);
            return (!compact).then(|| self.start_sum().offset(i as u32));
        }
        Some(self.geo.ssa_addr(seg))
    }
}

fn read(dev: &MemDevice, addr: BlockAddr) -> Block {
    let mut one = [Block::zeroed()];
    dev.read(addr.0.into(), &mut one).unwrap();
    let [block] = one;
    block
}
