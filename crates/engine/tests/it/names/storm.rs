//! Concurrent operations on the same names.
use super::*;
use segno_testkit::Rng;
use std::sync::Barrier;

const THREADS: u64 = 8;

/// Every directory must be reachable exactly once afterwards: a loop would detach a part of the tree.
#[test]
fn renames_of_directories_never_form_a_loop() {
    let mut rig = Rig::new(Features::empty());
    let mut dirs = vec![ROOT];
    for i in 0..12 {
        dirs.push(rig.dir(dirs[i / 2], &format!("n{i}")));
    }
    let start = Barrier::new(THREADS as usize);
    let seed = 0x5EED_0001;
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (rig, dirs, start) = (&rig, &dirs, &start);
            s.spawn(move || {
                let mut rng = Rng::new(seed + t);
                start.wait();
                for _ in 0..2000 {
                    let mut pick = || dirs[rng.below(dirs.len() as u64) as usize];
                    let (from, to) = (pick(), pick());
                    let name = |rng: &mut Rng| format!("n{}", rng.below(12));
                    let (old, new) = (name(&mut rng), name(&mut rng));
                    let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]
                        [rng.below(3) as usize];
                    if mode == RenameMode::Replace && rig.v.lookup(to, new.as_bytes()).is_ok() {
                        // Replacing would remove directories; this test counts them.
                        continue;
                    }
                    match rig.mv(
                        (from, &old),
                        (to, &new),
                        if mode == RenameMode::Replace { RenameMode::NoReplace } else { mode },
                    ) {
                        Ok(()) => {}
                        Err(e) => assert!([2, 17, 22].contains(&e.errno()), "seed {seed:#x} thread {t}: {e}"),
                    }
                }
            });
        }
    });
    for remounted in [false, true] {
        let mut seen = Vec::new();
        let mut todo = vec![ROOT];
        while let Some(d) = todo.pop() {
            let below: Vec<Ino> = rig.list(d).into_iter().map(|(_, i)| i).collect();
            assert_eq!(rig.attr(d).nlink as usize, 2 + below.len(), "seed {seed:#x}");
            below.iter().for_each(|&c| assert_eq!(rig.lookup(c, ".."), d));
            todo.extend(&below);
            seen.extend(below);
        }
        seen.sort();
        let mut all = dirs[1..].to_vec();
        all.sort();
        assert_eq!(seen, all, "seed {seed:#x} remounted {remounted}");
        if !remounted {
            rig.remount();
        }
    }
    rig.finish();
}

/// Creates, links, removes and replaces a few names concurrently; then the volume must be consistent.
#[test]
fn threads_on_the_same_names_leave_a_consistent_volume() {
    let mut rig = Rig::new(ALL);
    let dirs = [ROOT, rig.dir(ROOT, "p"), rig.dir(ROOT, "q")];
    let seed = 0x5EED_0002;
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (v, dirs) = (&rig.v, &dirs);
            s.spawn(move || {
                let mut rng = Rng::new(seed + t * 7);
                for i in 0..2000 {
                    let d = dirs[rng.below(3) as usize];
                    let e = dirs[rng.below(3) as usize];
                    let n = [b'a' + rng.below(6) as u8];
                    let m = [b'a' + rng.below(6) as u8];
                    let o = Owner::default();
                    let done = match rng.below(9) {
                        0 | 1 => v.mknod(d, &n, REG, (0, 0), o).map(drop),
                        2 => v.mkdir(d, &n, 0o700, o).map(drop),
                        3 => v.unlink(d, &n),
                        4 => v.rmdir(d, &n),
                        5 => v.lookup(d, &n).and_then(|a| v.link(a.ino, e, &m)).map(drop),
                        6 => v.rename(d, &n, e, &m, RenameMode::Replace, o),
                        7 => v.rename(d, &n, e, &m, RenameMode::Exchange, o),
                        _ => v.create(d, &n, 0o600, o).and_then(|a| {
                            drop(v.unlink(d, &n));
                            v.release(a.ino)
                        }),
                    };
                    if let Err(e) = done {
                        let fine = [1, 2, 17, 20, 21, 22, 39].contains(&e.errno());
                        assert!(fine, "seed {seed:#x} thread {t} step {i}: {e}");
                    }
                    if i % 200 == 199 {
                        v.sync().unwrap();
                    }
                }
            });
        }
    });
    let before: Vec<_> = dirs.iter().map(|&d| rig.list(d)).collect();
    rig.remount();
    let after: Vec<_> = dirs.iter().map(|&d| rig.list(d)).collect();
    assert_eq!(before, after, "seed {seed:#x}");
    rig.finish();
}
