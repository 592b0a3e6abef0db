//! Durability of data and attributes after fsync, close and a remount.
use super::{PAGE, TRANSPORTS, cached, quiet_volume, stat};
use crate::options::Choice;
use crate::tests::{Mount, unmount_idle};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use segno_device::MemDevice;
use segno_engine::{MountOptions, Volume};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::{CrashChoice, CrashLog, Kept, RecordDevice, Rng};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

const BLOCKS: u64 = 128 * 256;

fn content(volume: &Volume, name: &str) -> Vec<u8> {
    let attr = volume.lookup(volume.root(), name.as_bytes()).unwrap();
    let mut bytes = vec![0; attr.size as usize];
    volume.read(attr.ino, 0, &mut bytes).unwrap();
    bytes
}

/// Power is cut right after fsync: with every write that was not flushed lost, synced files have their content, size and
/// times. The files stay open.
#[test]
fn after_fsync_a_cut_loses_nothing() {
    for (choice, journal) in TRANSPORTS.into_iter().flat_map(|c| [(c, false), (c, true)]) {
        let memory = Arc::new(MemDevice::new(BLOCKS));
        let member = Member { device: memory.clone(), path: String::new(), zeroed: true };
        let gap_blocks = if journal { 1024 } else { 0 };
        segno_mkfs::format(&[member], &MkfsOptions { gap_blocks, ..MkfsOptions::default() }).unwrap();
        let base = memory.snapshot();
        let device = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
        let mode = if journal { segno_engine::options::JournalMode::On } else { Default::default() };
        let options = || MountOptions { journal: mode.clone(), background: false, ..MountOptions::default() };
        let volume = Volume::mount(device.clone(), options()).unwrap();
        let Some(mount) = cached(volume, choice, &[]) else { continue };
        let mut rng = Rng::new(7);
        let synced: Vec<_> = [10, 3000, 5000, 300_000, 3_000_000]
            .into_iter()
            .map(|size| {
                let name = format!("f{size}");
                let mut file = File::create_new(mount.path().join(&name)).unwrap();
                let mut data: Vec<u8> = (0..size).map(|_| rng.draw() as u8).collect();
                file.write_all(&data).unwrap();
                for _ in 0..20 {
                    let at = rng.index(data.len());
                    data[at] ^= 1;
                    file.write_all_at(&data[at..=at], at as u64).unwrap();
                }
                if rng.one_in(2) {
                    file.sync_all().unwrap()
                } else {
                    file.sync_data().unwrap()
                }
                let times = stat(&file);
                (name, data, times, file)
            })
            .collect();
        device.mark("cut");
        let log = CrashLog::new(base.clone(), device.log()).unwrap();
        let cut = CrashChoice { cut: log.events().len(), kept: Kept::Nothing, torn: None };
        let after = Volume::mount(Arc::new(log.image(&cut)), options()).unwrap();
        for (name, data, (size, [mtime, mtime_nsec, ..]), _file) in synced {
            assert!(content(&after, &name) == data, "{name} after a cut, {choice:?}");
            let attr = after.lookup(after.root(), name.as_bytes()).unwrap();
            assert_eq!((attr.size, attr.mtime.secs, i64::from(attr.mtime.nsec)), (size, mtime, mtime_nsec));
        }
    }
}

/// Times are the ones that the kernel kept, not the times at which the data reached the server.
#[test]
fn sizes_and_times_survive_close_and_remount() {
    for choice in TRANSPORTS {
        let (device, volume) = quiet_volume(BLOCKS);
        let Some(mount) = cached(volume, choice, &[]) else { continue };
        let seen = change_and_stat(&mount);
        end(&mount);
        drop(mount);
        let options = MountOptions { background: false, ..MountOptions::default() };
        let volume = Volume::mount(device.clone(), options).unwrap();
        let Some(mount) = Mount::of(volume, choice, &[]) else { continue };
        for (name, before) in seen {
            assert_eq!(stat(&File::open(mount.path().join(&name)).unwrap()), before, "{name}");
        }
        end(&mount);
        let report = segno_check::check(&*device, &segno_check::CheckOptions::default(), &mut |_| {});
        assert!(report.unwrap().problems.is_empty());
    }
}

