//! Nodes that a checkpoint writes ahead of its boundary: they are durable for an fsync only if a mark follows
//! them.
use super::*;
use segno_engine::lab::Probe;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};

const FILES: usize = 300;
/// More blocks than an inode has addresses for.
const LARGE: usize = 1200 * BLOCK;

fn ahead(v: &Volume) -> u64 {
    let count = || v.stats().nodes_ahead.load(Ordering::Relaxed);
    let before = count();
    Probe(v).write_nodes_ahead().unwrap();
    count() - before
}

fn names(v: &Volume, prefix: &str) {
    (0..FILES).for_each(|n| _ = create_in(v, Ino::ROOT, &format!("{prefix}{n}")));
}

#[test]
fn a_file_that_was_written_ahead_is_durable_by_its_fsync_alone() {
    for mode in [FsyncMode::Strict, FsyncMode::Posix, FsyncMode::Nobarrier] {
        let mut rig = Rig::new(mode);
        names(&rig.v, "other");
        let [synced, unsynced] = ["synced", "unsynced"].map(|name| rig.file(name, &[7; LARGE]));
        rig.v.extents(unsynced).unwrap();
        rig.v.extents(synced).unwrap();
        assert!(ahead(&rig.v) >= FILES as u64);
        let before = rig.checkpoints();
        rig.fsync(synced);
        rig.fsync(synced);
        assert_eq!(rig.checkpoints(), before, "{mode:?}: the chain goes on behind nodes without a mark");
        rig.crash();
        assert_eq!(rig.names(), ["synced"], "{mode:?}");
        assert!(rig.content("synced") == [7; LARGE], "{mode:?}");
        rig.judge();
    }
}

#[test]
fn what_was_written_ahead_after_the_last_fsync_is_not_replayed() {
    let mut rig = Rig::new(FsyncMode::Strict);
    let file = rig.file("file", &[1; LARGE]);
    rig.v.sync().unwrap();
    rig.v.write(file, 0, &[2; LARGE]).unwrap();
    rig.fsync(file);
    rig.v.write(file, 0, &[3; 2 * LARGE]).unwrap();
    rig.v.extents(file).unwrap();
    names(&rig.v, "other");
    assert!(ahead(&rig.v) >= FILES as u64);
    // A mark of another file comes later in the chain.
    let other = rig.ino("other1");
    rig.fsync(other);
    rig.crash();
    assert!(rig.content("file") == [2; LARGE]);
    assert_eq!(rig.names(), ["file", "other1"]);
    rig.judge();
}

/// Roll-forward frees no node and no name. So an fsync takes a checkpoint if a node that was written ahead
/// was freed since, as after an fsync of that node.
#[test]
fn a_node_that_was_written_ahead_and_freed_takes_a_checkpoint() {
    let mut rig = Rig::new(FsyncMode::Strict);
    let file = rig.file("file", &[1; LARGE]);
    rig.v.extents(file).unwrap();
    names(&rig.v, "other");
    assert!(ahead(&rig.v) >= FILES as u64);
    rig.resize(file, 10);
    let before = rig.checkpoints();
    rig.fsync(file);
    assert_eq!(rig.checkpoints(), before + 1);
    rig.crash();
    assert!(rig.content("file") == [1; 10]);
    rig.judge();
}

#[test]
fn an_inode_that_was_written_ahead_and_removed_does_not_come_back() {
    let mut rig = Rig::new(FsyncMode::Strict);
    names(&rig.v, "gone");
    assert!(ahead(&rig.v) >= FILES as u64);
    (0..FILES).for_each(|n| rig.v.unlink(Ino::ROOT, format!("gone{n}").as_bytes()).unwrap());
    let kept = rig.file("kept", &[5; BLOCK]);
    rig.fsync(kept);
    rig.crash();
    assert_eq!(rig.names(), ["kept"]);
    rig.judge();
}

/// A cut between any two writes while nodes of files are written ahead, with an fsync among them and the
/// checkpoint after it.
#[test]
fn every_cut_keeps_what_an_fsync_made_durable() {
    let memory = fresh(96, &MkfsOptions::default());
    let base = memory.snapshot();
    let dev = Arc::new(RecordDevice::new(memory));
    let opts = MountOptions { fsync_mode: FsyncMode::Strict, ..quiet() };
    let v = Volume::mount(dev.clone(), opts.clone()).unwrap();
    for n in 0..40 {
        let ino = create_in(&v, Ino::ROOT, &format!("f{n}"));
        v.write(ino, 0, &[n as u8; BLOCK]).unwrap();
        v.extents(ino).unwrap();
    }
    let written = ahead(&v);
    for n in [3, 17] {
        let ino = v.lookup(Ino::ROOT, format!("f{n}").as_bytes()).unwrap().ino;
        v.fsync(ino).unwrap();
        dev.mark(format!("f{n}"));
    }
    Probe(&v).checkpoint().unwrap();
    dev.mark("all");
    let log = CrashLog::new(base, dev.log()).unwrap();
    let mut states = 0;
    for state in CrashStates::new(&log, CrashPlan { subsets: 8, ..CrashPlan::new(1) }, |_, _| false) {
        let returned: Vec<&str> = log.marks(state.choice.cut).collect();
        let dev = Arc::new(state.device);
        let v =
            Volume::mount(dev.clone(), opts.clone()).unwrap_or_else(|e| panic!("{:?}: {e}", state.choice));
        for n in 0..40 {
            let name = format!("f{n}");
            if returned.contains(&name.as_str()) || returned.contains(&"all") {
                let found = v.lookup(Ino::ROOT, name.as_bytes());
                let ino = found.unwrap_or_else(|e| panic!("{name}, {:?}: {e}", state.choice)).ino;
                assert!(content_of(&v, ino) == [n as u8; BLOCK], "{name}, {:?}", state.choice);
            }
        }
        v.unmount().unwrap();
        assert_clean(&*dev);
        states += 1;
    }
    println!("{written} nodes ahead, {states} states");
    assert!(written >= 40 && states > 100, "{written} {states}");
}
