//! Cleaning, quota and nearly full volumes with a journal.
use super::{FILE, Rig, format_with};
use segno_engine::lab::Probe;
use segno_engine::{Owner, SetAttr};
use segno_format::{Features, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::Rng;

const BLOCK: usize = 4096;

/// Files with known content per block.
struct Files {
    inos: Vec<Ino>,
    /// The byte in each block.
    bytes: Vec<Vec<u8>>,
}

impl Files {
    fn make(rig: &Rig, count: usize, blocks: usize) -> Self {
        let one = |i: usize| rig.file(&format!("f{i}"), &vec![i as u8; blocks * BLOCK]);
        Self {
            inos: (0..count).map(one).collect(),
            bytes: (0..count).map(|i| vec![i as u8; blocks]).collect(),
        }
    }
    fn overwrite(&mut self, rig: &Rig, rng: &mut Rng) {
        let file = rng.below(self.inos.len() as u64) as usize;
        let block = rng.below(self.bytes[file].len() as u64) as usize;
        let byte = rng.below(256) as u8;
        self.bytes[file][block] = byte;
        rig.v.write(self.inos[file], (block * BLOCK) as u64, &[byte; BLOCK]).unwrap();
    }
    fn verify(&self, rig: &Rig) {
        let mut buf = [0; BLOCK];
        for (ino, bytes) in self.inos.iter().zip(&self.bytes) {
            for (block, byte) in bytes.iter().enumerate() {
                rig.v.read(*ino, (block * BLOCK) as u64, &mut buf).unwrap();
                assert!(buf == [*byte; BLOCK], "inode {ino}, block {block}");
            }
        }
    }
}

#[test]
fn moved_blocks_are_replayed() {
    let mut rig = Rig::new();
    let mut rng = Rng::new(0x5eed);
    let mut files = Files::make(&rig, 24, 200);
    rig.v.sync().unwrap();
    for _ in 0..3000 {
        files.overwrite(&rig, &mut rng);
    }
    // A checkpoint makes the holes visible to cleaning; the moves are then in the journal only.
    rig.v.unmount().unwrap();
    rig.crash();
    for _ in 0..8 {
        Probe(&rig.v).clean_once().unwrap();
    }
    files.overwrite(&rig, &mut rng);
    rig.v.sync().unwrap();
    assert!(rig.stat("gc_data_blocks") > 100, "{} blocks moved", rig.stat("gc_data_blocks"));
    rig.crash();
    files.verify(&rig);
    rig.judge();
    files.verify(&rig);
}

#[test]
fn a_nearly_full_volume_survives_repeated_crashes() {
    let mut rig = Rig::on(format_with(64, &MkfsOptions::default()));
    let mut rng = Rng::new(77);
    let free = rig.v.statfs().bavail as usize;
    let mut files = Files::make(&rig, 16, free * 8 / 10 / 16);
    for round in 0..6 {
        for i in 0..1500 {
            files.overwrite(&rig, &mut rng);
            if i % 100 == 99 {
                rig.v.fsync(files.inos[0], false).unwrap();
            }
        }
        rig.v.sync().unwrap();
        rig.crash();
        files.verify(&rig);
        if round % 2 == 0 {
            rig.judge();
        }
    }
}

#[test]
fn quota_usage_follows_replay() {
    let features = Features::EXTRA_ATTR | Features::PRJQUOTA | Features::QUOTA_INO | Features::LOST_FOUND;
    let mut rig = Rig::on(format_with(64, &MkfsOptions { features, ..MkfsOptions::default() }));
    for i in 0..30u32 {
        let owner = Owner { uid: i % 4, gid: i % 3, umask: 0 };
        let ino = rig.v.mknod(Ino::ROOT, format!("f{i}").as_bytes(), FILE, (0, 0), owner).unwrap().ino;
        rig.v.write(ino, 0, &vec![1; 5000 * i as usize]).unwrap();
        if i % 5 == 0 {
            rig.v.setattr(ino, &SetAttr { uid: Some(9), ..SetAttr::default() }).unwrap();
            rig.v.set_projid(ino, 42).unwrap();
        }
    }
    rig.v.sync().unwrap();
    rig.v.unlink(Ino::ROOT, b"f7").unwrap();
    rig.v.sync().unwrap();
    rig.crash();
    // The checker counts independently.
    rig.judge();
    assert_eq!(rig.stat("quota_needs_check"), 0);
}
