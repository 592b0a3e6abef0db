//! A device in front of another one, with its writes in memory.
use segno_device::{BlockDevice, MemDevice, Overlay, ZoneLimits};
use segno_format::Block;
use segno_testkit::blocks::{read, write};
use segno_testkit::{ZoneShape, ZonedDevice};
use std::io;
use std::sync::Arc;

#[test]
fn writes_stay_in_memory() {
    let base = Arc::new(MemDevice::new(8));
    write(&*base, 0, &[1, 2, 3, 4]);
    let overlay = Overlay::new(base.clone());
    write(&overlay, 1, &[9, 8]);
    overlay.discard(0, 1).unwrap();
    assert_eq!(read(&overlay, 0, 5), [1, 9, 8, 4, 0]);
    assert_eq!(read(&*base, 0, 5), [1, 2, 3, 4, 0]);
    assert_eq!(overlay.written(), [1, 2]);
    assert_eq!(overlay.write(8, &[&Block::zeroed()]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn blocks_beyond_the_limit_are_refused() {
    let base = Arc::new(MemDevice::new(8));
    let overlay = Overlay::with_limit(base, 3);
    write(&overlay, 1, &[9, 8]);
    write(&overlay, 0, &[7, 6]);
    assert!(!overlay.is_exhausted());
    let block = Block::zeroed();
    let refused = overlay.write(2, &[&block, &block]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
    assert_eq!((read(&overlay, 0, 4), overlay.is_exhausted()), (vec![7, 6, 8, 0], true));
    assert_eq!(overlay.written(), [0, 1, 2]);
}

/// A replay in memory follows the write pointers as on the device. The device is unchanged.
#[test]
fn zones_are_written_in_order() {
    let shape =
        ZoneShape { zones: 3, conventional: 1, blocks: 8, capacity: 6, limits: ZoneLimits::default() };
    let base = Arc::new(ZonedDevice::new(shape));
    write(&*base, 8, &[1, 2]);
    let overlay = Overlay::new(base.clone());
    write(&overlay, 3, &[7]);
    write(&overlay, 10, &[3]);
    let refused = overlay.write(12, &[&Block::zeroed()]).unwrap_err();
    assert!(refused.to_string().contains("not at the pointer 11"), "{refused}");
    overlay.reset_zone(8).unwrap();
    write(&overlay, 8, &[9]);
    overlay.finish_zone(16).unwrap();
    let pointers = |d: &dyn BlockDevice| d.zones().unwrap().iter().map(|z| z.pointer).collect::<Vec<_>>();
    assert_eq!((pointers(&overlay), pointers(&*base)), (vec![0, 9, 24], vec![0, 10, 16]));
    assert_eq!(read(&*base, 8, 2), [1, 2]);
}
