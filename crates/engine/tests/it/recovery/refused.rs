//! Chains that recovery refuses: each with its reason, and without writes.
use super::*;
use segno_format::inode::RawInode;
use segno_format::node::RawNode;
use segno_format::summary::RawSummaryBlock;
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, Features};
use segno_testkit::RecordDevice;
use zerocopy::little_endian::{U16, U32, U64};

/// A volume with a chain after its checkpoint: of `old`, in its inode and a direct node, and of `new`.
struct Crashed {
    base: Arc<MemDevice>,
    old: Ino,
    new: Ino,
    /// Addresses of the logged inodes and the direct node.
    old_at: u64,
    direct_at: u64,
    new_at: u64,
}

fn block(dev: &MemDevice, addr: u64) -> Block {
    let mut out = [Block::zeroed()];
    dev.read(addr, &mut out).unwrap();
    let [block] = out;
    block
}

impl Crashed {
    fn new() -> Self {
        let rig = Rig::new(FsyncMode::Posix);
        let old = rig.file("old", &pattern(1, 1_200 * BLOCK));
        rig.v.sync().unwrap();
        rig.v.write(old, 0, &pattern(2, BLOCK)).unwrap();
        rig.v.write(old, 1_000 * BLOCK as u64, &pattern(3, BLOCK)).unwrap();
        rig.fsync(old);
        let new = rig.file("new", &pattern(4, 2 * BLOCK));
        rig.fsync(new);
        let geo = rig.v.superblock().geo;
        let base = Arc::new(MemDevice::from_snapshot(&rig.dev.snapshot()));
        // The log advances, so the last block of a node is the logged one.
        let last = |ino: Ino, of_inode: bool| {
            (u64::from(geo.main_blkaddr)..u64::from(geo.main_end())).rfind(|&addr| {
                let footer = block(&base, addr).view::<RawNode>().footer;
                let node = footer.ino.get() == ino.0 && footer.next_blkaddr.get() == addr as u32 + 1;
                node && of_inode == (footer.nid.get() == ino.0)
            })
        };
        let (old_at, direct_at) = (last(old, true).unwrap(), last(old, false).unwrap());
        let new_at = last(new, true).unwrap();
        Self { base, old, new, old_at, direct_at, new_at }
    }

    /// Edits one block of the chain; the mount must report the reason, and leave the device unchanged.
    fn refused(&self, at: u64, edit: impl FnOnce(&mut Block), why: &str) {
        self.refused_on(MemDevice::from_snapshot(&self.base.snapshot()), at, edit, why);
    }

    fn refused_on(&self, dev: MemDevice, at: u64, edit: impl FnOnce(&mut Block), why: &str) {
        let mut edited = block(&dev, at);
        edit(&mut edited);
        dev.write(at, &[&edited]).unwrap();
        let dev = Arc::new(RecordDevice::new(dev));
        match Volume::mount(dev.clone(), quiet()) {
            Err(e) => assert!(e.to_string().contains(why), "{e}, not {why}"),
            Ok(_) => panic!("mounted in spite of: {why}"),
        }
        assert_eq!(dev.log().len(), 0, "written: {why}");
    }
}

fn inode(b: &mut Block) -> &mut RawInode {
    b.view_mut()
}

#[test]
fn every_refusal_has_its_reason() {
    let c = Crashed::new();
    let footer = |b: &mut Block, f: fn(&mut RawNode)| f(b.view_mut());
    assert!(Volume::mount(Arc::new(MemDevice::from_snapshot(&c.base.snapshot())), quiet()).is_ok());
    let own = c.new_at as u32;
    c.refused(c.new_at, |b| b.view_mut::<RawNode>().footer.next_blkaddr = U32::new(own), "runs in a circle");
    c.refused(c.direct_at, |b| footer(b, |n| n.footer.nid = U32::new(u32::MAX)), "nid out of range");
    c.refused(c.new_at, |b| inode(b).i_pino = U32::new(c.old.0), "a name without a directory");
    c.refused(c.new_at, |b| inode(b).i_namelen = U32::new(0), "a name without a directory");
    c.refused(c.direct_at, |b| b.0[..4].copy_from_slice(&[1, 0, 0, 0]), "a slot names no data block");
    c.refused(c.new_at, |b| inode(b).i_mode = U16::new(0o120_777), "no regular file");
    c.refused(c.old_at, |b| inode(b).i_mode = U16::new(0o120_777), "file type changed");
    c.refused(c.new_at, |b| inode(b).i_blocks = U64::new(0), "i_blocks is 0");
    assert_ne!(c.old, c.new);
}

/// A node of the chain names a block in use; the summary has its owner.
#[test]
fn an_owner_with_a_slot_outside_its_node_is_refused() {
    let c = Crashed::new();
    let geo = RawSuperblock::from_block(&block(&c.base, 0).0).parse(0).unwrap().geo;
    let old = block(&c.base, c.old_at);
    let old: &RawInode = old.view();
    let used = old.slot(&old.layout(Features::empty()).unwrap(), 5);
    let (seg, off) = geo.seg_of(used).unwrap();
    let dev = MemDevice::from_snapshot(&c.base.snapshot());
    let summary_at = u64::from(geo.ssa_addr(seg).0);
    let mut summary = block(&dev, summary_at);
    let owner = &mut summary.view_mut::<RawSummaryBlock>().entries[off as usize];
    assert_eq!((owner.nid(), owner.ofs_in_node.get()), (c.old.nid(), 5));
    owner.ofs_in_node = U16::new(60_000);
    dev.write(summary_at, &[&summary]).unwrap();
    c.refused_on(dev, c.direct_at, |b| b.0[..4].copy_from_slice(&used.0.to_le_bytes()), "slot number");
}
