//! A volume with a tree, aged by overwriting, renaming and deleting, and the tree that is expected.
use segno::{Device, Features, FormatOptions, MountOptions, SetMetadata, Volume};
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use segno_rescue::scan::BadBlocks;
use segno_rescue::{Found, RescueError, ScanOptions, scan};
use segno_testkit::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Content and mode of each file, by path without a slash at the beginning.
pub type Oracle = BTreeMap<String, (Vec<u8>, u32)>;

pub struct Aged {
    pub device: Arc<MemDevice>,
    pub files: Oracle,
}

pub fn features() -> Features {
    Features::EXTRA_ATTR | Features::INODE_CHKSUM | Features::INODE_CRTIME | Features::SB_CHKSUM
}

pub fn volume(mib: u64, features: Features) -> (Arc<MemDevice>, Volume) {
    let device = Arc::new(MemDevice::new(mib << 8));
    let handle = Device::from(device.clone() as Arc<dyn BlockDevice>);
    let options = FormatOptions { features, uuid: Some([7; 16]), ..Default::default() };
    segno::format(&handle, &options).unwrap();
    (device, open(&handle))
}

fn open(handle: &Device) -> Volume {
    let options = MountOptions::new().background(false).discard(segno::Discard::Never).cache_bytes(16 << 20);
    Volume::open_with(handle, &options).unwrap()
}

pub fn reopen(device: &Arc<MemDevice>) -> Volume {
    open(&Device::from(device.clone() as Arc<dyn BlockDevice>))
}

pub fn content(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(10) {
        0 => 0,
        1..4 => rng.below(3000),
        4..9 => rng.below(40_000),
        _ => 40_000 + rng.below(400_000),
    };
    let tag = rng.draw();
    (0..len).map(|i| (i.wrapping_mul(tag | 1) >> 7) as u8 | 1).collect()
}

/// `n` files in directories three deep; then some are overwritten, renamed and deleted, with syncs in between.
pub fn aged(seed: u64, n: usize, mib: u64, features: Features, rounds: u64) -> Aged {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let (device, volume) = volume(mib, features);
    let mut files = Oracle::new();
    for i in 0..n {
        let dir = format!("d{}/e{}/f{}", i % 7, i % 13, i % 3);
        volume.create_dir_all(&dir).unwrap();
        write(&volume, &mut files, format!("{dir}/file-{i:05}"), content(&mut rng), i);
    }
    volume.sync().unwrap();
    for round in 0..rounds {
        for i in 0..n / 4 {
            let Some(path) = files.keys().nth(rng.index(files.len())).cloned() else { break };
            match rng.below(8) {
                0 => {
                    volume.remove_file(&path).unwrap();
                    files.remove(&path);
                }
                1 => {
                    let to = format!("d{}/moved-{round}-{i}", rng.below(7));
                    volume.rename(&path, &to).unwrap();
                    let moved = files.remove(&path).unwrap();
                    files.insert(to, moved);
                }
                2 => write(&volume, &mut files, format!("d0/new-{round}-{i}"), content(&mut rng), i),
                _ => write(&volume, &mut files, path, content(&mut rng), i),
            }
        }
        volume.sync().unwrap();
    }
    volume.close().unwrap();
    Aged { device, files }
}

fn write(volume: &Volume, files: &mut Oracle, path: String, bytes: Vec<u8>, i: usize) {
    let mode = 0o600 + (i % 64) as u32;
    volume.write(&path, &bytes).unwrap();
    volume.set_metadata(&path, &SetMetadata::new().mode(mode)).unwrap();
    files.insert(path, (bytes, mode));
}

pub fn look(device: &dyn BlockDevice) -> Result<Found, RescueError> {
    let (bad, stop) = (BadBlocks::default(), AtomicBool::new(false));
    scan(device, &ScanOptions { threads: 2, known_bad: &bad, base: None, stop: &stop }, &|_| {})
}

/// Overwrites blocks with zeros, or with noise.
pub fn wipe(device: &MemDevice, blocks: std::ops::Range<u32>, noise: Option<&mut Rng>) {
    let mut block = Block::zeroed();
    if let Some(rng) = noise {
        block.0.iter_mut().for_each(|b| *b = rng.draw() as u8);
    }
    blocks.for_each(|at| device.write(at.into(), &[&block]).unwrap());
}
