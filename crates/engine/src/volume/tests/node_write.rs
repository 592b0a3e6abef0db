//! Nodes freed while they are written or moved.
use crate::nodes::{Marks, NodeWrite};
use crate::{MountOptions, Owner, Volume};
use segno_device::MemDevice;
use segno_format::sit::LogType;
use segno_format::{Ino, Nid};
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// A volume with one file in the checkpoint.
fn with_file() -> (Arc<MemDevice>, Arc<Volume>, Ino) {
    let dev = Arc::new(MemDevice::new(96 * 256));
    let member = segno_mkfs::Member { device: dev.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &segno_mkfs::MkfsOptions::default()).unwrap();
    let opts = MountOptions { background: false, ..MountOptions::default() };
    let v = Volume::mount(dev.clone(), opts).unwrap();
    let ino = v.mknod(Ino::ROOT, b"a", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    v.sync().unwrap();
    (dev, v, ino)
}

fn assert_gone(dev: &MemDevice, v: &Volume, nid: Nid) {
    assert!(!v.nodes.nat.get(nid).unwrap().addr.is_real());
    v.unmount().unwrap();
    let report = segno_check::check(dev, &segno_check::CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn a_node_freed_during_its_write_stays_freed() {
    let (dev, v, ino) = with_file();
    let stale = NodeWrite { frame: v.nodes.cache.get(ino.nid()).unwrap(), marks: Marks::default() };
    v.unlink(Ino::ROOT, b"a").unwrap();
    {
        let op = v.base.tx.begin();
        let _chain = v.base.tx.chain.lock();
        v.nodes.write_nodes(&op, LogType::WarmNode, &[stale]).unwrap();
    }
    assert!(!v.nodes.exists(ino).unwrap());
    assert_gone(&dev, &v, ino.nid());
}

#[test]
fn a_node_freed_during_cleaning_stays_freed() {
    let (dev, v, ino) = with_file();
    let inode = v.files.inode(ino).unwrap();
    let frame = v.names.xattrs.make_node(&v.base.tx.begin(), &inode).unwrap();
    v.sync().unwrap();
    std::thread::scope(|s| {
        let op = v.base.tx.begin();
        let there = || {
            // Cleaning has found the node; now it is freed as far as possible without waiting.
            s.spawn(|| v.nodes.free_node(&v.base.tx.begin(), frame.nid, ino).unwrap());
            while v.nodes.nat.get(frame.nid)?.addr.is_real() {
                std::thread::yield_now();
            }
            Ok(true)
        };
        assert!(v.nodes.cache.mark_moved(&op, &frame, there).unwrap());
    });
    v.nodes.cache.modify_inode(&v.base.tx.begin(), &inode.frame, |i| {
        (i.i_xattr_nid, i.i_blocks) = (U32::new(0), U64::new(1));
    });
    assert_gone(&dev, &v, frame.nid);
}
