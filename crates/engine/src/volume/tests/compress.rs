//! Compressed files written by the kernel. Only LZO is encoded here; the codec's own tests cover the others.
use super::rig::Rig;
use crate::error::Error;
use crate::files::{Batch, FlushReason, Inode};
use crate::types::{ExtentKind, FallocMode};
use segno_codec::lzo;
use segno_format::cluster::{CHECKSUM, RawClusterHeader};
use segno_format::inode::{Inline, InodeFlags};
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Features, crc};
use std::sync::Arc;
use zerocopy::little_endian::{U16, U32, U64};

const CLUSTER: usize = 4;
const HEADER: usize = size_of::<RawClusterHeader>();

fn rig() -> Rig {
    Rig::new(Features::EXTRA_ATTR | Features::COMPRESSION)
}

impl Rig {
    /// An empty file with compression enabled.
    fn create_compressed(&self) -> Arc<Inode> {
        let v = &self.volume;
        let inode = self.create(b"f");
        v.nodes.cache.modify_inode(&v.base.tx.begin(), &inode.frame, |raw| {
            raw.i_flags = U32::new(InodeFlags::COMPR.bits());
            raw.i_inline &= !Inline::DATA.bits();
            let mut extra = raw.extra();
            extra.i_compress_algorithm = 0;
            extra.i_log_cluster_size = 2;
            extra.i_compress_flag = U16::new(CHECKSUM);
            raw.set_extra(&extra);
        });
        inode
    }

    /// Stores a compressed cluster in place of a hole.
    fn store(&self, inode: &Arc<Inode>, cluster: u64, plain: &[u8], released: bool) {
        let v = &self.volume;
        let data = lzo::compress(plain);
        let mut payload = (data.len() as u32).to_le_bytes().to_vec();
        payload.extend(crc(segno_format::F2FS_MAGIC, &data).to_le_bytes());
        payload.resize(HEADER, 0);
        payload.extend(data);
        payload.resize(payload.len().next_multiple_of(BLOCK_SIZE), 0);
        let stored = payload.len() / BLOCK_SIZE;
        assert!((1..CLUSTER).contains(&stored));
        let op = v.base.tx.begin();
        let (frame, first) = v.nodes.dnode_for_write(&op, &inode.frame, cluster * CLUSTER as u64).unwrap();
        let owner = |i: usize| {
            RawSummary::data(frame.nid, v.nodes.nat.get(frame.nid).unwrap().version, first as u16 + i as u16)
        };
        let owners: Vec<RawSummary> = (1..=stored).map(owner).collect();
        let mut placed = v.space.allocate(LogType::ColdData, &owners).unwrap();
        let addrs = placed.addrs.clone();
        let rest = if released { BlockAddr::NULL } else { BlockAddr::NEW };
        let mut slots = vec![rest; CLUSTER];
        slots[0] = BlockAddr::COMPRESS;
        for (i, (&addr, bytes)) in addrs.iter().zip(payload.chunks(BLOCK_SIZE)).enumerate() {
            v.base.dev.write(addr, &[&Block(bytes.try_into().unwrap())]).unwrap();
            v.space.publish(&mut placed, &[addr], &[]).unwrap();
            slots[i + 1] = addr;
        }
        for (i, &addr) in (first..).zip(&slots) {
            v.nodes.set_slot(&op, &inode.frame, &frame, i, addr).unwrap();
        }
        let counted = if released { stored } else { CLUSTER };
        v.space.counts.reserve_blocks(counted as u64).unwrap();
        v.nodes.add_blocks(&op, &inode.frame, counted as i64);
        v.nodes.cache.modify_inode(&op, &inode.frame, |raw| {
            let end = (cluster as usize + 1) * CLUSTER * BLOCK_SIZE;
            raw.i_size = U64::new(raw.i_size.get().max(end as u64));
            let mut extra = raw.extra();
            if released {
                raw.i_inline |= Inline::COMPRESS_RELEASED.bits();
            } else {
                extra.i_compr_blocks = U64::new(extra.i_compr_blocks.get() + (CLUSTER - stored) as u64);
            }
            raw.set_extra(&extra);
        });
    }
}

