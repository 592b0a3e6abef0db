//! Volumes on the device: formatted, mounted, killed, recovered, checked, and copied for fsck.f2fs.
use super::mem_spool::MemSpool;
use super::*;
use crate::stats::Cause;
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::Ino;
use segno_mkfs::{Member, MkfsOptions};

/// Zones of 2 MiB; metadata takes the first nine.
const VOLUME: Geometry = Geometry { zone_blocks: 512, zones: 60, conventional: 9 };

fn formatted(store: &FaultStore) -> Arc<StoreDevice> {
    let device = Arc::new(create(store, VOLUME));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    let options = MkfsOptions { zoned: true, ..MkfsOptions::default() };
    segno_mkfs::format(&[member], &options).unwrap();
    device
}

fn mount(device: &Arc<StoreDevice>) -> Arc<Volume> {
    let options = MountOptions { background: false, cache_bytes: 4 << 20, ..MountOptions::default() };
    Volume::mount(device.clone(), options).unwrap()
}

fn file(volume: &Volume, name: &str) -> Ino {
    volume.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino
}

fn end(device: Arc<StoreDevice>) -> StoreDevice {
    Arc::into_inner(device).unwrap()
}

/// Two checkers find nothing.
pub(super) fn assert_clean(device: &StoreDevice) {
    let report = segno_check::check(device, &segno_check::CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    segno_testkit::f2fs_tools::assert_device_clean("a volume on an object store", device);
}

#[test]
fn a_killed_volume_keeps_what_was_fsynced() {
    let store = store(10, Faults::default());
    let device = formatted(&store);
    drop(device);
    let device = Arc::new(open(&store, Options { takeover: false, ..options() }).unwrap());
    let volume = mount(&device);
    for i in 0..20u8 {
        let ino = file(&volume, &format!("f{i}"));
        volume.write(ino, 0, &[i; 9000]).unwrap();
        volume.fsync(ino).unwrap();
    }
    let late = file(&volume, "late");
    volume.write(late, 0, &[1; 5000]).unwrap();
    store.cut();
    drop(volume);
    end(device).abandon();

    let store = store.client();
    let device = Arc::new(open(&store, options()).unwrap());
    let volume = mount(&device);
    for i in 0..20u8 {
        let found = volume.lookup(Ino::ROOT, format!("f{i}").as_bytes()).unwrap();
        let mut bytes = vec![0; 9000];
        volume.read(found.ino, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [i; 9000]);
    }
    volume.lookup(Ino::ROOT, b"late").unwrap_err();
    volume.unmount().unwrap();
    drop(volume);
    assert_clean(&device);
    drop(device);
    let device = open(&store, Options { read_only: true, ..options() }).unwrap();
    assert_clean(&device);
}

#[test]
fn an_fsync_of_the_volume_is_one_put_and_a_checkpoint_one() {
    let store = store(11, Faults::default());
    let device = formatted(&store);
    let volume = mount(&device);
    let ino = file(&volume, "f");
    volume.write(ino, 0, &[7; 65536]).unwrap();
    volume.sync().unwrap();
    for i in 0..20 {
        let puts = store.puts();
        volume.write(ino, i * 4096, &[i as u8; 4096]).unwrap();
        volume.fsync(ino).unwrap();
        assert_eq!(store.puts() - puts, 1, "fsync {i}");
    }
    file(&volume, "g");
    let puts = store.puts();
    volume.sync().unwrap();
    assert_eq!(store.puts() - puts, 1, "checkpoint");
    let requests = store.requests();
    volume.sync().unwrap();
    assert_eq!(store.requests(), requests, "nothing to do");
}

/// A thread of the server may refer to the device for longer than the mount lasts, so closing is not left to
/// the last of them.
#[test]
fn a_volume_reports_the_requests_of_its_store_by_cause() {
    let store = store(13, Faults::default());
    let volume = mount(&formatted(&store));
    let ino = file(&volume, "f");
    volume.write(ino, 0, &[1; 4096]).unwrap();
    volume.fsync(ino).unwrap();
    let counter = |name: &str| {
        let found = volume.device_counters().into_iter().find(|(n, _)| n == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).1
    };
    let before = (counter("store_commit_puts"), counter("store_commit_put_bytes"), store.puts());
    volume.write(ino, 0, &[2; 4096]).unwrap();
    volume.fsync(ino).unwrap();
    assert_eq!(counter("store_commit_puts") - before.0, 1);
    assert_eq!(store.puts() - before.2, 1);
    assert!(counter("store_commit_put_bytes") - before.1 >= 4096);
    assert!(counter("store_open_puts") > 0 && counter("store_data_puts") + counter("store_read_gets") < 100);
    volume.unmount().unwrap();
}

#[test]
fn a_device_that_others_refer_to_is_closed() {
    let store = store(13, Faults::default());
    let device: Arc<dyn BlockDevice> = formatted(&store);
    let other = device.clone();
    let is_held = || crate::is_held(Arc::new(store.clone()), &prefix(), |_| {}).unwrap();
    assert!(is_held());
    BlockDevice::close(&device).unwrap();
    assert!(!is_held(), "a second writer would be refused");
    drop(other);
}

/// Random overwrites with fsyncs, until the sections were cleaned several times; maps and compaction come in
/// between.
#[test]
fn a_worn_volume_stays_clean_and_its_store_bounded() {
    let store = store(12, Faults::default());
    let device = formatted(&store);
    let volume = mount(&device);
    let mut rng = segno_testkit::Rng::new(12);
    let ino = file(&volume, "f");
    let blocks = volume.statfs().bfree * 6 / 10;
    let mut versions = vec![0u8; blocks as usize];
    for round in 0..blocks * 4 {
        let block = if round < blocks { round } else { rng.below(blocks) };
        let version = rng.between(1, 255) as u8;
        versions[block as usize] = version;
        volume.write(ino, block * 4096, &[version; 4096]).unwrap();
        if round % 7 == 0 {
            volume.fsync(ino).unwrap();
        }
    }
    volume.unmount().unwrap();
    drop(volume);
    device.write_map().unwrap();
    device.close().unwrap();
    let stats = device.stats();
    assert!(stats.count(Cause::Map).puts > 3 && stats.count(Cause::Compaction).puts > 0);
    drop(device);
    // Objects that are due later are deleted by the next mounts.
    for _ in 0..3 {
        let device = open(&store, options()).unwrap();
        device.runtime().block_on(async { tokio::time::sleep(Duration::from_secs(2000)).await });
        write(&device, 9 * 512 - 1, &[1]);
        device.flush().unwrap();
        device.write_map().unwrap();
        device.runtime().block_on(async { tokio::time::sleep(Duration::from_secs(2000)).await });
    }
    let device = Arc::new(open(&store, options()).unwrap());
    let volume = mount(&device);
    let found = volume.lookup(Ino::ROOT, b"f").unwrap().ino;
    for (block, version) in versions.iter().enumerate() {
        let mut bytes = [0; 4096];
        volume.read(found, block as u64 * 4096, &mut bytes).unwrap();
        assert!(bytes.iter().all(|b| b == version), "block {block}");
    }
    volume.unmount().unwrap();
    drop(volume);
    assert_clean(&device);
    let about = device.about();
    let there = store.names().iter().filter(|n| n.contains("/data/") || n.contains("/log/")).count() as u64;
    assert!(there < about.objects + 200, "{there} objects, {} in use", about.objects);
}

/// Kills at random moments of staging and upload: with the cache every fsynced file is there, without it a
/// clean volume with the files of a prefix.
#[test]
fn a_volume_with_write_back_survives_kills_with_its_cache_and_is_clean_without() {
    for seed in 20..26 {
        let mut rng = segno_testkit::Rng::new(seed);
        let store = store(seed, Faults::default());
        drop(formatted(&store));
        let spool = MemSpool::new(seed);
        let client = store.client();
        let device = Arc::new(cached(&client, &spool, false));
        let volume = mount(&device);
        store.set_faults(Faults { latency: Duration::from_millis(80), ..Faults::default() });
        for i in 0..40u8 {
            let ino = file(&volume, &format!("f{i}"));
            volume.write(ino, 0, &vec![i; 1000 * usize::from(i) * usize::from(i)]).unwrap();
            volume.fsync(ino).unwrap();
            let pause = Duration::from_millis(rng.below(100));
            device.runtime().block_on(async { tokio::time::sleep(pause).await });
        }
        assert!(spool.files() > 0, "all is uploaded");
        client.cut();
        drop(volume);
        end(device).abandon();
        store.set_faults(Faults::default());

        // Without the cache: another store with the same objects, as the first one is mounted with the cache
        // below.
        let copy = store.copied();
        let device = Arc::new(cached(&copy, &MemSpool::new(seed + 100), true));
        let volume = mount(&device);
        let there = |i: u8| volume.lookup(Ino::ROOT, format!("f{i}").as_bytes()).ok();
        let prefix = (0..40).take_while(|&i| there(i).is_some()).count() as u8;
        assert!(prefix < 40 && (prefix..40).all(|i| there(i).is_none()), "{prefix}");
        (0..prefix).for_each(|i| assert_content(&volume, i));
        volume.unmount().unwrap();
        drop(volume);
        assert_clean(&device);

        let device = Arc::new(cached(&store, &spool.after_cut(None), false));
        let volume = mount(&device);
        (0..40).for_each(|i| assert_content(&volume, i));
        volume.unmount().unwrap();
        drop(volume);
        assert_clean(&device);
        println!("{prefix} of 40 files were uploaded");
    }
}

#[test]
fn sync_of_a_volume_waits_for_the_store_and_fsync_does_not() {
    let store = store(30, Faults::default());
    drop(formatted(&store));
    let device = Arc::new(cached(&store, &MemSpool::new(30), false));
    let volume = mount(&device);
    store.set_faults(Faults { latency: Duration::from_secs(5), ..Faults::default() });
    let pending = || {
        let found = volume.device_counters().into_iter().find(|(n, _)| n == "store_cache_pending_objects");
        found.unwrap().1
    };
    let ino = file(&volume, "f");
    volume.write(ino, 0, &[1; 4096]).unwrap();
    volume.fsync(ino).unwrap();
    assert!(pending() > 0);
    volume.sync().unwrap();
    assert_eq!(pending(), 0);
    volume.unmount().unwrap();
}

fn cached(store: &FaultStore, spool: &MemSpool, takeover: bool) -> StoreDevice {
    open_cached(store, spool, 8 << 20, takeover).unwrap()
}

fn assert_content(volume: &Volume, i: u8) {
    let found = volume.lookup(Ino::ROOT, format!("f{i}").as_bytes()).unwrap();
    let mut bytes = vec![0; 1000 * usize::from(i) * usize::from(i)];
    assert_eq!(found.size, bytes.len() as u64);
    volume.read(found.ino, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&b| b == i), "file {i}");
}

