//! Engine threads do not inherit the scheduling policy or the affinity of the queue thread that starts them.
use segno_device::MemDevice;
use segno_engine::{Background, MountOptions, Owner, Volume};
use segno_mkfs::{Member, MkfsOptions};
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const NAME: &str = "segno-writeback";

fn threads(name: &str) -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let named = tasks.filter(|t| fs::read_to_string(t.path().join("comm")).is_ok_and(|n| n.trim() == name));
    named.filter_map(|t| t.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn writeback_does_not_inherit_the_idle_policy() {
    let device = Arc::new(MemDevice::new(128 * 256));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
    let options = MountOptions { cache_bytes: 8 << 20, ..MountOptions::default() };
    let volume = Volume::mount(device, options).unwrap();
    let background = Background::start(&volume).unwrap();
    let writer = {
        let volume = volume.clone();
        thread::spawn(move || {
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: reads one structure through its pointer; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) }, 0);
            let file = volume.mknod(volume.root(), b"f", 0o100_644, (0, 0), Owner::default()).unwrap().ino;
            for mib in 0..32 {
                volume.write(file, mib << 20, &[1; 1 << 20]).unwrap();
            }
        })
    };
    writer.join().unwrap();
    let late = Instant::now() + Duration::from_secs(20);
    while threads(NAME).is_empty() && Instant::now() < late {
        thread::yield_now();
    }
    let started = threads(NAME);
    assert!(!started.is_empty(), "no writeback thread");
    // SAFETY: reads the policy of a thread by its id.
    let idle = |&thread: &i32| unsafe { libc::sched_getscheduler(thread) } == libc::SCHED_IDLE;
    assert!(!started.iter().any(idle));
    drop(background);
    volume.unmount().unwrap();
}