/// Data of a cluster that compresses to one block, or to two or three.
fn compressible(tag: u8, hard: bool) -> Vec<u8> {
    let mut x = u32::from(tag) | 1;
    let mut noise = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    let noisy_from = CLUSTER * BLOCK_SIZE / if hard { 2 } else { 1 };
    let byte = |i| if i < noisy_from { tag.wrapping_add((i / 100) as u8) } else { noise() };
    (0..CLUSTER * BLOCK_SIZE).map(byte).collect()
}

const SIZE: u64 = (CLUSTER * BLOCK_SIZE) as u64;

#[test]
fn clusters_of_all_kinds_in_one_file() {
    let mut rig = rig();
    let inode = rig.create_compressed();
    let ino = inode.ino;
    let mut expected = compressible(3, false);
    rig.store(&inode, 0, &expected, false);
    // A hole, then a cluster of noise written by Segno, which stays plain, then one in the first direct node (864 slots, 216 clusters).
    expected.resize(SIZE as usize * 2, 0);
    let mut rng = segno_testkit::Rng::new(7);
    let plain: Vec<u8> = (0..SIZE).map(|_| rng.draw() as u8).collect();
    assert_eq!(rig.volume.write(ino, 2 * SIZE, &plain).unwrap(), plain.len());
    expected.extend(&plain);
    expected.resize(SIZE as usize * 216, 0);
    expected.extend(compressible(9, true));
    rig.store(&inode, 216, &compressible(9, true), false);
    drop(inode);
    for round in 0..2 {
        for (offset, len) in
            [(0, expected.len()), (5000, 9000), (SIZE - 1, 2), (216 * SIZE - 3, 8000), (3 * SIZE, 7)]
        {
            let end = (offset as usize + len).min(expected.len());
            let same = rig.read(ino, offset, len) == expected[offset as usize..end];
            assert!(same, "{len} bytes at {offset}, round {round}");
        }
        rig.remount();
    }
    let v = &rig.volume;
    let kinds: Vec<_> = v.extents(ino).unwrap().iter().map(|e| (e.file_block, e.len, e.kind)).collect();
    let (compressed, written) = (ExtentKind::Compressed, ExtentKind::Written);
    assert_eq!(kinds, [(0, 4, compressed), (8, 4, written), (864, 4, compressed)]);
    assert_eq!(v.seek_hole(ino, 100).unwrap(), SIZE);
    assert_eq!(v.seek_data(ino, SIZE).unwrap(), 2 * SIZE);
    assert_eq!(v.seek_data(ino, 3 * SIZE).unwrap(), 216 * SIZE);
    assert_eq!(v.seek_hole(ino, 216 * SIZE + 9000).unwrap(), 217 * SIZE);
}

#[test]
fn clusters_are_changed_and_freed() {
    let mut rig = rig();
    let inode = rig.create_compressed();
    let ino = inode.ino;
    (0..3).for_each(|c| rig.store(&inode, c, &compressible(c as u8, c == 1), false));
    let mut expected: Vec<u8> = (0..3).flat_map(|c| compressible(c, c == 1)).collect();
    let v = rig.volume.clone();
    v.write(ino, SIZE + 5, b"x").unwrap();
    v.write(ino, 3 * SIZE - 1, b"xy").unwrap();
    expected[SIZE as usize + 5] = b'x';
    expected.truncate(3 * SIZE as usize - 1);
    expected.extend(b"xy");
    v.fallocate(ino, FallocMode::PunchHole, 0, 5000).unwrap();
    expected[..5000].fill(0);
    v.fallocate(ino, FallocMode::ZeroRange, SIZE, 3000).unwrap();
    expected[SIZE as usize..][..3000].fill(0);
    let moved = v.fallocate(ino, FallocMode::CollapseRange, 0, SIZE);
    assert!(matches!(moved, Err(Error::NotSupported(_))), "{moved:?}");
    drop((inode, v));
    for _ in 0..2 {
        assert!(rig.read(ino, 0, 1 << 20) == expected);
        rig.remount();
    }
    rig.truncate(ino, 2 * SIZE + 100).unwrap();
    rig.truncate(ino, 3 * SIZE).unwrap();
    expected.resize(3 * SIZE as usize, 0);
    expected[2 * SIZE as usize + 100..].fill(0);
    for _ in 0..2 {
        assert!(rig.read(ino, 0, 1 << 20) == expected);
        rig.remount();
    }
    rig.truncate(ino, 0).unwrap();
    assert_eq!(rig.volume.compress_blocks(ino).unwrap(), 0);
    rig.remount();
    assert_eq!(rig.volume.getattr(ino).unwrap().blocks, 0);
}

