//! A bucket that was set back to an earlier state, as from a backup or a replica that lags, is mounted with a
//! cache of the later one.
use super::mem_spool::MemSpool;
use super::*;
use crate::ids::LogPlace;
use crate::{CacheOptions, StoreError};
use tokio::time::sleep;

fn cached(dir: &std::path::Path) -> Options {
    let cache = Some(CacheOptions { dir: dir.to_owned(), bytes: 64 << 20, writeback: false });
    Options { cache, takeover: true, ..options() }
}

/// Reads into the cache, and unmounts.
fn fill(store: &FaultStore, dir: &std::path::Path, fills: &[u8]) {
    let device = open(store, cached(dir)).unwrap();
    for (zone, &fill) in (2..).zip(fills) {
        assert_eq!(read(&device, zone * 64, 64), [fill; 64]);
    }
    // Pieces are written after they were read.
    device.runtime().block_on(async { sleep(Duration::from_secs(1)).await });
}

fn zones(store: &FaultStore, options: Options, fills: &[u8]) {
    let device = open(store, options).unwrap();
    for (zone, &fill) in (2..).zip(fills) {
        device.reset_zone(zone * 64).unwrap();
        write(&device, zone * 64, &[fill; 64]);
    }
    device.flush().unwrap();
}

#[test]
fn blocks_of_a_lost_history_are_not_read_from_a_cache() {
    for same_epoch in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(80, Faults::default());
        drop(create(&store, SMALL));
        let earlier = store.copied();
        zones(&store, cached(dir.path()), &[1, 2, 3]);
        fill(&store, dir.path(), &[1, 2, 3]);
        // Another history, with the same names.
        if same_epoch {
            zones(&earlier, options(), &[4, 5, 6]);
        } else {
            zones(&earlier, options(), &[4, 5, 6]);
            zones(&earlier, options(), &[7, 8, 9]);
        }
        notices();
        let device = open(&earlier, cached(dir.path())).unwrap();
        let expected = if same_epoch { [4, 5, 6] } else { [7, 8, 9] };
        for (zone, fill) in (2..).zip(expected) {
            assert_eq!(read(&device, zone * 64, 64), [fill; 64]);
        }
        let told = notices();
        assert!(matches!(told.as_slice(), [Notice::SetBack { epoch: 3, .. }]), "{told:?}");
        drop(device);
        // From then on the cache is that of the new history.
        fill(&earlier, dir.path(), &expected);
        assert_eq!(notices(), []);
        assert!(
            open(&earlier, cached(dir.path())).unwrap().stats().count(crate::stats::Cause::Read).gets == 0
        );
    }
}

/// The copy was made while the writer went on.
#[test]
fn a_bucket_that_lost_the_end_of_an_epoch_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(81, Faults::default());
    drop(create(&store, SMALL));
    let device = open(&store, cached(dir.path())).unwrap();
    write(&device, 0, &[1]);
    device.flush().unwrap();
    let earlier = store.copied();
    write(&device, 0, &[2]);
    device.flush().unwrap();
    drop(device);
    notices();
    let reader = open(&earlier, Options { read_only: true, ..cached(dir.path()) }).unwrap();
    assert_eq!(read(&reader, 0, 1), [1]);
    let told = notices();
    assert!(matches!(told.as_slice(), [Notice::SetBack { epoch: 2, commit: 2, .. }]), "{told:?}");
}

#[test]
fn caches_are_kept_where_nothing_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(82, Faults::default());
    drop(create(&store, SMALL));
    zones(&store, cached(dir.path()), &[1, 2]);
    for read_only in [false, true, false] {
        drop(open(&store, Options { read_only, ..cached(dir.path()) }).unwrap());
        // Others have written since.
        zones(&store, options(), &[3, 4]);
    }
    fill(&store, dir.path(), &[3, 4]);
    assert!(!notices().iter().any(|n| matches!(n, Notice::SetBack { .. })));
}

/// A mount with write-back whose last commits were not uploaded, and the store before that mount.
fn left() -> (FaultStore, FaultStore, MemSpool) {
    let store = store(83, Faults::default());
    drop(create(&store, SMALL));
    let earlier = store.copied();
    let spool = MemSpool::new(83);
    let device = open_cached(&store, &spool, 4 << 20, false).unwrap();
    for i in 0..3 {
        write(&device, i, &[9]);
        device.drain().unwrap();
    }
    // Files are removed after their upload.
    device.runtime().block_on(async { sleep(Duration::from_secs(1)).await });
    assert_eq!(spool.files(), 0);
    store.cut();
    write(&device, 3, &[9]);
    device.flush().unwrap();
    write(&device, 128, &[9; 64]);
    device.flush().unwrap();
    device.abandon();
    (store.client(), earlier, spool)
}

/// How the other history continues.
type History = (&'static str, fn(&FaultStore));

#[test]
fn commits_of_a_lost_history_are_kept_and_not_uploaded_to_another_one() {
    let histories: [History; 3] = [
        ("no such epoch", |_| {}),
        ("an epoch that ended", |store| zones(store, options(), &[4])),
        ("an epoch without an end", |store| {
            let client = store.client();
            let device = open(&client, options()).unwrap();
            write(&device, 0, &[4; 8]);
            device.flush().unwrap();
            client.cut();
            device.abandon();
        }),
    ];
    for (history, go_on) in histories {
        let (store, earlier, spool) = left();
        go_on(&earlier);
        let (names, files) = (earlier.names(), spool.files());
        let local = || Options { takeover: true, ..options() };
        let refused = |read_only, with_spool| {
            let options = Options { read_only, with_spool, ..local() };
            let (store, local) = (Arc::new(earlier.clone()), spool.local(4 << 20));
            let opened = StoreDevice::open_local(runtime(), store, &prefix(), &options, local);
            opened.map(|_| ()).unwrap_err()
        };
        let e = refused(false, false);
        assert!(matches!(e, StoreError::SpoolForeign { epoch: 2, commits: 2, .. }), "{history}: {e}");
        assert!(e.to_string().contains("store export --cache"), "{e}");
        assert!(matches!(refused(true, true), StoreError::SpoolBase { epoch: 2, .. }), "{history}");
        assert_eq!((earlier.names(), spool.files()), (names, files), "{history}: nothing was changed");
        // The store that has the epoch takes them.
        let device = open_cached(&store, &spool, 4 << 20, true).unwrap();
        assert_eq!((read(&device, 0, 5), read(&device, 128, 64)), (vec![9, 9, 9, 9, 0], vec![9; 64]));
    }
}

#[test]
fn a_spool_behind_commits_that_the_bucket_lost_is_kept() {
    for (lost, sealed) in [(1, false), (2, false), (3, false), (2, true)] {
        let (store, _, spool) = left();
        for seq in lost..=3 {
            store.remove(&format!("p/{}", crate::wire::names::Name::log(LogPlace::of(2, seq))));
        }
        if sealed {
            drop(open(&store, options()).unwrap());
        }
        let (logs, files) = (store.names(), spool.files());
        let e = open_cached(&store, &spool, 4 << 20, true).map(|_| ()).unwrap_err();
        assert!(
            matches!(e, StoreError::SpoolGap { epoch: 2, missing, .. } if missing == lost),
            "{lost}: {e}"
        );
        assert_eq!(spool.files(), files);
        let new: Vec<String> =
            store.names().into_iter().filter(|n| !logs.contains(n) && !n.contains("/data/")).collect();
        assert!(new.is_empty(), "{new:?}");
    }
}