/// Zones of 32 MiB, as `segno mkfs` makes them.
const LARGE: Geometry = Geometry { zone_blocks: 8192, zones: 128, conventional: 3 };
const MIB: u64 = 1 << 20;

/// A volume with a file of `mib` MiB, all in the store, mounted again with empty caches.
fn with_large_file(store: &FaultStore, mib: u64) -> (Arc<StoreDevice>, Arc<Volume>, Ino) {
    let device = Arc::new(create(store, LARGE));
    let options = MkfsOptions { segs_per_sec: 16, secs_per_zone: 1, zoned: true, ..MkfsOptions::default() };
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &options).unwrap();
    let volume = mount(&device);
    let ino = file(&volume, "f");
    (0..mib).for_each(|i| _ = volume.write(ino, i * MIB, &vec![i as u8; MIB as usize]).unwrap());
    volume.unmount().unwrap();
    drop(volume);
    drop(device);
    let device = Arc::new(open(store, super::options()).unwrap());
    let volume = mount(&device);
    let ino = volume.lookup(Ino::ROOT, b"f").unwrap().ino;
    (device, volume, ino)
}

fn elapsed(device: &StoreDevice, since: tokio::time::Instant) -> Duration {
    now(device) - since
}

/// A store with 1 GiB/s and 20 ms a request, in simulated time: at least 80 % of the rate of the link.
#[test]
fn a_sequential_read_takes_what_the_link_gives() {
    let store = store(31, Faults::default());
    let (device, volume, ino) = with_large_file(&store, 512);
    let latency = Duration::from_millis(20);
    store.set_faults(Faults { latency, rate: 1 << 30, ..Faults::default() });
    let begun = now(&device);
    let mut data = vec![0; MIB as usize];
    for i in 0..512 {
        volume.read(ino, i * MIB, &mut data).unwrap();
        assert!(data.iter().all(|&b| b == i as u8));
    }
    let took = elapsed(&device, begun);
    let (read, ahead) = (device.stats().count(Cause::Read), device.stats().count(Cause::Readahead));
    println!("{took:?}; reads {read:?}, ahead {ahead:?}");
    assert!(took < Duration::from_millis(500) * 100 / 80 + latency, "{took:?}");
    // 64 objects, the first steps of the reader, the inode and indexes.
    assert!(ahead.gets < 90 && read.gets < 20, "{ahead:?} {read:?}");
    volume.unmount().unwrap();
}

