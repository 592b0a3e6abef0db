//! Background work.
use crate::common::{assert_clean, fresh, quiet};
use segno_device::MemDevice;
use segno_engine::lab::Probe;
use segno_engine::{Background, MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn file(v: &Volume, name: &str, bytes: usize) -> Ino {
    let ino = v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino;
    v.write(ino, 0, &vec![7; bytes]).unwrap();
    ino
}

#[test]
fn a_step_makes_everything_durable() {
    let dev = fresh(96, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    file(&v, "a", 100_000);
    Probe(&v).tick().unwrap();
    let crashed = Arc::new(MemDevice::from_snapshot(&dev.snapshot()));
    assert_clean(&*crashed);
    let v2 = Volume::mount(crashed, quiet()).unwrap();
    assert_eq!(v2.lookup(Ino::ROOT, b"a").unwrap().size, 100_000);
    let before = v.stats().checkpoints.load(Ordering::Relaxed);
    Probe(&v).tick().unwrap();
    assert_eq!(v.stats().checkpoints.load(Ordering::Relaxed), before, "nothing changed");
}

#[test]
fn an_idle_volume_with_scattered_space_is_cleaned() {
    let dev = fresh(96, &MkfsOptions::default());
    let v = Volume::mount(dev.clone(), quiet()).unwrap();
    // Every segment keeps a few blocks of every second file.
    for i in 0..2_000 {
        file(&v, &i.to_string(), if i % 20 == 0 { 8_192 } else { 65_536 });
        if v.statfs().bfree < 100 {
            break;
        }
    }
    v.sync().unwrap();
    for i in (0..2_000).filter(|i| i % 20 != 0) {
        let _gone = v.unlink(Ino::ROOT, i.to_string().as_bytes());
    }
    Probe(&v).tick().unwrap();
    // Section age has a resolution of seconds, and a section younger than all others is not worth moving.
    std::thread::sleep(Duration::from_millis(1_100));
    file(&v, "young", 65_536);
    Probe(&v).tick().unwrap();
    let cleaned = || v.stats().gc_background.load(Ordering::Relaxed);
    assert_eq!(cleaned(), 0, "not while it is used");
    for _ in 0..5 {
        Probe(&v).tick().unwrap();
    }
    assert!(cleaned() > 0, "{:?}", v.stats().snapshot());
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn the_thread_commits_and_stops() {
    let dev = fresh(96, &MkfsOptions::default());
    let opts = MountOptions { background: true, commit_interval: 1, ..quiet() };
    let v = Volume::mount(dev.clone(), opts).unwrap();
    let background = Background::start(&v).unwrap();
    let before = v.stats().checkpoints.load(Ordering::Relaxed);
    file(&v, "a", 100_000);
    while v.stats().checkpoints.load(Ordering::Relaxed) == before {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(background);
    assert_eq!(Arc::strong_count(&v), 1);
    v.unmount().unwrap();
    assert_clean(&*dev);
}

#[test]
fn an_idle_thread_stops_at_once() {
    let dev = fresh(96, &MkfsOptions::default());
    let opts = MountOptions { background: true, commit_interval: u32::MAX, ..quiet() };
    let v = Volume::mount(dev, opts).unwrap();
    drop(Background::start(&v).unwrap());
}
