//! Objects of the log that the store lost or emptied: a later object proves that they were stored, or it was
//! the last one, whose writer may have been cut off.
use super::*;
use crate::StoreError;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::wire::names::Name;

/// Commits of the log, the last of epoch 1, whose writer was killed.
const COMMITS: u64 = 12;

/// A volume whose blocks 0 to 11 are each written by a commit of that number.
fn written() -> FaultStore {
    let store = store(70, Faults::default());
    let device = create(&store, SMALL);
    commits(&device, 0);
    store.cut();
    device.abandon();
    store.client()
}

fn commits(device: &StoreDevice, first: u64) {
    for i in 0..COMMITS {
        write(device, first + i, &[i as u8 + 1]);
        device.flush().unwrap();
    }
}

fn name(epoch: u32, seq: u64) -> String {
    format!("p/{}", Name::log(LogPlace::of(epoch, seq)))
}

/// How an object is lost.
type Loss = (&'static str, fn(&FaultStore, &str));

const LOSSES: [Loss; 4] = [
    ("missing", |store, name| store.remove(name)),
    ("empty", |store, name| store.alter(name, Vec::clear)),
    ("cut off", |store, name| store.alter(name, |bytes| bytes.truncate(bytes.len() / 2))),
    ("altered", |store, name| store.alter(name, |bytes| *bytes.last_mut().unwrap() ^= 1)),
];

/// How a volume is opened: to read it, and to write it.
fn openings() -> [(&'static str, Options); 2] {
    [("reader", Options { read_only: true, ..options() }), ("writer", options())]
}

fn refused(store: &FaultStore, object: &str, when: &str) {
    let before = store.names();
    for (who, options) in openings() {
        let e = open(store, options).map(|_| ()).unwrap_err();
        let object = object.strip_prefix("p/").unwrap();
        assert!(matches!(e, StoreError::Lost { .. } | StoreError::Corrupt { .. }), "{when}, {who}: {e}");
        assert!(e.to_string().contains(object), "{when}, {who}: {e}");
    }
    // But for the object with which conditional creation is tried, which is deleted.
    assert_eq!(store.names(), before, "{when}: a refusal writes nothing");
}

#[test]
fn an_acknowledged_commit_that_the_store_lost_is_damage_and_not_the_end_of_the_log() {
    for (how, lose) in LOSSES {
        for n in 1..COMMITS {
            let store = written();
            let object = name(1, n);
            lose(&store, &object);
            refused(&store, &object, &format!("commit {n} of {COMMITS} {how}"));
        }
    }
}

/// Nothing shows that it was acknowledged.
#[test]
fn the_last_commit_may_be_one_that_was_cut_off() {
    for (how, lose) in LOSSES {
        let store = written();
        lose(&store, &name(1, COMMITS));
        let reader = open(&store, Options { read_only: true, ..options() }).unwrap();
        let expected: Vec<u8> = (1..COMMITS as u8).chain([0]).collect();
        assert_eq!(read(&reader, 0, COMMITS as usize), expected, "{how}");
        let writer = open(&store, options()).unwrap();
        assert_eq!(read(&writer, 0, COMMITS as usize), expected, "{how}");
    }
}

/// The seal of the first epoch shows that all its commits were there, and the second epoch that the first had
/// an end.
#[test]
fn the_end_of_an_earlier_epoch_that_the_store_lost_is_damage() {
    let sealed = || {
        let store = written();
        let device = open(&store, options()).unwrap();
        commits(&device, 20);
        store.cut();
        device.abandon();
        let store = store.client();
        for object in store.names().into_iter().filter(|n| n.contains("/map/00000002")) {
            store.remove(&object);
        }
        store
    };
    for (how, lose) in LOSSES {
        let store = sealed();
        lose(&store, &name(1, COMMITS));
        refused(&store, &name(1, COMMITS), &format!("the last commit of epoch 1 {how}"));
    }
    let store = sealed();
    store.remove(&name(1, COMMITS + 1));
    refused(&store, &name(1, COMMITS + 1), "the seal of epoch 1 missing");
    // A truncated seal still ends the epoch: no other object can take its place.
    let store = sealed();
    store.alter(&name(1, COMMITS + 1), Vec::clear);
    let reader = open(&store, Options { read_only: true, ..options() }).unwrap();
    assert_eq!(read(&reader, 20, 2), [1, 2]);
}

/// Volumes of earlier versions have no marks, and the window of commits in flight decides.
#[test]
fn without_marks_a_gap_with_a_window_of_commits_behind_it_is_damage() {
    use crate::fence::epoch::Session;
    use crate::fence::owner::Owner;
    use crate::log::commit;
    let with_gap = |gap: u64| {
        let store = store(71, Faults::default());
        drop(create(&store, SMALL));
        let store = store.client();
        runtime().block_on(async {
            use crate::stats::Cause;
            let remote =
                crate::wire::remote::Remote::new(Arc::new(store.clone()), prefix(), Duration::from_secs(9));
            let volume = crate::log::volume::read(&remote).await.unwrap();
            let unmarked = crate::log::volume::Volume { marked: false, ..volume };
            remote.put(Name::Volume, unmarked.encode(), Cause::Open).await.unwrap();
            let session = unmarked.session(Epoch::new(2), [7; 16]);
            let owner = Owner::this(session.id, None);
            remote.put(Name::Epoch(session.epoch), owner.encode(), Cause::Open).await.unwrap();
            for seq in (1..=COMMITS).filter(|&seq| seq != gap) {
                let bytes = commit::commit(
                    &Session { marked: false, ..session },
                    Default::default(),
                    Seq::new(seq),
                    &[],
                    &[],
                );
                remote.put(Name::log(LogPlace::of(2, seq)), bytes, Cause::Commit).await.unwrap();
            }
        });
        store
    };
    for gap in 1..COMMITS - 3 {
        refused(&with_gap(gap), &name(2, gap), &format!("gap at {gap}"));
    }
    for gap in COMMITS - 2..=COMMITS + 1 {
        for (_, options) in openings() {
            open(&with_gap(gap), options).unwrap();
        }
    }
}