/// It waits for the first two reads, until data read ahead arrives, and where the file continues in another
/// zone.
#[test]
fn a_sequential_read_waits_for_four_requests_of_a_slow_store() {
    let store = store(33, Faults::default());
    let (device, volume, ino) = with_large_file(&store, 256);
    let latency = Duration::from_millis(100);
    store.set_faults(Faults { latency, rate: 1 << 30, ..Faults::default() });
    let mut data = vec![0; MIB as usize];
    let mut read = |i| {
        let begun = now(&device);
        volume.read(ino, i * MIB, &mut data).unwrap();
        now(&device) - begun
    };
    let waits: Vec<_> = (0..256).map(|i| (i, read(i))).filter(|(_, took)| *took > latency / 2).collect();
    assert!(waits.len() <= 4, "{waits:?}");
    volume.unmount().unwrap();
}

/// More is read ahead than the reader uses before other pieces are dropped.
#[test]
fn nothing_is_read_twice_for_a_reader_slower_than_the_store() {
    let store = store(34, Faults::default());
    let (device, volume, ino) = with_large_file(&store, 256);
    store.set_faults(Faults { latency: Duration::from_millis(5), rate: 1 << 30, ..Faults::default() });
    let mut data = vec![0; MIB as usize];
    for i in 0..256 {
        volume.read(ino, i * MIB, &mut data).unwrap();
        device.runtime().block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
    }
    let got = device.stats().total().bytes_got;
    assert!(got < 256 * MIB * 105 / 100, "{got}");
    volume.unmount().unwrap();
}

