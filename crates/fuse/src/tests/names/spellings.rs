//! Each way to change a name, with other spellings in the kernel's cache.
use super::{each_folding, set_folding};
use crate::probe::probe_no_open;
use crate::tests::counts::cost;
use crate::wire::Opcode::*;
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, mknodat, renameat_with, statat};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Both directories of a mount; names begin with `g/` or `plain/`.
struct Dirs<'a>(&'a Path);

impl Dirs<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn exchange(&self, a: &str, b: &str) {
        renameat_with(CWD, self.path(a), CWD, self.path(b), RenameFlags::EXCHANGE).unwrap();
    }

    /// Asserts the content under every name, which leaves them in the kernel's cache.
    fn read(&self, names: &[&str], content: &str) {
        for name in names {
            assert_eq!(fs::read_to_string(self.path(name)).unwrap(), content, "{name}");
        }
    }

    fn missing(&self, names: &[&str]) {
        for name in names {
            let found = fs::symlink_metadata(self.path(name));
            assert_eq!(found.map(|_| ()).unwrap_err().kind(), ErrorKind::NotFound, "{name}");
        }
    }

    /// The names as they are stored.
    fn list(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path(dir))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

const ALL: [&str; 3] = ["g/save.dat", "g/Save.dat", "g/SAVE.DAT"];

type Case = (&'static str, fn(&Dirs<'_>));

