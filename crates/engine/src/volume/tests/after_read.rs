//! Damaged structures of a volume that was not unmounted: the read that meets one reports it. ARCHITECTURE.md names the assertion
//! before the write that each of these checks repeats.
use super::rig::{BLOCK, Rig};
use crate::commit::CheckpointReason;
use crate::nodes::Place;
use crate::options::{FsyncMode, JournalMode, MountOptions};
use crate::types::{Owner, XattrMode};
use crate::volume::Volume;
use segno_device::{BlockDevice, MemDevice, ZoneLimits};
use segno_format::checkpoint::{LogPosition, RawCheckpoint};
use segno_format::inode::RawInode;
use segno_format::nat::RawNatJournal;
use segno_format::node::RawNode;
use segno_format::orphan::RawOrphanBlock;
use segno_format::sit::{LogType, RawSitEntry, RawSitJournal};
use segno_format::summary::JOURNAL_BYTES;
use segno_format::{Block, BlockAddr, Features, Ino, Nid, SegNo};
use segno_journal::record::{Compression, InodeNew, Mapping, Run};
use segno_journal::{Area, Group, Kind, Record, Section};
use segno_layout::Pack;
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{ZoneShape, ZonedDevice};
use std::sync::Arc;
use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// A volume with a file of an inode, a direct node and an xattr node, an empty file, and an orphan.
struct Crashed {
    rig: Rig,
    file: Ino,
    other: Ino,
    pack: Pack,
}

