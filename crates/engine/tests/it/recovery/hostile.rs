//! Damaged chains: an error or a mount, never a panic.
use super::*;
use segno_format::Block;
use segno_format::node::RawNode;

#[test]
fn damaged_chains_do_not_panic() {
    let rig = Rig::new(FsyncMode::Posix);
    rig.file("old", &pattern(1, 2_000 * BLOCK));
    rig.v.mkdir(Ino::ROOT, b"dir", 0o755, Owner::default()).unwrap();
    rig.v.sync().unwrap();
    rig.v.write(rig.ino("old"), 0, &pattern(2, 1_500 * BLOCK)).unwrap();
    rig.fsync(rig.ino("old"));
    let new = create_in(&rig.v, rig.ino("dir"), "new");
    rig.v.write(new, 0, &pattern(3, 1_200 * BLOCK)).unwrap();
    rig.v.setxattr(new, b"user.big", &pattern(4, 2_000), segno_engine::XattrMode::Set).unwrap();
    rig.fsync(new);
    rig.fsync(rig.file("inline", b"abc"));
    let geo = rig.v.superblock().geo;
    let is_logged = |addr: &u64| {
        let mut block = [Block::zeroed()];
        rig.dev.read(*addr, &mut block).unwrap();
        let [block] = &block;
        let footer = block.view::<RawNode>().footer;
        footer.next_blkaddr.get() == *addr as u32 + 1 && footer.is_cold()
    };
    let chain: Vec<u64> = (geo.main_blkaddr.into()..geo.main_end().into()).filter(is_logged).collect();
    assert!(chain.len() > 6, "{chain:?}");
    let base = rig.dev.snapshot();
    let mut rng = 0x5E60_0666_u64;
    let mut next = |n: usize| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) as usize % n
    };
    let mut mounted = 0;
    for _ in 0..400 {
        let dev = Arc::new(MemDevice::from_snapshot(&base));
        let addr = chain[next(chain.len())];
        let mut blocks = [Block::zeroed()];
        dev.read(addr, &mut blocks).unwrap();
        let [block] = &mut blocks;
        // Fields of the inode, slots, or the footer except its stamp.
        let range = [0..360, 360..BLOCK - 24, BLOCK - 24..BLOCK - 12, BLOCK - 4..BLOCK][next(4)].clone();
        for _ in 0..=next(4) {
            let at = range.start + next(range.len());
            block.0[at] = [0, 0xff, next(256) as u8][next(3)];
        }
        dev.write(addr, &[block]).unwrap();
        let Ok(v) = Volume::mount(dev, quiet()) else { continue };
        mounted += 1;
        for name in names_in(&v, Ino::ROOT) {
            let Ok(attr) = v.lookup(Ino::ROOT, name.as_bytes()) else { continue };
            let _any = v.read(attr.ino, 0, &mut vec![0; 4 * BLOCK]);
            let _any = v.read(attr.ino, attr.size / 2, &mut vec![0; 4 * BLOCK]);
        }
        let _any = v.unmount();
    }
    assert!((20..400).contains(&mounted), "{mounted} of 400 mounted");
}
