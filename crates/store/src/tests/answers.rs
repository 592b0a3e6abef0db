//! Outages, refused credentials and damage, as every kind of caller meets them.
use super::mem_spool::MemSpool;
use super::*;
use crate::device::status;
use crate::fence::probe;
use crate::ids::{Epoch, LogPlace};
use crate::log::recovery::seals;
use crate::stats::Cause;
use crate::wire::names::Name;
use crate::wire::remote::Remote;
use object_store::Error;
use std::fmt::Display;
use tokio::time::{sleep, timeout};

fn unavailable() -> Error {
    let answer =
        "Server returned non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code></Error>";
    Error::Generic { store: "S3", source: answer.into() }
}

fn denied() -> Error {
    let answer =
        "Server returned non-2xx status code: 403 Forbidden: <Error><Code>InvalidAccessKeyId</Code></Error>";
    Error::PermissionDenied { path: "p".into(), source: answer.into() }
}

/// A cause for not getting an object, and the reason that errors give for it.
type Failure = (fn(&FaultStore), &'static str);

const FAILURES: [Failure; 3] = [
    (
        |store| store.set_faults(Faults { answer: Some(unavailable), ..Faults::default() }),
        "503 Service Unavailable (SlowDown)",
    ),
    (
        |store| store.set_faults(Faults { answer: Some(denied), ..Faults::default() }),
        "403 Forbidden (InvalidAccessKeyId)",
    ),
    (
        |store| store.set_faults(Faults { latency: Duration::from_secs(1 << 30), ..Faults::default() }),
        "no answer",
    ),
];

type Call = fn(&FaultStore, StoreDevice) -> Result<(), String>;

fn said<T>(done: Result<T, impl Display>) -> Result<(), String> {
    done.map(|_| ()).map_err(|e| e.to_string())
}

/// Sends requests to the store without a device, each for up to 15 s.
fn ask<T>(store: &FaultStore, question: impl AsyncFnOnce(&Remote) -> Result<T>) -> Result<(), String> {
    let remote = Remote::new(Arc::new(store.client()), prefix(), Duration::from_secs(15)).observed(observe);
    remote.bound_requests(Duration::from_secs(15));
    said(runtime().block_on(question(&remote)))
}

/// All calls that wait for the store; the device has something to write.
const CALLS: [(&str, Call); 8] = [
    ("read", |_, device| said(try_read(&device, 128, 1))),
    ("fsync", |_, device| said(device.flush())),
    ("sync", |_, device| said(device.drain())),
    ("unmount", |_, device| said(device.close())),
    ("map", |_, device| said(device.write_map())),
    ("probe", |store, _| ask(store, probe::is_conditional)),
    ("info", |store, _| ask(store, seals::held)),
    ("umount", |store, _| ask(store, async |remote| status::ending(remote, 1).await)),
];

/// A device with a block in the store that is not cached, and one that is not stored.
fn busy() -> (FaultStore, StoreDevice) {
    let store = store(90, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[7; 64]);
    drop(device);
    let device = open(&store, options()).unwrap();
    write(&device, 0, &[1]);
    (store, device)
}

#[test]
fn every_caller_is_told_why_it_waits_and_why_it_gave_up() {
    for (fail, why) in FAILURES {
        for (caller, call) in CALLS {
            let (store, device) = busy();
            notices();
            fail(&store);
            let e = call(&store, device).unwrap_err();
            assert!(e.contains(why), "{caller}, {why}: {e}");
            let first = notices().into_iter().next();
            match &first {
                Some(Notice::Denied { why: said }) if why.starts_with("403") => assert_eq!(said, why),
                Some(Notice::Waiting { why: said, .. }) => assert_eq!(said, why, "{caller}"),
                other => panic!("{caller}, {why}: {other:?}"),
            }
        }
    }
}

/// The second half of the table: commands that open the volume. There the client limits the wait for a store
/// that never answers, and a refused key is not waited for: the second attempt uses another key.
#[test]
fn opening_reports_why_it_waits_and_ends_at_once_where_that_is_in_vain() {
    for (fail, why) in &FAILURES[..2] {
        for read_only in [true, false] {
            let (store, device) = busy();
            drop(device);
            notices();
            fail(&store);
            let requests = store.requests();
            let e = open(&store.client(), Options { read_only, ..options() })
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(e.contains(why), "{e}");
            let told = notices();
            if why.starts_with("403") {
                assert!(told.is_empty() && e.contains("AWS_ACCESS_KEY_ID"), "{told:?} {e}");
                assert!(store.requests() - requests <= 4, "two at a time");
            } else {
                assert!(matches!(told.first(), Some(Notice::Waiting { .. })), "{told:?}");
            }
        }
    }
}

#[test]
fn an_fsync_that_waits_for_an_outage_or_a_new_key_loses_nothing() {
    for (fail, why) in &FAILURES[..2] {
        let (store, device) = busy();
        notices();
        fail(&store);
        device.runtime().block_on(async {
            let mut flush = Box::pin(device.flush_later());
            timeout(Duration::from_secs(50), &mut flush).await.unwrap_err();
            store.set_faults(Faults::default());
            flush.await.unwrap();
        });
        let told = notices();
        assert_eq!(told.len(), 2, "{why}: once, though it was repeated: {told:?}");
        assert_eq!(told[1], Notice::Answers);
        let store = store.client();
        device.abandon();
        assert_eq!(read(&open(&store, options()).unwrap(), 0, 1), [1]);
    }
}

/// Also for a mount with write-back: the key is replaced while an unmount waits.
#[test]
fn a_drain_waits_for_a_new_key() {
    let store = store(91, Faults::default());
    drop(create(&store, SMALL));
    let device = open_cached(&store, &MemSpool::new(91), 4 << 20, false).unwrap();
    store.set_faults(Faults { answer: Some(denied), ..Faults::default() });
    write(&device, 0, &[5]);
    device.flush().unwrap();
    notices();
    let key = store.clone();
    device.runtime().block_on(async {
        tokio::spawn(async move {
            sleep(Duration::from_secs(30)).await;
            key.set_faults(Faults::default());
        });
        device.drain_now().await.unwrap();
    });
    assert!(matches!(notices().as_slice(), [Notice::Denied { .. }, Notice::Answers]));
    drop(device);
    assert_eq!(read(&open(&store, options()).unwrap(), 0, 1), [5]);
}

/// How an object is damaged.
type Damage = (&'static str, fn(&mut Vec<u8>));

const DAMAGES: [Damage; 3] = [
    ("empty", Vec::clear),
    ("cut off", |bytes| bytes.truncate(bytes.len() / 2)),
    ("altered", |bytes| bytes[100] ^= 1),
];

#[test]
fn damage_is_reported_at_once_with_the_object_and_is_no_outage() {
    for (how, damage) in DAMAGES {
        // Inline in an object of the log, and in a data object.
        for (addr, kind) in [(39, "/log/"), (191, "/data/")] {
            let store = store(92, Faults::default());
            let device = create(&store, SMALL);
            write(&device, 128, &[7; 64]);
            write(&device, 0, &[8; 40]);
            drop(device);
            let object = store.names().into_iter().find(|name| name.contains(kind)).unwrap();
            store.alter(&object, damage);
            let device = open(&store, Options { read_only: true, ..options() }).unwrap();
            // The first piece is altered.
            let addr = if how == "altered" { addr / 128 * 128 } else { addr };
            let (begun, requests) = (now(&device), store.requests());
            let e = try_read(&device, addr, 1).unwrap_err();
            assert_eq!(e.kind(), std::io::ErrorKind::InvalidData, "{how}: {e}");
            assert!(e.to_string().contains(object.strip_prefix("p/").unwrap()), "{how}: {e}");
            assert!(store.requests() - requests <= 2, "{how}: read again once");
            assert_eq!(now(&device), begun, "{how}: no pause");
        }
    }
}

#[test]
fn a_piece_that_was_damaged_on_its_way_is_read_again() {
    let store = store(93, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[7; 64]);
    drop(device);
    let data = store.names().into_iter().find(|name| name.contains("/data/")).unwrap();
    let device = open(&store, Options { read_only: true, ..options() }).unwrap();
    store.alter_once(&data, |bytes| bytes[100] ^= 1);
    assert_eq!(read(&device, 128, 1), [7]);
}

/// Epoch 1 of another process of this host.
fn of_process(store: &FaultStore, pid: u32) {
    use crate::fence::owner::Owner;
    ask(store, async |remote| {
        let owner = Owner { pid, ..Owner::this([1; 16], None) };
        remote.put(Name::Epoch(Epoch::new(1)), owner.encode(), Cause::Open).await
    })
    .unwrap();
}

fn ending(store: &FaultStore, pid: u32) -> status::Ending {
    runtime().block_on(async {
        let remote = Remote::new(Arc::new(store.client()), prefix(), Duration::from_secs(9));
        status::ending(&remote, pid).await.unwrap()
    })
}

#[test]
fn an_unmount_knows_whether_another_writer_took_the_volume() {
    use crate::Ending;
    let store = store(94, Faults::default());
    let first = create(&store, SMALL);
    of_process(&store, 77);
    assert_eq!((ending(&store, 77), ending(&store, 78)), (Ending::Open, Ending::Closed));
    write(&first, 0, &[1]);
    first.flush().unwrap();
    notices();
    let second = open(&store.client(), options()).unwrap();
    let told = notices();
    let [Notice::TookOver { epoch: 1, commits: 1, .. }] = told.as_slice() else { panic!("{told:?}") };
    // Commits that the first one had in flight arrive after the seal.
    ask(&store, async |remote| {
        for seq in 3..6 {
            remote.put(Name::log(LogPlace::of(1, seq)), "late".into(), Cause::Commit).await?;
        }
        Ok(())
    })
    .unwrap();
    let me = std::process::id();
    assert_eq!(ending(&store, me), Ending::Open);
    match ending(&store, 77) {
        Ending::TakenOver { epoch: 2, owner } => assert!(owner.contains(&me.to_string()), "{owner}"),
        other => panic!("{other:?}"),
    }
    drop(second);
    assert_eq!(ending(&store, me), Ending::Closed);
    assert!(matches!(ending(&store, 77), Ending::TakenOver { epoch: 2, .. }));
}
