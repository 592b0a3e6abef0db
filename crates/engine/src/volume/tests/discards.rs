//! The queue of discards.
use crate::options::{Discard, MountOptions};
use crate::volume::Volume;
use segno_device::MemDevice;
use segno_format::SegNo;
use segno_mkfs::{Member, MkfsOptions};
use std::cell::Cell;
use std::sync::Arc;

/// The segment table of a large volume has millions of entries.
#[test]
fn only_a_rule_that_discards_searches_the_segment_table() {
    for (discard, searches) in [(Discard::Never, 0), (Discard::NOW, 1), (Discard::AfterBytes(1 << 30), 1)] {
        let dev = Arc::new(MemDevice::new(64 * 256));
        let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
        let opts = MountOptions { background: false, discard, ..MountOptions::default() };
        let v = Volume::mount(dev, opts).unwrap();
        let searched = Cell::new(0);
        v.commit.queue_discards(|_| {
            searched.set(searched.get() + 1);
            vec![SegNo(0)]
        });
        assert_eq!(searched.get(), searches, "{discard:?}");
    }
}