impl Crashed {
    fn new() -> Self {
        let rig = Rig::new(Features::empty());
        let v = &rig.volume;
        let (file, other) = (rig.create(b"f").ino, rig.create(b"g").ino);
        v.write(file, 0, &[7; 3 * BLOCK as usize]).unwrap();
        v.write(file, 1_000 * BLOCK, &[8; BLOCK as usize]).unwrap();
        v.setxattr(file, b"user.long", &[9; 3000], XattrMode::Set).unwrap();
        let orphan = v.mknod(Ino::ROOT, b"o", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
        v.open(orphan).unwrap();
        v.unlink(Ino::ROOT, b"o").unwrap();
        v.writeback.flush_all_data().unwrap();
        v.commit.checkpoint(CheckpointReason::Sync).unwrap();
        let pack = Pack::in_force(&*v.base.dev, &v.base.geo).unwrap().unwrap();
        Self { rig, file, other, pack }
    }

    fn node(&self, nid: impl Into<Nid>) -> BlockAddr {
        self.rig.volume.nodes.nat.get(nid.into()).unwrap().addr
    }

    /// Nid of the file's direct node, and of its xattr node.
    fn nids(&self) -> [Nid; 2] {
        let inode = self.rig.volume.files.inode(self.file).unwrap();
        inode.get(|i| [i.nid(0), Nid(i.i_xattr_nid.get())])
    }

    /// Slot of a file block.
    fn slot_of(&self, block: u64) -> u32 {
        let v = &self.rig.volume;
        let inode = v.files.inode(self.file).unwrap();
        let Place::Span(span) = v.nodes.find_span(&inode.frame, block).unwrap() else { panic!("a hole") };
        span.slot(block)
    }

    /// A copy of the device with a changed block.
    fn edited(&self, at: BlockAddr, edit: impl FnOnce(&mut Block)) -> Arc<MemDevice> {
        let dev = self.rig.copy();
        let mut block = [Block::zeroed()];
        dev.read(at.0.into(), &mut block).unwrap();
        edit(&mut block[0]);
        dev.write(at.0.into(), &[&block[0]]).unwrap();
        dev
    }

    /// The mount fails for this reason after a change of the checkpoint block, with a right checksum in both of its places.
    fn pack_refused(&self, why: &str, edit: impl FnOnce(&mut RawCheckpoint)) {
        let mut block = self.pack.header().clone();
        edit(block.view_mut());
        RawCheckpoint::seal(&mut block);
        let dev = self.edited(self.pack.start, |b| *b = block.clone());
        let last = self.pack.start.offset(self.pack.blocks.len() as u32 - 1);
        dev.write(last.0.into(), &[&block]).unwrap();
        mount_refused(&dev, why);
    }

    /// The block of the pack with both journals.
    fn journals(&self) -> BlockAddr {
        self.pack.start.offset(self.pack.cp().cp_pack_start_sum.get())
    }

    /// The mount fails for this reason after a change of the journals.
    fn journals_refused(&self, why: &str, edit: impl FnOnce(&mut RawNatJournal, &mut RawSitJournal)) {
        mount_refused(&self.edited(self.journals(), |block| edit_journals(block, edit)), why);
    }

    /// A call on the file fails for this reason after a change of one block.
    fn call_refused(
        &self,
        why: &str,
        at: BlockAddr,
        edit: impl FnOnce(&mut Block),
        call: impl FnOnce(&Volume) -> crate::Result<()>,
    ) {
        let v = mount(&self.edited(at, edit)).unwrap();
        let error = call(&v).expect_err(why);
        assert!(error.to_string().contains(why), "{error}, not {why}");
        assert!(!v.is_stopped(), "{why}: damage is no bug");
    }

    fn read(&self, at: u64) -> impl FnOnce(&Volume) -> crate::Result<()> + use<> {
        let file = self.file;
        move |v| v.read(file, at * BLOCK, &mut [0; 10]).map(drop)
    }
}

fn edit_journals(block: &mut Block, edit: impl FnOnce(&mut RawNatJournal, &mut RawSitJournal)) {
    let (nat, rest) = block.0.split_at_mut(JOURNAL_BYTES);
    let (nat, _) = RawNatJournal::mut_from_prefix(nat).unwrap();
    let (sit, _) = RawSitJournal::mut_from_prefix(rest).unwrap();
    edit(nat, sit);
}

fn mount(dev: &Arc<MemDevice>) -> crate::Result<Arc<Volume>> {
    Volume::mount(dev.clone(), MountOptions { background: false, ..MountOptions::default() })
}

fn mount_refused(dev: &Arc<MemDevice>, why: &str) {
    match mount(dev) {
        Err(e) => assert!(e.to_string().contains(why), "{e}, not {why}"),
        Ok(_) => panic!("mounted in spite of: {why}"),
    }
}

#[test]
fn a_pack_that_contradicts_itself_or_the_sit_is_refused() {
    let c = Crashed::new();
    assert!(mount(&c.rig.copy()).is_ok());
    let add = |n: U32| U32::new(n.get() + 1);
    c.pack_refused("valid_node_count", |cp| cp.valid_node_count = add(cp.valid_node_count));
    c.pack_refused("valid blocks against valid_block_count", |cp| cp.valid_block_count = U64::new(3));
    c.pack_refused("valid_block_count", |cp| cp.valid_block_count = U64::new(u64::MAX));
    c.pack_refused("user_block_count", |cp| cp.user_block_count = U64::new(0));
    c.pack_refused("sit_ver_bitmap_bytesize", |cp| cp.sit_ver_bitmap_bytesize = U32::new(1));
    c.pack_refused("nat_ver_bitmap_bytesize", |cp| cp.nat_ver_bitmap_bytesize = U32::new(1));
    c.pack_refused("cp_pack_start_sum", |cp| cp.cp_pack_start_sum = U32::new(0));
    c.pack_refused("reserved segments", |cp| cp.rsvd_segment_count = U32::new(u32::MAX));
}

#[test]
fn positions_of_logs_that_cannot_be_are_refused() {
    let c = Crashed::new();
    let warm = c.pack.cp().position(LogType::WarmNode);
    let other = c.pack.cp().position(LogType::ColdNode).seg;
    let moved = |p: LogPosition| move |cp: &mut RawCheckpoint| cp.set_position(&p);
    c.pack_refused("segment of a log", moved(LogPosition { seg: SegNo(u32::MAX), ..warm }));
    c.pack_refused("offset of a log", moved(LogPosition { blkoff: 512, ..warm }));
    c.pack_refused("two logs in one segment", moved(LogPosition { seg: other, ..warm }));
    c.pack_refused("alloc_type", moved(LogPosition { alloc_type: 2, ..warm }));
    c.pack_refused("a log would overwrite a valid block", moved(LogPosition { blkoff: 0, ..warm }));
}

#[test]
fn orphan_blocks_of_impossible_length_are_refused() {
    let c = Crashed::new();
    let first = c.pack.start.offset(1);
    let dev = c.edited(first, |b| b.view_mut::<RawOrphanBlock>().footer.entry_count = U32::new(1021));
    mount_refused(&dev, "entry count");
}

#[test]
fn journals_of_the_pack_that_cannot_be_are_refused() {
    let c = Crashed::new();
    c.journals_refused("entry count", |nat, _| nat.count = U16::new(39));
    c.journals_refused("nid", |nat, _| nat.entries[0].nid = U32::new(u32::MAX));
    c.journals_refused("entry of the root directory", |nat, _| entry(nat, Nid::ROOT, 0));
    let file = c.node(c.file).0;
    c.journals_refused("nid in the footer", |nat, _| entry(nat, Nid::ROOT, file));
    c.journals_refused("entry count", |_, sit| sit.count = U16::new(7));
    c.journals_refused("segment number", |_, sit| sit.entries[0].segno = U32::new(u32::MAX));
    let first = |sit: &mut RawSitJournal, edit: fn(u16) -> u16| {
        let entry: &mut RawSitEntry = &mut sit.entries[0].entry;
        entry.vblocks = U16::new(edit(entry.vblocks.get()));
    };
    c.journals_refused("valid block count differs", |_, sit| first(sit, |v| v ^ 1));
    c.journals_refused("segment type", |_, sit| first(sit, |v| v | 63 << 10));
}

/// Lets the journal's entry of a nid name another block.
fn entry(nat: &mut RawNatJournal, nid: Nid, addr: u32) {
    let count = usize::from(nat.count.get());
    let own = nat.entries[..count].iter_mut().find(|e| e.nid.get() == nid.0).unwrap();
    own.entry.block_addr = U32::new(addr);
}

#[test]
fn nodes_that_are_not_what_their_parent_says_are_reported() {
    let c = Crashed::new();
    let [direct, attrs] = c.nids();
    let footer = |edit: fn(&mut RawNode)| move |b: &mut Block| edit(b.view_mut());
    let file = c.file;
    let get = move |v: &Volume| v.getxattr(file, b"user.long").map(drop);
    c.call_refused(
        "nid in the footer",
        c.node(direct),
        footer(|n| n.footer.nid = U32::new(99)),
        c.read(1000),
    );
    let other = c.other.0;
    let owned = move |b: &mut Block| b.view_mut::<RawNode>().footer.ino = U32::new(other);
    c.call_refused("owner in the footer", c.node(direct), owned, c.read(1000));
    let borrowed = move |b: &mut Block| b.view_mut::<RawInode>().i_xattr_nid = U32::new(attrs.0);
    let list = move |v: &Volume| v.listxattr(Ino(other)).map(drop);
    c.call_refused("node belongs to another inode", c.node(c.other), borrowed, list);
    let lost = |b: &mut Block| edit_journals(b, |nat, _| entry(nat, direct, 0));
    c.call_refused("node has no address", c.journals(), lost, c.read(1000));
    c.call_refused("xattr node offset", c.node(attrs), footer(|n| n.footer.flag = U32::new(1 << 3)), get);
}

#[test]
fn inodes_and_slots_that_cannot_be_are_reported() {
    let c = Crashed::new();
    let (inode, direct) = (c.node(c.file), c.node(c.nids()[0]));
    let raw = |edit: fn(&mut RawInode)| move |b: &mut Block| edit(b.view_mut());
    c.call_refused("i_blocks is 0", inode, raw(|i| i.i_blocks = U64::new(0)), c.read(0));
    c.call_refused("i_mode has no file type", inode, raw(|i| i.i_mode = U16::new(0)), c.read(0));
    let own = c.file.0;
    let own = move |b: &mut Block| b.view_mut::<RawInode>().i_xattr_nid = U32::new(own);
    c.call_refused("i_xattr_nid is the inode itself", inode, own, c.read(0));
    let index = c.slot_of(1_000);
    let slot = |b: &mut Block, addr: u32| b.set_u32_at(4 * index as usize, addr);
    c.call_refused("outside the main area", direct, |b| slot(b, 5), c.read(1000));
    let free = c.rig.volume.base.geo.seg_start(SegNo(60)).0;
    c.call_refused("is not in use", direct, |b| slot(b, free), c.read(1000));
    let first = std::mem::offset_of!(RawInode, body) + 4 * c.slot_of(0) as usize;
    let twice = |b: &mut Block| b.set_u32_at(first + 4, b.u32_at(first));
    c.call_refused("address in two slots", inode, twice, c.read(1));
}

/// The mount fails for this reason when the journal of a crashed volume has such records of a file.
fn records_refused(why: &str, records: impl FnOnce(&Volume) -> Vec<Record>) {
    let (dev, side) = (Arc::new(MemDevice::new(96 << 8)), Arc::new(MemDevice::new(2048)));
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    let options = MkfsOptions { features, ..MkfsOptions::default() };
    segno_mkfs::format(&[Member { device: dev.clone(), path: String::new(), zeroed: true }], &options)
        .unwrap();
    let journaled = |side: Arc<MemDevice>| {
        let journal = JournalMode::External(Area::whole(side));
        MountOptions { background: false, journal, ..MountOptions::default() }
    };
    let v = Volume::mount(dev.clone(), journaled(side.clone())).unwrap();
    let ino = v.mknod(Ino::ROOT, b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    v.write(ino, 0, &[7; 3 * BLOCK as usize]).unwrap();
    v.writeback.flush_all_data().unwrap();
    v.commit.checkpoint(CheckpointReason::Sync).unwrap();
    let (epoch, ring) = (v.base.tx.epochs.open(), &v.commit.journal().unwrap().ring);
    let sections = vec![Section { ino, epoch, records: records(&v) }];
    ring.append(&Group { kind: Kind::Epoch, epoch, sections }).unwrap();
    ring.flush().unwrap();
    let [dev, side] = [&dev, &side].map(|dev| Arc::new(MemDevice::from_snapshot(&dev.snapshot())));
    match Volume::mount(dev, journaled(side)) {
        Err(e) => assert!(e.to_string().contains(why), "{e}, not {why}"),
        Ok(_) => panic!("mounted in spite of: {why}"),
    }
}

/// One block of a file and its address.
fn block_at(page: u64, addr: BlockAddr) -> Mapping {
    Mapping { runs: vec![Run { page, addr, count: 1 }], crcs: Vec::new(), moved: false }
}

#[test]
fn records_of_the_journal_that_cannot_be_are_reported() {
    records_refused("number of a new inode is in use", |_| {
        vec![Record::InodeNew(InodeNew { mode: 0o100_644, pino: Ino::ROOT, ..InodeNew::default() })]
    });
    records_refused("data block in a segment of nodes", |v| {
        let log = v.space.log_states().into_iter().find(|l| l.kind == LogType::WarmNode).unwrap();
        vec![Record::Map(block_at(0, v.base.geo.seg_start(log.segno).offset(511)))]
    });
    records_refused("slot of a block of a compressed cluster", |v| {
        let how = Compression { algorithm: 0, log_cluster: 2, flag: 0 };
        let second = block_at(2, v.base.geo.seg_start(SegNo(20)));
        vec![Record::Compression(Some(how)), Record::Packed(second)]
    });
}

/// A power cut without a flush before: the node arrived, its data did not.
#[test]
fn a_node_with_a_block_that_its_zone_does_not_have_is_reported() {
    let (zone_blocks, conventional) = (512, 9);
    let dev = Arc::new(ZonedDevice::new(ZoneShape {
        zones: 42,
        conventional,
        blocks: zone_blocks,
        capacity: zone_blocks,
        limits: ZoneLimits { open: 8, active: 8 },
    }));
    let options = MkfsOptions {
        zoned: true,
        overprovision_percent: Some(20.0),
        reserved_sections: Some(8),
        ..MkfsOptions::default()
    };
    segno_mkfs::format(&[Member { device: dev.clone(), path: String::new(), zeroed: true }], &options)
        .unwrap();
    let fsync_mode = FsyncMode::Nobarrier;
    let options = MountOptions { background: false, fsync_mode, ..MountOptions::default() };
    let v = Volume::mount(dev.clone(), options.clone()).unwrap();
    let ino = v.mknod(Ino::ROOT, b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    v.write(ino, 0, &[7; 3 * BLOCK as usize]).unwrap();
    v.sync().unwrap();
    v.write(ino, 0, &[8; BLOCK as usize]).unwrap();
    v.fsync(ino).unwrap();
    let file = v.files.inode(ino).unwrap();
    let data = file.get(|i| i.slot(&file.layout(v.base.features).unwrap(), 0));
    let mounted = |lost: u64| {
        let mut zone = u64::from(conventional) * zone_blocks;
        let crashed = dev.after_cut(|unflushed| {
            let all = if zone == lost { 0 } else { unflushed };
            zone += zone_blocks;
            all
        });
        Volume::mount(Arc::new(crashed), options.clone())
    };
    assert!(mounted(0).is_ok());
    let why = "data block beyond the write pointer of its zone";
    match mounted(u64::from(data.0) / zone_blocks * zone_blocks) {
        Err(e) => assert!(e.to_string().contains(why), "{e}"),
        Ok(_) => panic!("mounted without the data"),
    }
}
