//! What the background does with a journal: names every second, data in its own time.
use super::{Rig, format};
use crate::common::quiet;
use segno_engine::options::JournalMode;
use segno_engine::{Background, MountOptions, Volume};

#[test]
fn a_step_commits_names_and_leaves_data_to_its_time() {
    let mut rig = Rig::new();
    rig.file("small", b"inline");
    rig.file("large", &[7; 100_000]);
    rig.v.tick().unwrap();
    assert_eq!((rig.stat("data_blocks"), rig.stat("journal_commits")), (0, 1));
    let before = rig.dev.clone();
    rig.crash();
    assert_eq!(rig.content("small"), b"inline", "inline data is metadata");
    assert_eq!(rig.content("large"), b"", "no size without its data");
    rig.dev = before;
    rig.crash();
    rig.file("late", &[8; 100_000]);
    rig.v.write_aged().unwrap();
    assert_eq!(rig.stat("data_blocks"), 25, "every page once");
    rig.v.tick().unwrap();
    rig.crash();
    assert_eq!(rig.content("late"), [8; 100_000]);
    rig.judge();
}

/// Pieces of a large file, and groups of small ones.
#[test]
fn aged_data_is_written_whole() {
    let mut rig = Rig::new();
    rig.file("large", &vec![9; 3 << 20]);
    (0..300).for_each(|n| _ = rig.file(&format!("f{n}"), &[n as u8; 5000]));
    rig.v.write_aged().unwrap();
    assert_eq!(rig.stat("data_blocks"), 768 + 600);
    rig.v.tick().unwrap();
    rig.crash();
    assert!(rig.content("large") == vec![9; 3 << 20]);
    assert!((0..300).all(|n| rig.content(&format!("f{n}")) == [n as u8; 5000]));
    rig.judge();
}

#[test]
fn the_threads_write_and_commit_and_stop() {
    let opts = MountOptions { journal: JournalMode::On, background: true, commit_interval: 1, ..quiet() };
    let v = Volume::mount(format(), opts).unwrap();
    let background = Background::start(&v).unwrap();
    let rig = Rig { dev: format(), v: v.clone(), opts: quiet() };
    rig.file("a", &[7; 100_000]);
    while rig.stat("data_blocks") < 25 || rig.stat("journal_commits") == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop((background, rig));
    assert_eq!(std::sync::Arc::strong_count(&v), 1);
    v.unmount().unwrap();
}
