//! Violated invariants: the call fails, the volume stops, and the reason is recorded on the device.
use super::rig::{BLOCK, Rig};
use crate::commit::CheckpointReason;
use crate::error::{Error, Result};
use crate::files::{Batch, FlushReason, Inode};
use crate::nodes::{Marks, NodeWrite, Place};
use crate::options::{FsyncLookup, JournalMode, MountOptions};
use crate::types::{FallocMode, Owner};
use crate::volume::Volume;
use segno_clean::policy::Victim;
use segno_device::MemDevice;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::node::RawNode;
use segno_format::record::StopReason;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, Features, Ino, Nid, SecNo, SegNo};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::PauseDevice;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::little_endian::U64;

/// Violates an invariant on a volume with a file of one block, and returns the result of a call.
type Break = fn(&Volume, &Arc<Inode>) -> Result<()>;

fn assert_stops(what: &str, broken: Break) {
    let rig = Rig::new(Features::empty());
    let v = &rig.volume;
    let file = rig.create(b"f");
    v.write(file.ino, 0, &[7; 4096]).unwrap();
    v.sync().unwrap();
    let error = broken(v, &file).expect_err("the call succeeds");
    assert!(matches!(&error, Error::Invariant(found) if found.contains(what)), "{error}, expected: {what}");
    assert!(v.is_stopped());
    assert!(matches!(v.write(file.ino, 0, b"x"), Err(Error::Stopped)));
    for copy in rig.superblocks() {
        assert!(
            copy.s_stop_reason[StopReason::UpdateInode as usize] > 0,
            "{what}: no reason in a superblock"
        );
    }
}

fn owner() -> [RawSummary; 1] {
    [RawSummary::node(Nid(100))]
}

#[test]
fn space() {
    assert_stops("unallocated block is published", |v, _| {
        let mut placed = v.space.allocate(LogType::WarmNode, &owner())?;
        v.space.publish(&mut placed, &[v.base.geo.seg_start(SegNo(40))], &[])
    });
    assert_stops("allocates a block that is in use", |v, _| {
        let at = v.space.log_states().into_iter().find(|l| l.kind == LogType::WarmNode).unwrap();
        v.space.with_table(|t| t.hold_all(at.segno));
        v.space.allocate(LogType::WarmNode, &owner()).map(drop)
    });
    assert_stops("places blocks before its boundary", |v, _| {
        let mut placed = v.space.allocate(LogType::WarmNode, &owner())?;
        let addrs = placed.addrs.clone();
        v.space.place_all(&mut placed, &addrs)
    });
    assert_stops("two logs open one segment", |v, _| {
        let [at, ..] = v.space.log_states();
        v.space.with_table(|t| t.open(at.segno, at.kind));
        Err(Error::Invariant("two logs open one segment"))
    });
    assert_stops("segment outside the main area is looked up", |v, _| {
        let beyond = SegNo(v.base.geo.segment_count_main);
        v.space.with_table(|t| t.valid_in_segment(beyond));
        Err(Error::Invariant("a segment outside the main area is looked up"))
    });
    assert_stops("section outside the main area is looked up", |v, _| {
        v.space.with_table(|t| t.valid_in_section(SecNo(v.base.geo.section_count)));
        Err(Error::Invariant("a section outside the main area is looked up"))
    });
    assert_stops("maps of a segment outside the main area", |v, _| {
        v.space.with_table(|t| t.is_valid(SegNo(v.base.geo.segment_count_main), 0));
        Err(Error::Invariant("the maps of a segment outside the main area are looked up"))
    });
    assert_stops("segment in use changes its type", |v, file| {
        let addr = file.get(|i| i.slot(&file.layout(v.base.features).unwrap(), 0));
        let (seg, _) = v.base.geo.seg_of(addr).unwrap();
        v.space.with_table(|t| t.retype(seg, LogType::ColdNode));
        Err(Error::Invariant("a segment in use changes its type"))
    });
    assert_stops("segment outside the main area changes", |v, _| {
        v.space.with_table(|t| t.hold_all(SegNo(v.base.geo.segment_count_main)));
        Err(Error::Invariant("a segment outside the main area changes"))
    });
    assert_stops("segment that it has not opened", |v, _| {
        let at = v.space.log_states().into_iter().find(|l| l.kind == LogType::WarmNode).unwrap();
        v.space.with_table(|t| t.close(at.segno));
        v.space.allocate(LogType::WarmNode, &owner()).map(drop)
    });
}

