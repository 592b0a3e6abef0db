//! Ages of segments.
use crate::clock::Clock;
use crate::options::MountOptions;
use crate::types::Time;
use crate::volume::Volume;
use segno_device::MemDevice;
use segno_mkfs::{Member, MkfsOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that only the test advances.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time { secs: 1, nsec: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn ages_go_by_the_clock_and_continue_after_a_remount() {
    let dev = Arc::new(MemDevice::new(256 * 256));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
    let clock = Arc::new(ManualClock::default());
    clock.0.store(1000, Ordering::Relaxed);
    let mount = || {
        let opts = MountOptions { background: false, ..MountOptions::default() };
        Volume::mount_with_clock(dev.clone(), opts, clock.clone()).unwrap()
    };
    let v = mount();
    let before = v.space.now();
    clock.0.fetch_add(5000, Ordering::Relaxed);
    assert_eq!(v.space.now(), before + 5000);
    v.unmount().unwrap();
    clock.0.fetch_add(700, Ordering::Relaxed);
    let v = mount();
    assert_eq!(v.space.now(), before + 5000, "only time that the volume was mounted counts");
}