#[test]
fn released_files_are_read_and_emptied_only() {
    let mut rig = rig();
    let inode = rig.create_compressed();
    let ino = inode.ino;
    (0..2).for_each(|c| rig.store(&inode, c, &compressible(c as u8, true), true));
    drop(inode);
    rig.remount();
    assert!(rig.read(ino, SIZE, 1 << 20) == compressible(1, true));
    let v = rig.volume.clone();
    assert!(matches!(v.write(ino, 9 * SIZE, b"x"), Err(Error::NotPermitted(_))));
    assert!(matches!(rig.truncate(ino, SIZE), Err(Error::NotPermitted(_))));
    rig.truncate(ino, 0).unwrap();
    assert_eq!(v.write(ino, 0, b"anew").unwrap(), 4);
    drop(v);
    rig.remount();
    assert_eq!(rig.read(ino, 0, 10), b"anew");
}

#[test]
fn damaged_clusters_are_reported() {
    let rig = rig();
    let inode = rig.create_compressed();
    rig.store(&inode, 0, &compressible(1, false), false);
    let v = &rig.volume;
    let addr = v.nodes.slot_addr(&inode.frame, 1).unwrap();
    let good = v.base.dev.read(addr).unwrap();
    let message = || v.read(inode.ino, 0, &mut [0; 10]).unwrap_err().to_string();
    for (byte, expected) in [(0, "length"), (4, "checksum"), (HEADER, "checksum")] {
        let mut bad = good.clone();
        bad.0[byte..byte + 4].copy_from_slice(&[0xFF; 4]);
        v.base.dev.write(addr, &[&bad]).unwrap();
        let text = message();
        assert!(text.contains("compressed cluster") && text.contains(expected), "{text}");
    }
    v.base.dev.write(addr, &[&good]).unwrap();
    v.nodes.set_slot(&v.base.tx.begin(), &inode.frame, &inode.frame, 1, BlockAddr::NEW).unwrap();
    assert!(message().contains("compressed cluster"));
    v.nodes.set_slot(&v.base.tx.begin(), &inode.frame, &inode.frame, 1, BlockAddr(7)).unwrap();
    assert!(message().contains("outside the main area"));
    v.nodes.set_slot(&v.base.tx.begin(), &inode.frame, &inode.frame, 1, BlockAddr(addr.0 + 5000)).unwrap();
    assert!(message().contains("not in use"));
}

/// A slot is emptied after the cluster was taken.
#[test]
fn a_cluster_is_published_in_reserved_slots_only() {
    let rig = rig();
    let inode = rig.create_compressed();
    let v = &rig.volume;
    v.write(inode.ino, 0, &compressible(3, false)).unwrap();
    let mut batch = Batch::new(v.base.next_serial(), FlushReason::Wanted);
    v.files.take_all(std::slice::from_ref(&inode), 0..CLUSTER as u64, &mut batch).unwrap();
    v.files.pack_batch(&mut batch);
    let placed = v.files.write_batch(&mut batch).unwrap();
    let op = v.base.tx.begin();
    v.nodes.set_slot(&op, &inode.frame, &inode.frame, 2, BlockAddr::NULL).unwrap();
    let published = v.files.publish_batch(&op, &batch, placed);
    let why = "a cluster is published in slots that are not reserved";
    assert!(matches!(published, Err(Error::Invariant(found)) if found == why), "{published:?}");
    assert!(v.is_stopped());
}