const CASES: [Case; 18] = [
    ("a file is created", |d| {
        d.missing(&ALL);
        d.write("g/save.dat", "one");
        d.read(&ALL, "one");
        assert_eq!(d.list("g"), ["save.dat"]);
    }),
    ("a file is removed and created again", |d| {
        d.write("g/save.dat", "one");
        d.read(&ALL, "one");
        fs::remove_file(d.path("g/save.dat")).unwrap();
        d.missing(&ALL);
        d.write("g/Save.dat", "two");
        d.read(&ALL, "two");
        assert_eq!(d.list("g"), ["Save.dat"]);
    }),
    ("an open file is removed and created again", |d| {
        d.write("g/save.dat", "one");
        d.read(&ALL, "one");
        let mut open = File::open(d.path("g/Save.dat")).unwrap();
        fs::remove_file(d.path("g/SAVE.DAT")).unwrap();
        d.missing(&ALL);
        d.write("g/Save.dat", "two");
        d.read(&ALL, "two");
        let mut kept = String::new();
        open.read_to_string(&mut kept).unwrap();
        assert_eq!(kept, "one");
    }),
    ("a file is replaced", |d| {
        d.write("g/Save.dat", "old");
        d.write("g/other", "new");
        d.read(&ALL, "old");
        d.rename("g/other", "g/SAVE.DAT");
        d.read(&ALL, "new");
        d.missing(&["g/other", "g/OTHER"]);
        // As in Linux, the entry keeps its spelling.
        assert_eq!(d.list("g"), ["Save.dat"]);
    }),
    ("a file from another directory replaces one", |d| {
        d.write("g/Save.dat", "old");
        d.write("plain/other", "new");
        d.read(&ALL, "old");
        d.read(&["plain/other"], "new");
        d.rename("plain/other", "g/SAVE.DAT");
        d.read(&ALL, "new");
        fs::remove_file(d.path("g/save.dat")).unwrap();
        d.missing(&ALL);
        d.write("g/Save.dat", "third");
        d.read(&ALL, "third");
    }),
    ("a file moves in, and out under another spelling", |d| {
        d.write("plain/other", "x");
        d.missing(&ALL);
        d.rename("plain/other", "g/Save.dat");
        d.read(&ALL, "x");
        d.rename("g/SAVE.DAT", "plain/back");
        d.missing(&ALL);
        d.read(&["plain/back"], "x");
        d.missing(&["plain/BACK", "plain/other"]);
    }),
    ("a directory moves in, and out under another spelling", |d| {
        fs::create_dir(d.path("plain/sub")).unwrap();
        d.write("plain/sub/f", "x");
        d.read(&["plain/sub/f"], "x");
        d.rename("plain/sub", "g/Sub");
        d.read(&["g/Sub/f", "g/SUB/f", "g/sub/f"], "x");
        d.rename("g/SUB", "plain/sub");
        d.missing(&["g/Sub", "g/SUB", "g/sub"]);
        d.read(&["plain/sub/f"], "x");
        d.missing(&["plain/sub/F", "plain/Sub"]);
    }),
    ("files of two directories are exchanged", |d| {
        for (a, b) in [("plain/p", "g/Save.dat"), ("g/SAVE.DAT", "plain/p")] {
            d.write("plain/p", "plain");
            d.write("g/save.dat", "folded");
            d.read(&ALL, "folded");
            d.read(&["plain/p"], "plain");
            d.exchange(a, b);
            d.read(&ALL, "plain");
            d.read(&["plain/p"], "folded");
            fs::remove_file(d.path("g/saVE.dat")).unwrap();
            d.missing(&ALL);
        }
    }),
    ("a link is made and removed", |d| {
        d.write("plain/f", "x");
        d.missing(&ALL);
        fs::hard_link(d.path("plain/f"), d.path("g/Save.dat")).unwrap();
        d.read(&ALL, "x");
        fs::remove_file(d.path("g/SAVE.DAT")).unwrap();
        d.missing(&ALL);
        d.read(&["plain/f"], "x");
    }),
    ("a symbolic link is made and replaced", |d| {
        d.missing(&ALL);
        symlink("one", d.path("g/Save.dat")).unwrap();
        let targets = || ALL.map(|name| fs::read_link(d.path(name)).unwrap());
        assert_eq!(targets(), [Path::new("one"); 3]);
        fs::remove_file(d.path("g/save.dat")).unwrap();
        symlink("two", d.path("g/SAVE.DAT")).unwrap();
        assert_eq!(targets(), [Path::new("two"); 3]);
    }),
    ("a FIFO is made and removed", |d| {
        d.missing(&ALL);
        mknodat(CWD, d.path("g/Save.dat"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ALL {
            let stat = statat(CWD, d.path(name), AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo, "{name}");
        }
        fs::remove_file(d.path("g/SAVE.DAT")).unwrap();
        d.missing(&ALL);
    }),
    ("a directory is removed and made again", |d| {
        fs::create_dir(d.path("g/diR")).unwrap();
        assert!(d.path("g/DIR").is_dir());
        fs::remove_dir(d.path("g/diR")).unwrap();
        d.missing(&["g/DIR", "g/dir"]);
        fs::create_dir(d.path("g/dir")).unwrap();
        assert!(d.path("g/DIR").is_dir());
        assert!(d.path("g/diR").is_dir());
    }),
    ("a directory inherits that it ignores case", |d| {
        fs::create_dir(d.path("g/sub")).unwrap();
        d.missing(&["g/sub/A", "g/SUB/a"]);
        d.write("g/Sub/a", "x");
        d.read(&["g/sub/A", "g/SUB/a"], "x");
        fs::remove_file(d.path("g/SUB/A")).unwrap();
        d.missing(&["g/sub/A", "g/SUB/a", "g/Sub/a"]);
    }),
    ("a listing precedes the removal", |d| {
        ["g/Save.dat", "g/b", "g/c"].iter().for_each(|name| d.write(name, "x"));
        for e in fs::read_dir(d.path("g")).unwrap() {
            assert_eq!(e.unwrap().metadata().unwrap().len(), 1);
        }
        fs::remove_file(d.path("g/SAVE.DAT")).unwrap();
        d.missing(&ALL);
    }),
    ("a directory begins to ignore case", |d| {
        d.missing(&["plain/SAVE.DAT", "plain/Save.dat"]);
        d.write("plain/save.dat", "x");
        d.missing(&["plain/SAVE.DAT", "plain/Save.dat"]);
        fs::remove_file(d.path("plain/save.dat")).unwrap();
        set_folding(&d.path("plain"), true);
        d.write("plain/save.dat", "x");
        d.read(&["plain/SAVE.DAT", "plain/Save.dat", "plain/save.dat"], "x");
    }),
    ("a directory ceases to ignore case", |d| {
        d.write("g/save.dat", "x");
        d.read(&ALL, "x");
        fs::remove_file(d.path("g/SAVE.DAT")).unwrap();
        set_folding(&d.path("g"), false);
        d.write("g/save.dat", "x");
        d.read(&["g/save.dat"], "x");
        d.missing(&["g/Save.dat", "g/SAVE.DAT"]);
    }),
    ("a new name differs in case only", |d| {
        d.write("g/Save.dat", "x");
        // As in Linux: both names are one file, and rename(2) of a file to itself does nothing.
        d.rename("g/Save.dat", "g/SAVE.DAT");
        d.read(&ALL, "x");
        assert_eq!(d.list("g"), ["Save.dat"]);
    }),
    ("a file that exists is created exclusively", |d| {
        d.missing(&ALL);
        d.write("g/save.dat", "x");
        for name in ALL {
            let made = File::create_new(d.path(name)).map(|_| ());
            assert_eq!(made.unwrap_err().kind(), ErrorKind::AlreadyExists, "{name}");
        }
    }),
];

#[test]
fn every_spelling_shows_every_change() {
    for (name, case) in CASES {
        each_folding(|mount| {
            eprintln!("{name}");
            case(&Dirs(mount.path()));
        });
    }
}

/// A name in a directory that ignores case costs a LOOKUP for each use. Elsewhere nothing changes, except that missing
/// names are not cached on a volume that may have such directories.
#[test]
fn only_directories_that_ignore_case_cost_lookups() {
    each_folding(|mount| {
        probe_no_open(mount.path());
        let exists = |name: &'static str| move |d: &Path| assert!(fs::metadata(d.join(name)).is_ok());
        let missing = |name: &'static str| move |d: &Path| assert!(fs::metadata(d.join(name)).is_err());
        ["plain/f", "plain/moved", "g/f"].iter().for_each(|name| drop(File::create(mount.path().join(name))));
        // After each change the attributes of the directory are fetched once.
        ["plain", "g"].iter().for_each(|name| exists(name)(mount.path()));
        cost(mount, exists("plain/f"), &[]);
        cost(mount, exists("g/f"), &[Lookup]);
        cost(mount, exists("g/F"), &[Lookup]);
        cost(mount, exists("g/F"), &[Lookup]);
        cost(mount, missing("g/other"), &[Lookup]);
        cost(mount, missing("g/other"), &[Lookup]);
        cost(mount, missing("plain/other"), &[Lookup]);
        cost(mount, missing("plain/other"), &[Lookup]);
        let rename = |from: &'static str, to: &'static str| {
            move |d: &Path| fs::rename(d.join(from), d.join(to)).unwrap()
        };
        cost(mount, rename("plain/moved", "plain/other"), &[Lookup, Rename]);
        cost(mount, rename("g/f", "g/f2"), &[Lookup, Lookup, Rename]);
        // The refused attempt; then both names and both directories once more.
        let twice = [Lookup, Rename, Lookup, Lookup, Lookup, Lookup, Rename];
        cost(mount, rename("plain/other", "g/in"), &twice);
        cost(mount, rename("g/in", "plain/out"), &[Lookup, Lookup, Rename]);
    });
}

/// Ends the other thread, also when a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A lookup by another thread may leave a name cached that was moved in, but not for ever.
#[test]
fn names_move_while_they_are_looked_up() {
    const ROUNDS: usize = 200;
    each_folding(|mount| {
        let d = Dirs(mount.path());
        let (round, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        d.write("plain/x", "x");
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let n = round.load(Ordering::Relaxed);
                    for name in ["plain/x".to_owned(), format!("g/Name{n}"), format!("g/NAME{n}")] {
                        let _there_or_not = fs::metadata(d.path(&name));
                    }
                }
            });
            let _done = Done(&done);
            for n in 0..ROUNDS {
                round.store(n, Ordering::Relaxed);
                d.rename("plain/x", &format!("g/Name{n}"));
                d.read(&[&format!("g/name{n}")], "x");
                d.rename(&format!("g/NAME{n}"), "plain/x");
            }
        });
        let left = || (0..ROUNDS).filter(|n| fs::metadata(d.path(&format!("g/Name{n}"))).is_ok()).count();
        let cached = (0..600).find(|_| {
            let left = left();
            thread::sleep(Duration::from_millis(if left > 0 { 100 } else { 0 }));
            left == 0
        });
        assert!(cached.is_some(), "{} spellings stay cached", left());
        d.read(&["plain/x"], "x");
    });
}
