//! Quota files match the checker's count after all operations and crashes.
use crate::common::{assert_clean, fresh, mount};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::{Error, FallocMode, Owner, RenameMode, SetAttr, Volume, XattrMode};
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::inode::RawInode;
use segno_format::{Block, Features, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::Rng;
use std::sync::Arc;

const BLOCK: u64 = 4096;

fn formatted(mib: u64) -> Arc<MemDevice> {
    let features = Features::EXTRA_ATTR | Features::PRJQUOTA | Features::QUOTA_INO | Features::LOST_FOUND;
    fresh(mib, &MkfsOptions { features, ..MkfsOptions::default() })
}

fn owner(uid: u32, gid: u32) -> Owner {
    Owner { uid, gid, umask: 0 }
}

fn create(v: &Volume, name: &str, owner: Owner) -> Ino {
    v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), owner).unwrap().ino
}

fn chown(v: &Volume, ino: Ino, uid: u32, gid: u32) {
    v.setattr(ino, &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() }).unwrap();
}

fn truncate(v: &Volume, ino: Ino, size: u64) {
    v.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

/// Whether the volume is flagged for a recount; the checker compares usage only if it is not.
fn in_doubt(v: &Volume) -> bool {
    v.report().iter().find(|(name, _)| *name == "quota_needs_check").unwrap().1 != 0
}

fn assert_exact(v: &Volume) {
    assert!(!in_doubt(v), "usage is in doubt");
}

/// Checks the durable state, as a crash would leave it.
fn judge(v: &Volume, dev: &MemDevice) {
    assert_exact(v);
    assert_clean(&MemDevice::from_snapshot(&dev.snapshot()));
}

/// Crashes, and mounts again.
fn crash(dev: &MemDevice) -> (Arc<MemDevice>, Arc<Volume>) {
    let dev = Arc::new(MemDevice::from_snapshot(&dev.snapshot()));
    let v = mount(&dev);
    (dev, v)
}

#[test]
fn usage_follows_every_change() {
    let dev = formatted(96);
    let v = mount(&dev);
    let step = || {
        v.sync().unwrap();
        judge(&v, &dev);
    };
    let a = create(&v, "a", owner(1000, 100));
    let b = create(&v, "b", owner(2000, 100));
    step();
    v.write(a, 0, &vec![7; 3_000_000]).unwrap();
    v.write(b, 20_000 * BLOCK, b"far").unwrap();
    step();
    v.setxattr(b, b"user.big", &[1; 3000], XattrMode::Set).unwrap();
    chown(&v, a, 3000, 70_000);
    v.set_projid(b, 42).unwrap();
    step();
    v.fallocate(b, FallocMode::Allocate, 0, 100 * BLOCK).unwrap();
    v.fallocate(a, FallocMode::PunchHole, BLOCK, 10 * BLOCK).unwrap();
    v.fallocate(a, FallocMode::CollapseRange, 0, 20 * BLOCK).unwrap();
    truncate(&v, a, 1_000_001);
    step();
    v.removexattr(b, b"user.big").unwrap();
    let d = v.mkdir(Ino::ROOT, b"d", 0o755, owner(5, 6)).unwrap().ino;
    v.set_projid(d, 9).unwrap();
    for i in 0..400 {
        v.mknod(d, format!("a name that takes room {i}").as_bytes(), 0o100_600, (0, 0), owner(i % 7, i))
            .unwrap();
    }
    v.symlink(d, b"link", &[b'x'; 4000], owner(8, 8)).unwrap();
    step();
    v.unlink(Ino::ROOT, b"a").unwrap();
    v.rename(d, b"link", Ino::ROOT, b"b", RenameMode::Replace, owner(0, 0)).unwrap();
    step();
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn many_ids_appear_and_disappear() {
    let dev = formatted(96);
    let v = mount(&dev);
    let file = |i: u32| format!("f{i}");
    let id = |i: u32| i.wrapping_mul(2_654_435_761);
    for i in 0..2_000 {
        create(&v, &file(i), owner(id(i), i));
    }
    v.sync().unwrap();
    judge(&v, &dev);
    for i in 0..1_990 {
        v.unlink(Ino::ROOT, file(i).as_bytes()).unwrap();
    }
    v.unmount().unwrap();
    assert_clean(&*dev);
    let v = mount(&dev);
    for i in 0..100 {
        create(&v, &file(i), owner(i, id(i)));
    }
    v.unmount().unwrap();
    assert_exact(&v);
    assert_clean(&*dev);
}

#[test]
fn recovery_accounts_for_replayed_blocks() {
    let dev = formatted(96);
    let v = mount(&dev);
    let old = create(&v, "old", owner(1, 1));
    v.write(old, 0, &[1; 200_000]).unwrap();
    let open = create(&v, "open", owner(4, 4));
    v.write(open, 0, &[1; 300_000]).unwrap();
    v.sync().unwrap();
    let new = create(&v, "new", owner(2, 2));
    v.write(new, 3_900_000, &[2; 100_000]).unwrap();
    v.setxattr(new, b"user.big", &[1; 3000], XattrMode::Set).unwrap();
    chown(&v, old, 3, 1);
    truncate(&v, old, 100_000);
    v.fsync(old).unwrap();
    v.fsync(new).unwrap();
    v.open(open).unwrap();
    let (dev, v) = crash(&dev);
    assert_eq!(v.lookup(Ino::ROOT, b"old").unwrap().uid, 3);
    assert_eq!(v.lookup(Ino::ROOT, b"new").unwrap().uid, 2);
    judge(&v, &dev);
    // Unlinked while open: the crash leaves an orphan, which the mount frees.
    v.open(open).unwrap();
    v.unlink(Ino::ROOT, b"open").unwrap();
    v.sync().unwrap();
    judge(&v, &dev);
    let (dev, v) = crash(&dev);
    v.unmount().unwrap();
    assert_exact(&v);
    assert_clean(&*dev);
}

#[test]
fn random_work_with_crashes() {
    let mut rng = Rng::new(0x5EED_0009);
    let mut dev = formatted(96);
    let mut v = mount(&dev);
    for _ in 0..40 {
        for _ in 0..30 {
            let name = format!("f{}", rng.below(20));
            let id = rng.below(6) as u32 * 1_000;
            let ino = match v.lookup(Ino::ROOT, name.as_bytes()) {
                Ok(found) => found.ino,
                Err(_) => create(&v, &name, owner(id, id + 1)),
            };
            let at = rng.below(2_000) * 1_000;
            match rng.below(8) {
                0 => v.unlink(Ino::ROOT, name.as_bytes()).unwrap(),
                1 => truncate(&v, ino, at),
                2 => chown(&v, ino, id, id),
                3 => v.set_projid(ino, id).unwrap(),
                4 => v
                    .setxattr(ino, b"user.x", &vec![3; 1 + rng.below(3_000) as usize], XattrMode::Set)
                    .unwrap(),
                5 => v.fsync(ino).unwrap(),
                _ => drop(v.write(ino, at, &vec![4; 1 + rng.below(60_000) as usize]).unwrap()),
            }
        }
        if rng.below(2) == 0 {
            v.sync().unwrap();
        }
        if rng.below(3) == 0 {
            (dev, v) = crash(&dev);
        }
        judge(&v, &dev);
    }
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn quota_usage_is_exact_once_a_full_volume_has_space() {
    let dev = formatted(64);
    let v = mount(&dev);
    let mut made = 0;
    let full = loop {
        let name = format!("{made}");
        let new = owner(made * 70_000, made);
        let ino = match v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), new) {
            Ok(attr) => attr.ino,
            Err(e) => break e,
        };
        made += 1;
        let full = (0..100).find_map(|i| v.write(ino, i * BLOCK, &[5; 4096]).err());
        if let Some(e) = full {
            break e;
        }
    };
    assert!(matches!(full, Error::NoSpace), "{full}");
    v.sync().unwrap();
    // New ids without space in the quota files, which are flagged.
    assert!(in_doubt(&v));
    for i in 0..made / 2 {
        v.unlink(Ino::ROOT, format!("{i}").as_bytes()).unwrap();
    }
    v.sync().unwrap();
    judge(&v, &dev);
}

/// Sets the flag of possibly wrong usage, as Linux or a mount out of space does.
fn flag(dev: &MemDevice, v: &Volume) {
    let geo = v.superblock().geo;
    for index in 0..2 {
        let start = geo.pack_addr(index);
        let mut head = [Block::zeroed()];
        dev.read(start.0.into(), &mut head).unwrap();
        let blocks = head[0].view::<RawCheckpoint>().cp_pack_total_block_count.get();
        for at in [start, start.offset(blocks.saturating_sub(1))] {
            let mut one = [Block::zeroed()];
            dev.read(at.0.into(), &mut one).unwrap();
            let [block] = &mut one;
            let cp: &mut RawCheckpoint = block.view_mut();
            cp.ckpt_flags.set((cp.flags() | CpFlags::QUOTA_NEED_FSCK).bits());
            RawCheckpoint::seal(block);
            dev.write(at.0.into(), &[block]).unwrap();
        }
    }
}

/// Edits the block of an inode in place, without updating the quota files.
fn edit_inode(dev: &MemDevice, v: &Volume, ino: Ino, edit: impl Fn(&mut RawInode)) {
    let geo = v.superblock().geo;
    for at in geo.main_blkaddr..geo.main_end() {
        let mut one = [Block::zeroed()];
        dev.read(at.into(), &mut one).unwrap();
        let raw: &mut RawInode = one[0].view_mut();
        if (raw.footer.nid.get(), raw.footer.ino.get()) == (ino.0, ino.0) {
            edit(raw);
            dev.write(at.into(), &[&one[0]]).unwrap();
        }
    }
}

/// A closed volume with files of several owners, one of whose inodes was edited without updating the quota files.
fn miscounted(edit: impl Fn(&mut RawInode)) -> Arc<MemDevice> {
    let dev = formatted(96);
    let v = mount(&dev);
    let changed = create(&v, "changed", owner(1000, 100));
    v.write(changed, 0, &vec![3; 1_000_000]).unwrap();
    for i in 0..700 {
        create(&v, &format!("f{i}"), owner(i % 5, i));
    }
    v.unmount().unwrap();
    edit_inode(&dev, &v, changed, edit);
    flag(&dev, &v);
    dev
}

#[test]
fn a_mount_recounts_usage_in_doubt() {
    let dev = miscounted(|raw| raw.i_uid.set(4242));
    let v = mount(&dev);
    // The mount ended with a checkpoint: the flag is cleared, and the files match the checker's count.
    judge(&v, &dev);
    create(&v, "new", owner(4242, 7));
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn a_recount_covers_what_recovery_replays_and_frees() {
    let dev = miscounted(|raw| raw.i_gid.set(4242));
    let v = mount(&dev);
    let orphan = create(&v, "orphan", owner(11, 12));
    v.write(orphan, 0, &vec![1; 500_000]).unwrap();
    v.open(orphan).unwrap();
    v.unlink(Ino::ROOT, b"orphan").unwrap();
    v.sync().unwrap();
    let synced = create(&v, "synced", owner(21, 22));
    v.write(synced, 0, &vec![2; 500_000]).unwrap();
    v.fsync(synced).unwrap();
    flag(&dev, &v);
    let (dev, v) = crash(&dev);
    judge(&v, &dev);
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn usage_stays_in_doubt_where_an_inode_cannot_be_read() {
    let dev = miscounted(|raw| raw.i_blocks.set(0));
    let v = mount(&dev);
    assert!(in_doubt(&v));
    v.unmount().unwrap();
    assert!(in_doubt(&mount(&dev)));
}