/// Changes files in several ways; returns name, size and times of each after its last close.
fn change_and_stat(mount: &Mount) -> Vec<(String, (u64, [i64; 4]))> {
    let path = |name: &str| mount.path().join(name);
    for name in ["written", "appended", "cut", "touched", "linked", "moved", "mode", "direct"] {
        fs::write(path(name), vec![3; 3 * PAGE + 5]).unwrap();
    }
    let later = std::time::Duration::from_millis(30);
    let files = ["written", "appended", "cut", "touched", "linked", "moved", "mode"]
        .map(|name| (name, File::options().write(true).open(path(name)).unwrap()));
    std::thread::sleep(later);
    for (i, (name, file)) in files.iter().enumerate() {
        file.write_all_at(&[4; 100], (i * PAGE) as u64).unwrap();
        match *name {
            "appended" => File::options().append(true).open(path(name)).unwrap().write_all(&[5; 9]).unwrap(),
            "cut" => file.set_len(PAGE as u64).unwrap(),
            "touched" => {
                let day = Timespec { tv_sec: 86_400, tv_nsec: 7 };
                let times = Timestamps { last_access: day, last_modification: day };
                utimensat(CWD, path(name), &times, AtFlags::empty()).unwrap();
            }
            "linked" => fs::hard_link(path(name), path("link")).unwrap(),
            "moved" => {
                fs::rename(path(name), path("x")).and_then(|()| fs::rename(path("x"), path(name))).unwrap();
            }
            "mode" => {
                fs::set_permissions(path(name), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap()
            }
            _ => {}
        }
    }
    // Data and times reach the server later than they were set.
    std::thread::sleep(later);
    let names = files.map(|(name, _closed)| name);
    names.iter().map(|name| ((*name).to_owned(), stat(&File::open(path(name)).unwrap()))).collect()
}

fn end(mount: &Mount) {
    unmount_idle(mount.path()).unwrap();
    mount.session.wait().unwrap();
    mount.server.volume.unmount().unwrap();
}

/// write(2) succeeds as the kernel does not know the space that is left; fsync reports what did not fit.
#[test]
fn a_full_volume_is_reported_by_fsync() {
    for choice in TRANSPORTS {
        let (_device, volume) = quiet_volume(BLOCKS / 2);
        let Some(mount) = cached(volume, choice, &[]) else { continue };
        let mut full = File::create(mount.path().join("full")).unwrap();
        let chunk = vec![1; 1 << 20];
        let mut synced = Ok(());
        for _ in 0..BLOCKS / 2 / 256 + 1 {
            full.write_all(&chunk).unwrap();
            synced = full.sync_all();
            if synced.is_err() {
                break;
            }
        }
        assert_eq!(synced.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        full.set_len(0).unwrap();
        full.write_all_at(b"fits", 0).unwrap();
        full.sync_all().unwrap();
    }
}

/// A server that is requested to end while files are open first receives the data in the kernel's cache.
#[test]
fn dirty_pages_reach_the_volume_before_the_session_ends() {
    for choice in [Choice::Classic, Choice::IoUring] {
        let (_device, volume) = quiet_volume(BLOCKS);
        let Some(mount) = cached(volume, choice, &[]) else { continue };
        let mut open = File::create(mount.path().join("open")).unwrap();
        open.write_all(&vec![6; 500_000]).unwrap();
        crate::mount::write_dirty_pages(mount.path()).unwrap();
        // The kernel has sent the requests, and some versions do not wait for the replies.
        let arrived = || content(&mount.server.volume, "open") == vec![6; 500_000];
        assert!((0..1000).any(|_| arrived() || {
            sleep(Duration::from_millis(5));
            false
        }));
    }
}
