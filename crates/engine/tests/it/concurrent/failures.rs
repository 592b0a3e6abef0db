//! A device failure in the middle of a checkpoint.
use super::{Journal, create, scene, tree};
use crate::common::assert_finds_only;
use segno_engine::lab::Probe;
use segno_engine::{Error, Volume};
use segno_format::Ino;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

type Waiter = Arc<Mutex<Option<JoinHandle<Result<(), Error>>>>>;

/// The volume stops, waiting callers get the error, and the device keeps the last checkpoint and the journal.
#[test]
fn callers_waiting_for_a_failed_checkpoint_get_its_error() {
    for journal in [Journal::Without, Journal::With] {
        for write in 1..5 {
            let scene = scene(journal);
            let before = scene.read(&scene.image());
            let (v, dev, waiter) = (scene.v.clone(), scene.dev.clone(), Waiter::default());
            let told = waiter.clone();
            scene.dev.arm(
                write,
                Box::new(move || {
                    let ino = create(&v, Ino::ROOT, "waits");
                    dev.broken.store(true, Ordering::Relaxed);
                    v.write(ino, 0, b"something").unwrap();
                    *told.lock().unwrap() = Some(thread::spawn(move || v.fsync(ino, false)));
                }),
            );
            let failed = match journal {
                Journal::Without => scene.v.sync(),
                Journal::With => Probe(&scene.v).checkpoint(),
            };
            let waited = waiter.lock().unwrap().take().unwrap().join().unwrap();
            if journal == Journal::Without {
                assert!(matches!(waited, Err(Error::Stopped)), "write {write}: {waited:?}");
            }
            assert!(matches!(failed, Err(Error::Io { .. })), "write {write}: {failed:?}");
            assert!(scene.v.is_stopped());
            scene.dev.broken.store(false, Ordering::Relaxed);
            let after = scene.read(&scene.image());
            // With an external journal, changes committed meanwhile may be durable.
            let kept = before.iter().filter(|(name, _)| after.get(*name) != before.get(*name)).count();
            match waited {
                Ok(()) => assert!(after.contains_key("/waits"), "write {write}"),
                Err(_) => assert_eq!(kept, 0, "write {write}"),
            }
            assert!(tree(&scene.v).contains_key("/waits"));
        }
    }
}

#[test]
fn a_journal_that_fails_during_a_checkpoint_leaves_the_rest_to_the_next() {
    for write in [1, 4] {
        let scene = scene(Journal::With);
        let (v, dev, waiter) = (scene.v.clone(), scene.dev.clone(), Waiter::default());
        let told = waiter.clone();
        let before = scene.stat("checkpoints");
        let hook = move || {
            let ino = create(&v, Ino::ROOT, "waits");
            v.write(ino, 0, b"something").unwrap();
            dev.journal_broken.store(true, Ordering::Relaxed);
            *told.lock().unwrap() = Some(thread::spawn(move || v.fsync(ino, false)));
        };
        assert!(scene.checkpoint_interrupted(write, Box::new(hook)));
        waiter.lock().unwrap().take().unwrap().join().unwrap().unwrap();
        assert_eq!(scene.stat("journal_failed"), 1);
        assert_eq!(scene.stat("checkpoints"), before + 2, "write {write}");
        scene.dev.journal_broken.store(false, Ordering::Relaxed);
        assert_eq!(scene.read(&scene.image()), tree(&scene.v), "write {write}");
    }
}

/// Without its announcement the checkpoint would make the journal stale, and lose what was committed meanwhile.
#[test]
fn a_journal_failure_after_a_commit_stops_the_checkpoint() {
    for write in [1, 4] {
        let scene = scene(Journal::With);
        let (v, dev) = (scene.v.clone(), scene.dev.clone());
        let hook = move || {
            let ino = create(&v, Ino::ROOT, "synced");
            v.write(ino, 0, b"something").unwrap();
            v.fsync(ino, false).unwrap();
            dev.journal_broken.store(true, Ordering::Relaxed);
        };
        scene.dev.arm(write, Box::new(hook));
        assert!(Probe(&scene.v).checkpoint().is_err());
        assert!(scene.v.is_stopped() && scene.dev.disarm());
        scene.dev.journal_broken.store(false, Ordering::Relaxed);
        let image = scene.image();
        assert_finds_only(&*image, &[segno_check::Kind::ErrorRecord]);
        let found = tree(&Volume::mount(image, scene.journal.options()).unwrap());
        assert_eq!(found, tree(&scene.v), "write {write}");
    }
}

/// Committed epochs are replayed on the current checkpoint, unless a chain follows it, which marks the journal as
/// stale.
#[test]
fn an_fsync_after_a_journal_failure_is_not_logged_in_the_chain() {
    let scene = scene(Journal::With);
    let synced = create(&scene.v, Ino::ROOT, "synced");
    scene.v.fsync(synced, false).unwrap();
    let (v, dev) = (scene.v.clone(), scene.dev.clone());
    let before = (scene.stat("checkpoints"), scene.stat("fsync_nodes_written"));
    // A commit fails before its checkpoint has begun.
    scene.checkpoint_interrupted(
        1,
        Box::new(move || {
            dev.journal_broken.store(true, Ordering::Relaxed);
            let ino = create(&v, Ino::ROOT, "unsynced");
            v.write(ino, 0, b"something").unwrap();
        }),
    );
    assert_eq!(scene.stat("journal_failed"), 1);
    scene.v.write(synced, 0, b"more").unwrap();
    scene.v.fsync(synced, false).unwrap();
    assert_eq!(scene.stat("fsync_nodes_written"), before.1, "a checkpoint instead");
    assert_eq!(scene.stat("checkpoints"), before.0 + 2);
    assert_eq!(scene.read(&scene.image()), tree(&scene.v));
}