#[test]
fn nodes() {
    assert_stops("slot outside a node is set", |v, file| {
        v.nodes.set_slot(&v.base.tx.begin(), &file.frame, &file.frame, 5_000, BlockAddr::NEW)
    });
    assert_stops("slots outside a node are read", |v, file| {
        v.nodes.slot_addrs(&file.frame, 900..2_000).map(drop)
    });
    assert_stops("freed twice", |v, file| {
        v.nodes.nat.free(file.ino.nid())?;
        v.nodes.nat.free(file.ino.nid()).map(drop)
    });
    assert_stops("before the last checkpoint ended", |v, file| {
        v.nodes.nat.moved(file.ino.nid(), v.base.geo.seg_start(SegNo(3)))?;
        v.nodes.nat.freeze();
        v.nodes.nat.freeze();
        Err(Error::Invariant("NAT changes are frozen before the last checkpoint ended"))
    });
    assert_stops("new node is in the cache already", |v, file| {
        v.nodes.cache.create(&v.base.tx.begin(), file.ino.nid(), file.ino, 0, true);
        Err(Error::Invariant("a new node is in the cache already"))
    });
    assert_stops("the root directory is freed", |v, _| {
        v.nodes.free_node(&v.base.tx.begin(), Nid::ROOT, Ino::ROOT)
    });
}

#[test]
fn nodes_that_are_written() {
    fn write(v: &Volume, file: &Arc<Inode>, log: LogType) -> Result<()> {
        let nodes = [NodeWrite { frame: file.frame.clone(), marks: Marks::default() }];
        v.nodes.write_nodes(&v.base.tx.begin(), log, &nodes).map(drop)
    }
    assert_stops("without the chain lock", |v, file| write(v, file, LogType::WarmNode));
    assert_stops("another log than its own", |v, file| write(v, file, LogType::HotNode));
    assert_stops("a checkpoint writes a node to another log", |v, file| {
        v.nodes.write_frozen_nodes(LogType::ColdNode, std::slice::from_ref(&file.frame))
    });
    assert_stops("footer of a node names another node", |v, file| {
        let op = v.base.tx.begin();
        v.nodes.cache.modify(&op, &file.frame, |b| b.view_mut::<RawNode>().footer.nid = 99.into());
        drop(op);
        v.commit.checkpoint(CheckpointReason::Sync)
    });
    assert_stops("footer of a node names another node", |v, file| {
        let op = v.base.tx.begin();
        v.nodes.cache.modify(&op, &file.frame, |b| b.view_mut::<RawNode>().footer.ino = 99.into());
        drop(op);
        v.commit.checkpoint(CheckpointReason::Sync)
    });
    assert_stops("places an unknown node", |v, _| {
        v.nodes.nat.place(Nid(90), v.base.geo.seg_start(SegNo(3))).map(drop)
    });
    assert_stops("without having written the NAT", |v, _| {
        v.nodes.nat.committed();
        Err(Error::Invariant("a checkpoint ends without having written the NAT"))
    });
}

/// Takes the file's dirty page into a batch.
fn batch(v: &Volume, file: &Arc<Inode>) -> Result<Batch> {
    v.write(file.ino, 0, &[8; 4096])?;
    let mut batch = Batch::new(v.base.next_serial(), FlushReason::Wanted);
    v.files.take_all(std::slice::from_ref(file), 0..1, &mut batch)?;
    Ok(batch)
}

#[test]
fn files() {
    assert_stops("unreserved slot", |v, file| {
        let mut batch = batch(v, file)?;
        let placed = v.files.write_batch(&mut batch)?;
        let op = v.base.tx.begin();
        v.nodes.set_slot(&op, &file.frame, &file.frame, 0, BlockAddr::NULL)?;
        v.files.publish_batch(&op, &batch, placed)
    });
    assert_stops("a page without address is written", |v, file| {
        let batch = batch(v, file)?;
        v.files.write_placed(&batch)
    });
}

