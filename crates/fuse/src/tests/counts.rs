//! Number of requests per system call, so that an added request is noticed.
use super::{Mount, each_transport, volume_with};
use crate::options::Choice;
use crate::probe::probe_no_open;
use crate::wire::Opcode::{self, *};
use segno_format::Features;
use segno_mkfs::MkfsOptions;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests without a waiting caller; they may arrive late.
const LATE: [Opcode; 3] = [Release, Forget, BatchForget];

fn counts(mount: &Mount) -> Vec<(Opcode, u64)> {
    let mut counts: Vec<_> = mount.server.traffic.requests().collect();
    // One batch may hold several, so the number of requests varies.
    counts.retain(|(op, _)| !matches!(op, Forget | BatchForget));
    counts
}

/// Asserts which requests `call` costs.
pub(super) fn cost(mount: &Mount, call: impl FnOnce(&Path), expected: &[Opcode]) {
    let before = counts(mount);
    call(mount.path());
    let mut expected_counts = before.clone();
    for op in expected {
        match expected_counts.iter_mut().find(|(o, _)| o == op) {
            Some((_, n)) => *n += 1,
            None => expected_counts.push((*op, 1)),
        }
    }
    expected_counts.sort_by_key(|(op, _)| *op as u32);
    let late = Instant::now() + Duration::from_secs(10);
    while counts(mount) != expected_counts
        && expected.iter().any(|op| LATE.contains(op))
        && Instant::now() < late
    {
        std::thread::yield_now();
    }
    assert_eq!(counts(mount), expected_counts, "expected {expected:?} in addition to {before:?}");
}

#[test]
fn after_the_probe_closing_sends_no_request() {
    each_transport(
        |mount| {
            probe_no_open(mount.path());
            assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
            let probed = counts(mount);
            let of = |op| probed.iter().find(|(o, _)| *o == op).map_or(0, |(_, n)| *n);
            assert_eq!((of(Lookup), of(Open), of(Flush), of(Release)), (1, 1, 1, 0));
            cost(mount, |d| drop(File::create(d.join("a")).unwrap()), &[Lookup, Create]);
            // A RELEASE of the first file would arrive late.
            cost(mount, |d| drop(File::create(d.join("b")).unwrap()), &[Lookup, Create]);
            cost(mount, |d| fs::remove_file(d.join("a")).unwrap(), &[Unlink]);
        },
        &[],
    );
}

/// Asserts the costs of changes. To check permissions the kernel fetches the attributes of a directory after its change.
fn cost_of_changes(mount: &Mount) {
    let with = |list: &[Opcode]| [list, &[GetAttr]].concat();
    // A RELEASE of a file closed before the probe would arrive at any time.
    probe_no_open(mount.path());
    // The first file lets the kernel learn which requests return ENOSYS, and cache the root.
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
fn changes() {
    each_transport(cost_of_changes, &["default_permissions"]);
}

#[test]
fn cached_data_costs_no_request() {
    each_transport(
        |mount| {
            probe_no_open(mount.path());
            fs::write(mount.path().join("f"), [7; 4096]).unwrap();
            assert_eq!(fs::read(mount.path().join("f")).unwrap(), [7; 4096]);
            let read = |d: &Path| {
                let mut bytes = Vec::new();
                File::open(d.join("f")).unwrap().read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, [7; 4096]);
            };
            cost(mount, read, &[]);
            cost(mount, |d| assert!(fs::metadata(d.join("f")).is_ok()), &[]);
            // A missing name is cached, too.
            let missing = |d: &Path| assert!(fs::metadata(d.join("missing")).is_err());
            cost(mount, missing, &[Lookup]);
            cost(mount, missing, &[]);
            let append = |d: &Path| {
                File::options().append(true).open(d.join("f")).unwrap().write_all(b"end").unwrap();
            };
            // The first write to an inode looks for capabilities, which a write clears.
            cost(mount, append, &[GetXattr, Write]);
            cost(mount, append, &[Write]);
            cost(mount, |d| assert_eq!(fs::metadata(d.join("f")).unwrap().len(), 4102), &[GetAttr]);
            cost(mount, |d| assert_eq!(fs::metadata(d.join("f")).unwrap().len(), 4102), &[]);
        },
        &[],
    );
}

#[test]
fn the_birth_time_costs_a_request_only_if_inodes_have_one() {
    let births =
        MkfsOptions { features: Features::EXTRA_ATTR | Features::INODE_CRTIME, ..MkfsOptions::default() };
    for (options, expected) in [(MkfsOptions::default(), &[][..]), (births, &[Statx][..])] {
        for choice in [Choice::Classic, Choice::IoUring] {
            let Some(mount) = Mount::of(volume_with(&options), choice, &[]) else { continue };
            let born = |name: &'static str| {
                move |d: &Path| {
                    assert_eq!(fs::metadata(d.join(name)).unwrap().created().is_ok(), !expected.is_empty());
                }
            };
            probe_no_open(mount.path());
            born("")(mount.path());
            cost(&mount, |d| drop(File::create(d.join("f")).unwrap()), &[Lookup, Create]);
            cost(&mount, born("f"), expected);
            cost(&mount, born("f"), &[]);
        }
    }
}

#[test]
fn forget_frees_an_unlinked_open_file() {
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
