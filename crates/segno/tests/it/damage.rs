//! A directory whose only entry leads back to it, as no file system makes one.
use segno::{BlockDevice, Device, FormatOptions, Volume};
use segno_device::MemDevice;
use segno_format::Block;
use std::sync::Arc;

const BLOCKS: u64 = 16 << 10;

/// A volume where `/a/b` is `/a`.
fn looped() -> Device {
    let storage = Arc::new(MemDevice::new(BLOCKS));
    let device = Device::from(storage.clone() as Arc<dyn BlockDevice>);
    segno::format(&device, &FormatOptions::new()).unwrap();
    let volume = Volume::open(&device).unwrap();
    volume.create_dir_all("/a/b").unwrap();
    let ino = |path| volume.metadata(path).unwrap().ino();
    let (a, b) = (ino("/a"), ino("/a/b"));
    volume.close().unwrap();
    // An entry: inode number, length of the name, type.
    let entry = |ino: u32| [&ino.to_le_bytes()[..], &[1, 0, 2]].concat();
    let (mut found, mut block) = (0, [Block::zeroed()]);
    for addr in 0..BLOCKS {
        storage.read(addr, &mut block).unwrap();
        if let Some(at) = block[0].0.windows(7).position(|bytes| bytes == entry(b)) {
            block[0].0[at..at + 7].copy_from_slice(&entry(a));
            storage.write(addr, &[&block[0]]).unwrap();
            found += 1;
        }
    }
    assert!(found > 0, "no entry was found");
    device
}

#[test]
fn a_directory_that_contains_itself_ends_a_walk() {
    let device = looped();
    assert!(!segno::check(&device).unwrap().is_clean());
    let volume = Volume::open(&device).unwrap();
    let errors: Vec<_> = volume.walk("/").unwrap().filter_map(|entry| entry.err()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((errors[0].errno(), errors[0].path().unwrap().to_str()), (117, Some("/a/b")));
    let refused = volume.remove_dir_all("/a").unwrap_err();
    assert_eq!(refused.errno(), 117, "{refused}");
}