/// A sequential write, too, takes at least 80 % of the same link.
#[test]
fn a_sequential_write_takes_what_the_link_gives() {
    let store = store(32, Faults::default());
    let (device, volume, _) = with_large_file(&store, 1);
    let latency = Duration::from_millis(20);
    store.set_faults(Faults { latency, rate: 1 << 30, ..Faults::default() });
    let ino = file(&volume, "g");
    let begun = now(&device);
    let data = vec![3; MIB as usize];
    (0..512).for_each(|i| _ = volume.write(ino, i * MIB, &data).unwrap());
    volume.fsync(ino).unwrap();
    let took = elapsed(&device, begun);
    println!("{took:?}");
    assert!(took < Duration::from_millis(500) * 100 / 80 + latency, "{took:?}");
    assert!(device.stats().count(Cause::Data).puts <= 70);
    volume.unmount().unwrap();
}

/// Callers get ESTALE, and the notice does not advise a check: the volume is in order, and another writer's.
#[test]
fn system_calls_of_a_writer_that_was_cut_off_get_estale() {
    use segno_engine::{Notice, Observer};
    let store = store(15, Faults::default());
    drop(formatted(&store));
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let observer = {
        let told = told.clone();
        Observer::new(move |notice| told.lock().push(notice.clone()))
    };
    let device = Arc::new(open(&store, options()).unwrap());
    let volume =
        Volume::mount(device, MountOptions { background: false, observer, ..MountOptions::default() })
            .unwrap();
    let ino = file(&volume, "f");
    volume.write(ino, 0, &[1; 4096]).unwrap();
    volume.fsync(ino).unwrap();
    let _other = open(&store.client(), options()).unwrap();
    volume.write(ino, 0, &[2; 4096]).unwrap();
    let errors = [
        ("fsync", volume.fsync(ino).unwrap_err()),
        ("sync", volume.sync().unwrap_err()),
        ("write", volume.write(ino, 4096, &[3; 4096]).unwrap_err()),
    ];
    for (call, e) in errors {
        assert_eq!(e.errno(), 116, "{call}: {e}");
        assert!(!e.to_string().contains("check"), "{call}: {e}");
    }
    let told = told.lock();
    assert!(
        matches!(told.as_slice(), [Notice::TakenOver(why)] if why.contains("another writer")),
        "{told:?}"
    );
}
