//! The device in memory.
use proptest::prelude::*;
use segno_device::{BlockDevice, MemDevice};
use segno_testkit::blocks::{block, compare_with_array, read, write};
use std::sync::Arc;

#[test]
fn a_snapshot_and_its_copies_go_their_own_ways() {
    let device = MemDevice::new(100);
    write(&device, 10, &[1, 2]);
    let snapshot = device.snapshot();
    write(&device, 10, &[3]);
    device.discard(11, 1).unwrap();
    let (a, b) = (MemDevice::from_snapshot(&snapshot), MemDevice::from_snapshot(&snapshot));
    write(&a, 11, &[9]);
    assert_eq!(read(&device, 10, 2), [3, 0]);
    assert_eq!(read(&a, 10, 2), [1, 9]);
    assert_eq!(read(&b, 10, 2), [1, 2]);
}

#[test]
fn a_shared_block_is_not_copied_until_written() {
    let device = MemDevice::new(8);
    let shared = Arc::new(block(5).0);
    device.write_shared(2, &shared).unwrap();
    assert!(device.write_shared(8, &shared).is_err());
    assert_eq!(read(&device, 1, 2), [0, 5]);
    assert_eq!(Arc::strong_count(&shared), 2);
    write(&device, 2, &[6]);
    assert_eq!((shared[0], read(&device, 2, 1)), (5, vec![6]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn behaves_like_an_array(ops in prop::collection::vec((0u8..4, 0u64..400, 0u64..200, 0u8..4), 1..40)) {
        compare_with_array(&MemDevice::new(400), &ops);
    }
}