/// A slot is filled after the copies were made.
#[test]
fn a_block_that_moves_has_a_copy() {
    let dev = Arc::new(PauseDevice::new(MemDevice::new(256 * 256)));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
    let options = MountOptions { background: false, ..MountOptions::default() };
    let v = Volume::mount(dev.clone(), options).unwrap();
    let ino = v.mknod(Ino::ROOT, b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    for block in [0, 1, 3] {
        v.write(ino, block * 4096, &[7; 4096]).unwrap();
    }
    v.sync().unwrap();
    let volume = v.clone();
    dev.set_hook(0, move || {
        let (file, addr) = (volume.files.inode(ino).unwrap(), volume.base.geo.seg_start(SegNo(3)));
        volume.nodes.set_slot(&volume.base.tx.begin(), &file.frame, &file.frame, 2, addr).unwrap();
    });
    let moved = v.fallocate(ino, FallocMode::CollapseRange, 0, 4096);
    assert!(matches!(moved, Err(Error::Invariant("a block that moves has no copy"))), "{moved:?}");
    assert!(v.is_stopped());
}

#[test]
fn writeback() {
    assert_stops("out of order", |v, file| {
        let files = [file.clone(), file.clone()];
        v.writeback.flush_group(&files, FlushReason::Wanted)
    });
    assert_stops("a freed inode has dirty pages", |v, file| {
        v.write(file.ino, 0, &[8; 4096])?;
        v.writeback.forget(file);
        Err(Error::Invariant("a freed inode has dirty pages"))
    });
}

#[test]
fn commit() {
    assert_stops("more valid blocks than are counted", |v, _| {
        v.space.counts.release_blocks(1)?;
        v.commit.checkpoint(CheckpointReason::Umount)
    });
    assert_stops("node counts of the SIT", |v, _| {
        v.space.counts.reserve_node(false)?;
        v.commit.checkpoint(CheckpointReason::Umount)
    });
    assert_stops("a checkpoint contradicts the geometry", |v, _| {
        let mut cp = v.commit.cp.lock();
        cp.header.view_mut::<RawCheckpoint>().user_block_count = U64::new(0);
        drop(cp);
        v.commit.checkpoint(CheckpointReason::Umount)
    });
    assert_stops("while a checkpoint is in progress", |v, file| {
        let _on = v.commit.in_progress.begin(u64::MAX);
        v.nodes.cache.modify_inode(&v.base.tx.begin(), &file.frame, |i| i.i_links = 1.into());
        v.commit.checkpoint(CheckpointReason::Umount)
    });
    assert_stops("fsync found a node of another file", |v, file| {
        v.set_fsync_lookup(FsyncLookup::Global);
        let other = v.mknod(Ino::ROOT, b"g", 0o100_644, (0, 0), Owner::default())?.ino;
        v.write(file.ino, 1_000 * BLOCK, &[8; 4096])?;
        let Place::Span(span) = v.nodes.find_span(&file.frame, 1_000)? else { panic!("a hole") };
        v.nodes.cache.modify(&v.base.tx.begin(), &span.frame, |block| {
            block.view_mut::<RawNode>().footer.ino = other.0.into();
        });
        match v.fsync(other) {
            // Another invariant, when the node is written.
            Err(other @ Error::Invariant(_)) => Err(other),
            _ => Err(Error::Invariant("fsync found a node of another file")),
        }
    });
}

/// The number of the open epoch goes back while a commit waits for another one.
#[test]
fn an_epoch_that_is_durable_is_not_committed_again() {
    let dev = Arc::new(MemDevice::new(112 * 256));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    let size = MkfsOptions { blocks: Some(96 * 256), ..MkfsOptions::default() };
    segno_mkfs::format(&[member], &size).unwrap();
    let options = MountOptions { background: false, journal: JournalMode::On, ..MountOptions::default() };
    let v = Volume::mount(dev, options).unwrap();
    v.mknod(Ino::ROOT, b"f", 0o100_644, (0, 0), Owner::default()).unwrap();
    v.commit.sync_metadata().unwrap();
    let (epochs, journal) = (&v.base.tx.epochs, v.commit.journal().unwrap());
    // A commit that had not begun when the number changed finds that its epoch is durable.
    let again = (0..100).find_map(|_| {
        let commits = journal.commits.lock();
        std::thread::scope(|scope| {
            let commit = scope.spawn(|| v.commit.sync_metadata());
            std::thread::sleep(Duration::from_millis(20));
            epochs.set(commits.newest);
            drop(commits);
            let done = commit.join().unwrap();
            epochs.set(epochs.open() + 1);
            done.err()
        })
    });
    let why = "an epoch of the journal is committed twice";
    assert!(matches!(again, Some(Error::Invariant(found)) if found == why), "{again:?}");
    assert!(v.is_stopped());
}

#[test]
fn gc() {
    assert_stops("a victim is being filled", |v, _| {
        let [at, ..] = v.space.log_states();
        let class = segno_clean::Class::Data;
        let sec = v.base.geo.sec_of(at.segno).0;
        let victim = v.gc.pin_victim(|_| Some(Victim { sec, class }));
        assert!(victim.is_none());
        Err(Error::Invariant("a victim is being filled"))
    });
}
