//! How many requests a system call costs. A change that adds one is to be noticed.
use super::{Mount, each_transport, volume_with};
use crate::lesson::teach_silence;
use crate::session::Choice;
use crate::wire::Opcode::{self, *};
use segno_format::Features;
use segno_mkfs::MkfsOptions;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests that nobody waits for; they may come a little later.
const LATE: [Opcode; 3] = [Release, Forget, BatchForget];

fn counts(mount: &Mount) -> Vec<(Opcode, u64)> {
    let mut counts: Vec<_> = mount.server.requests().collect();
    // A batch may hold several, so they cannot be told apart by counting.
    counts.retain(|(op, _)| !matches!(op, Forget | BatchForget));
    counts
}

/// What `call` costs: each kind of request with its number.
fn cost(mount: &Mount, call: impl FnOnce(&Path), expected: &[Opcode]) {
    let before = counts(mount);
    call(mount.path());
    let mut wanted = before.clone();
    for op in expected {
        match wanted.iter_mut().find(|(o, _)| o == op) {
            Some((_, n)) => *n += 1,
            None => wanted.push((*op, 1)),
        }
    }
    wanted.sort_by_key(|(op, _)| *op as u32);
    let late = Instant::now() + Duration::from_secs(10);
    while counts(mount) != wanted && expected.iter().any(|op| LATE.contains(op)) && Instant::now() < late {
        std::thread::yield_now();
    }
    assert_eq!(counts(mount), wanted, "expected {expected:?} beside {before:?}");
}

#[test]
fn a_kernel_that_was_taught_does_not_tell_of_closing() {
    each_transport(
        |mount| {
            teach_silence(mount.path());
            assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
            let taught = counts(mount);
            let of = |op| taught.iter().find(|(o, _)| *o == op).map_or(0, |(_, n)| *n);
            assert_eq!((of(Lookup), of(Open), of(Flush), of(Release)), (1, 1, 1, 0));
            cost(mount, |d| drop(File::create(d.join("a")).unwrap()), &[Lookup, Create]);
            // Closing is told of late, if at all.
            cost(mount, |d| drop(File::create(d.join("b")).unwrap()), &[Lookup, Create]);
            cost(mount, |d| fs::remove_file(d.join("a")).unwrap(), &[Unlink]);
        },
        &[],
    );
}

/// The costs of changes; `parent` is what checking the permissions of the changed directory adds.
fn changes(mount: &Mount, parent: &[Opcode]) {
    let with = |list: &[Opcode]| [list, parent].concat();
    // What a file that was closed before the kernel knew better would cost comes at any time.
    teach_silence(mount.path());
    // The first file teaches the kernel what else it need not ask, and what the root is like.
    fs::write(mount.path().join("warm"), "x").unwrap();
    assert_eq!(fs::read(mount.path().join("warm")).unwrap(), b"x");
    fs::read_dir(mount.path()).unwrap().for_each(drop);
    fs::write(mount.path().join("warm2"), "x").unwrap();

    cost(mount, |d| drop(File::create(d.join("a")).unwrap()), &with(&[Lookup, Create]));
    cost(mount, |d| fs::write(d.join("b"), [1; 4096]).unwrap(), &with(&[Lookup, Create, GetXattr, Write]));
    let synced = |d: &Path| {
        let mut f = File::create(d.join("c")).unwrap();
        f.write_all(&[1; 4096]).unwrap();
        f.sync_all().unwrap();
    };
    cost(mount, synced, &with(&[Lookup, Create, GetXattr, Write, Fsync]));
    cost(mount, |d| fs::create_dir(d.join("d")).unwrap(), &with(&[Lookup, Mkdir]));
    cost(mount, |d| fs::rename(d.join("a"), d.join("e")).unwrap(), &with(&[Lookup, Rename]));
    cost(mount, |d| fs::remove_file(d.join("e")).unwrap(), &with(&[Unlink]));
}

#[test]
fn changes_where_root_alone_may_enter() {
    each_transport(|m| changes(m, &[]), &[]);
}

#[test]
fn changes_where_the_kernel_checks_permissions() {
    each_transport(|m| changes(m, &[GetAttr]), &["default_permissions"]);
}

#[test]
fn what_is_cached_costs_nothing() {
    each_transport(
        |mount| {
            teach_silence(mount.path());
            fs::write(mount.path().join("f"), [7; 4096]).unwrap();
            assert_eq!(fs::read(mount.path().join("f")).unwrap(), [7; 4096]);
            let read = |d: &Path| {
                let mut bytes = Vec::new();
                File::open(d.join("f")).unwrap().read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, [7; 4096]);
            };
            cost(mount, read, &[]);
            cost(mount, |d| assert!(fs::metadata(d.join("f")).is_ok()), &[]);
            // What is not there is remembered, too.
            let missing = |d: &Path| assert!(fs::metadata(d.join("missing")).is_err());
            cost(mount, missing, &[Lookup]);
            cost(mount, missing, &[]);
            let append = |d: &Path| {
                File::options().append(true).open(d.join("f")).unwrap().write_all(b"end").unwrap();
            };
            // The first write through a cached inode asks whether it has capabilities that a write takes away.
            cost(mount, append, &[GetXattr, Write]);
            cost(mount, append, &[Write]);
            cost(mount, |d| assert_eq!(fs::metadata(d.join("f")).unwrap().len(), 4102), &[GetAttr]);
            cost(mount, |d| assert_eq!(fs::metadata(d.join("f")).unwrap().len(), 4102), &[]);
        },
        &[],
    );
}

#[test]
fn the_time_of_birth_costs_a_request_only_where_inodes_have_one() {
    let births =
        MkfsOptions { features: Features::EXTRA_ATTR | Features::INODE_CRTIME, ..MkfsOptions::default() };
    for (options, asked) in [(MkfsOptions::default(), &[][..]), (births, &[Statx][..])] {
        for choice in [Choice::Classic, Choice::IoUring] {
            let Some(mount) = Mount::of(volume_with(&options), choice, &[]) else { continue };
            let born = |name: &'static str| {
                move |d: &Path| {
                    assert_eq!(fs::metadata(d.join(name)).unwrap().created().is_ok(), !asked.is_empty());
                }
            };
            teach_silence(mount.path());
            born("")(mount.path());
            cost(&mount, |d| drop(File::create(d.join("f")).unwrap()), &[Lookup, Create]);
            cost(&mount, born("f"), asked);
            cost(&mount, born("f"), &[]);
        }
    }
}

#[test]
fn forgetting_frees_what_lost_its_name_while_open() {
    each_transport(
        |mount| {
            let path = mount.path().join("f");
            fs::write(&path, [1; 4096]).unwrap();
            let mut open = File::open(&path).unwrap();
            fs::remove_file(&path).unwrap();
            let orphans =
                || mount.server.volume.report().into_iter().find(|(n, _)| *n == "orphans").unwrap().1;
            let mut bytes = Vec::new();
            open.read_to_end(&mut bytes).unwrap();
            assert_eq!((bytes.len(), orphans()), (4096, 1));
            drop(open);
            let late = Instant::now() + Duration::from_secs(10);
            while orphans() > 0 && Instant::now() < late {
                std::thread::yield_now();
            }
            assert_eq!(orphans(), 0);
        },
        &[],
    );
}
