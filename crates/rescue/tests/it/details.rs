//! Attributes, links, hostile names, images in files, unreadable blocks, data that fsync wrote before a cut.
use super::fixture::{aged, features, look, volume};
use segno::{Device, Features, FormatOptions, MountOptions, OpenOptions, SetMetadata, Special};
use segno_device::{BlockDevice, MemDevice};
use segno_format::{Block, name_hash};
use segno_rescue::output::{Copied, Item, OutputOptions, Plan, Sink, Source, Target};
use segno_rescue::{Class, Reader, RescueError, ScanOptions, Tree, Verdicts, Volume, scan};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn rescue(device: &dyn BlockDevice, to: &Path, options: OutputOptions) -> Vec<Item> {
    let volume = Volume::find(device, look(device).unwrap(), false);
    let tree = Tree::build(&volume);
    let verdicts = Verdicts::of(&volume, &tree, &mut |_, _| {});
    let plan = Plan { volume: &volume, tree: &tree, verdicts: &verdicts, only: None };
    let mut items = Vec::new();
    let mut target = Target::open(to, options).unwrap();
    plan.copy(&mut target, &AtomicBool::new(false), |item| items.push(item)).unwrap();
    items
}

fn wipe_front(device: &MemDevice) {
    let geo = segno_layout::certain(segno_layout::Superblocks::load(&Reader::new(device, 0)))
        .in_force()
        .unwrap()
        .geo;
    super::fixture::wipe(device, 0..geo.main_blkaddr, None);
}

#[test]
fn attributes_links_and_special_files_come_back() {
    let (device, v) = volume(64, features());
    v.write("file", "content").unwrap();
    v.set_metadata(
        "file",
        &SetMetadata::new().mode(0o6751).modified(segno::Time { secs: 1_000_000_007, nsec: 5 }),
    )
    .unwrap();
    v.hard_link("file", "second").unwrap();
    v.symlink("/etc/passwd", "link").unwrap();
    v.create_special("pipe", Special::Fifo).unwrap();
    v.create_special("disk", Special::BlockDevice { major: 8, minor: 1 }).unwrap();
    v.set_xattr("file", "user.small", b"value").unwrap();
    v.set_xattr("file", "user.large", &[7; 2000]).unwrap();
    v.create_dir("empty").unwrap();
    v.close().unwrap();
    wipe_front(&device);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let items = rescue(&*device, dir.path(), OutputOptions::default());
    let meta = fs::metadata(dir.path().join("file")).unwrap();
    assert_eq!(
        (meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()),
        (0o751, 1_000_000_007, 5),
        "set-id bits are kept"
    );
    assert_eq!(meta.ino(), fs::metadata(dir.path().join("second")).unwrap().ino());
    assert_eq!(fs::read_link(dir.path().join("link")).unwrap(), Path::new("/etc/passwd"));
    assert!(dir.path().join("empty").is_dir() && dir.path().join("pipe").exists());
    assert!(!dir.path().join("disk").exists(), "a device node was made unasked");
    let disk = items.iter().find(|i| i.path == "disk").unwrap();
    assert!(disk.failed.is_none() && disk.reasons.iter().any(|r| r.contains("left out")), "{disk:?}");
    let mut value = vec![0; 4000];
    let path = dir.path().join("file");
    let n = rustix::fs::getxattr(&path, "user.large", &mut value[..]);
    match n {
        Ok(n) => assert_eq!(&value[..n], [7; 2000]),
        // The test's file system has no attributes or no room for them, and the report names it.
        Err(_) => assert!(items.iter().any(|i| i.reasons.iter().any(|r| r.contains("refused")))),
    }
}

/// For any names, nothing is made outside the target and no symbolic link is followed.
#[test]
fn names_from_disk_stay_in_the_target() {
    let (device, v) = volume(64, Features::empty());
    let outside = tempfile::tempdir().unwrap();
    v.create_dir("dir").unwrap();
    for name in ["aaaaaaaa", "bbbbbbbb", "cccccccc"] {
        v.write(format!("dir/{name}"), name).unwrap();
    }
    v.symlink(outside.path(), "dir/jump").unwrap();
    v.close().unwrap();
    // `dir` gets the names of no file: upwards, with a slash, and that of the link for a second time.
    rename_on_disk(&device, b"aaaaaaaa", b"../../up");
    rename_on_disk(&device, b"bbbbbbbb", b"jump/new");
    rename_on_disk(&device, b"cccccccc", b"..\0ccccc");
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    let items = rescue(&*device, &target, OutputOptions::default());
    let listed = |p: &Path| fs::read_dir(p).unwrap().map(|e| e.unwrap().file_name()).collect::<BTreeSet<_>>();
    assert_eq!(listed(dir.path()), BTreeSet::from(["target".into()]));
    assert!(listed(outside.path()).is_empty());
    // The contents are there under harmless names.
    let contents: BTreeSet<_> = listed(&target.join("dir"))
        .into_iter()
        .filter_map(|n| fs::read(target.join("dir").join(n)).ok())
        .collect();
    assert_eq!(contents.len(), 3, "{items:?}");
}

/// Changes a name of eight bytes in every dentry area on the device.
fn rename_on_disk(device: &MemDevice, from: &[u8; 8], to: &[u8; 8]) {
    let mut found = 0;
    for at in 0..device.block_count() {
        let mut block = [Block::zeroed()];
        device.read(at, &mut block).unwrap();
        let hash = (name_hash(from).to_le_bytes(), name_hash(to).to_le_bytes());
        let mut changed = false;
        for i in 0..block[0].0.len() - 8 {
            if block[0].0[i..i + 8] == *from {
                block[0].0[i..i + 8].copy_from_slice(to);
                changed = true;
            }
            if block[0].0[i..i + 4] == hash.0 {
                block[0].0[i..i + 4].copy_from_slice(&hash.1);
            }
        }
        if changed {
            found += 1;
            device.write(at, &[&block[0]]).unwrap();
        }
    }
    assert!(found > 0);
}

/// An image in a file has nodes and a superblock, like a volume.
#[test]
fn an_image_in_a_file_is_only_a_file() {
    let inner = aged(41, 60, 64, features(), 1);
    let (device, v) = volume(192, features());
    v.write("mine", "outer").unwrap();
    let mut bytes = vec![0; 64 << 20];
    for (at, chunk) in bytes.chunks_mut(4096).enumerate() {
        let mut block = [Block::zeroed()];
        inner.device.read(at as u64, &mut block).unwrap();
        chunk.copy_from_slice(&block[0].0);
    }
    v.write("image", &bytes).unwrap();
    v.close().unwrap();
    wipe_front(&device);
    let dir = tempfile::tempdir().unwrap();
    let items = rescue(&*device, dir.path(), OutputOptions::default());
    let paths: BTreeSet<_> = items.iter().map(|i| i.path.as_str()).collect();
    assert_eq!(paths, BTreeSet::from(["image", "mine"]));
    assert!(fs::read(dir.path().join("image")).unwrap() == bytes, "the image differs");
}

/// A device on which reads that touch some blocks fail.
struct Scratched<'a>(&'a MemDevice, BTreeSet<u64>);

impl BlockDevice for Scratched<'_> {
    fn block_count(&self) -> u64 {
        self.0.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        if self.1.range(addr..addr + into.len() as u64).next().is_some() {
            return Err(io::Error::other("unreadable"));
        }
        self.0.read(addr, into)
    }
    fn write(&self, _: u64, _: &[&Block]) -> io::Result<()> {
        panic!("the source was written to")
    }
    fn write_fua(&self, _: u64, _: &[&Block]) -> io::Result<()> {
        panic!("the source was written to")
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        panic!("the source was written to")
    }
    fn read_only(&self) -> bool {
        true
    }
}

#[test]
fn unreadable_blocks_are_holes_and_in_the_mapfile() {
    let (device, v) = volume(64, features());
    let bytes: Vec<u8> = (0..50u32 * 4096).map(|i| (i / 4096) as u8 + 1).collect();
    v.write("file", &bytes).unwrap();
    v.close().unwrap();
    let at = (0..device.block_count()).find(|&at| {
        let mut block = [Block::zeroed()];
        device.read(at, &mut block).unwrap();
        block[0].0 == [21; 4096]
    });
    let bad = at.unwrap();
    let scratched = Scratched(&device, BTreeSet::from([0, bad]));
    let found = look(&scratched).unwrap();
    assert_eq!(found.bad.ranges(), [0..1, bad..bad + 1]);
    let (known, stop) = (found.bad.clone(), AtomicBool::new(false));
    let again =
        scan(&scratched, &ScanOptions { threads: 1, known_bad: &known, base: None, stop: &stop }, &|_| {})
            .unwrap();
    assert_eq!(again.bad, found.bad);
    let dir = tempfile::tempdir().unwrap();
    let items = rescue(&scratched, dir.path(), OutputOptions::default());
    let mut expected = bytes;
    expected[20 * 4096..21 * 4096].fill(0);
    assert!(fs::read(dir.path().join("file")).unwrap() == expected);
    assert_eq!(items[0].class, Class::C, "{items:?}");
}

/// Data that fsync acknowledged after the last checkpoint is rescued.
#[test]
fn data_that_fsync_acknowledged_is_rescued() {
    let (device, v) = volume(64, features());
    v.create_dir("dir").unwrap();
    v.write("dir/old", vec![1; 5_000_000]).unwrap();
    v.sync().unwrap();
    let old = v.open_file_with("dir/old", &OpenOptions::new().read(true).write(true)).unwrap();
    old.write_at(&[2; 8192], 4_096_000).unwrap();
    old.sync_all().unwrap();
    let new = v.create_file("dir/new").unwrap();
    new.write_at(&[3; 100_000], 0).unwrap();
    new.sync_all().unwrap();
    let cut = MemDevice::from_snapshot(&device.snapshot());
    let dir = tempfile::tempdir().unwrap();
    rescue(&cut, dir.path(), OutputOptions::default());
    let mut expected = vec![1; 5_000_000];
    expected[4_096_000..4_104_192].fill(2);
    assert!(fs::read(dir.path().join("dir/old")).unwrap() == expected);
    assert!(fs::read(dir.path().join("dir/new")).unwrap() == [3; 100_000]);
}

/// Two inodes name the same blocks; one of them is right, and the other gets holes.
#[test]
fn a_block_has_one_owner() {
    let device: Arc<MemDevice> = Arc::new(MemDevice::new(64 << 8));
    let handle = Device::from(device.clone() as Arc<dyn BlockDevice>);
    segno::format(&handle, &FormatOptions::default()).unwrap();
    let v = segno::Volume::open_with(&handle, &MountOptions::new().background(false)).unwrap();
    v.write("right", vec![5; 40 * 4096]).unwrap();
    v.write("wrong", vec![6; 40 * 4096]).unwrap();
    let [right, wrong] = ["right", "wrong"].map(|n| v.metadata(n).unwrap().ino());
    v.close().unwrap();
    let found = look(&*device).unwrap();
    let at = |ino: u32| u64::from(found.nodes.iter().rfind(|n| n.nid == ino).unwrap().addr);
    let (mut from, mut to) = ([Block::zeroed()], [Block::zeroed()]);
    device.read(at(right), &mut from).unwrap();
    device.read(at(wrong), &mut to).unwrap();
    // The slots of the first ten blocks.
    to[0].0[360..400].copy_from_slice(&from[0].0[360..400]);
    device.write(at(wrong), &[&to[0]]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let items = rescue(&*device, dir.path(), OutputOptions::default());
    assert!(fs::read(dir.path().join("right")).unwrap() == vec![5; 40 * 4096]);
    let mut expected = vec![6; 40 * 4096];
    expected[..10 * 4096].fill(0);
    assert!(fs::read(dir.path().join("wrong")).unwrap() == expected, "foreign bytes");
    let class = |name: &str| items.iter().find(|i| i.path == name).unwrap().class;
    assert_eq!((class("right"), class("wrong")), (Class::A, Class::C));
}

/// Sets the flag when a file is about to be copied.
struct StopAt<'a> {
    target: Target,
    /// Files until then.
    left: usize,
    stop: &'a AtomicBool,
}

impl Sink for StopAt<'_> {
    fn make_dir(&mut self, path: &[Vec<u8>]) -> Result<(), RescueError> {
        self.target.make_dir(path)
    }

    fn copy(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, RescueError> {
        let stops = self.left == 0;
        self.stop.store(stops, Ordering::Relaxed);
        self.left = self.left.saturating_sub(1);
        let done = self.target.copy(path, source);
        assert_eq!(matches!(done, Err(RescueError::Interrupted)), stops, "{done:?}");
        done
    }

    fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), RescueError> {
        self.target.link(first, path)
    }

    fn finish_dir(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<(), RescueError> {
        self.target.finish_dir(path, source)
    }
}

/// Interrupted within any file and between any two. Files that exist are complete, and the rest is copied
/// later.
#[test]
fn a_rescue_that_was_interrupted_goes_on() {
    let (device, v) = volume(64, Features::empty());
    v.create_dir("dir").unwrap();
    (0..6).for_each(|i| v.write(format!("dir/file{i}"), vec![i; 700_000]).unwrap());
    v.hard_link("dir/file1", "second").unwrap();
    v.close().unwrap();
    wipe_front(&device);
    let volume = Volume::find(&*device, look(&*device).unwrap(), false);
    let tree = Tree::build(&volume);
    let verdicts = Verdicts::of(&volume, &tree, &mut |_, _| {});
    let plan = Plan { volume: &volume, tree: &tree, verdicts: &verdicts, only: None };
    for (after, within) in (0..=plan.entries().count()).flat_map(|n| [(n, true), (n, false)]) {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let stop = AtomicBool::new(!within && after == 0);
        let target = Target::open(dir.path(), OutputOptions::default()).unwrap();
        let left = if within { after } else { usize::MAX };
        let mut copied = 0;
        let each = |_| {
            copied += 1;
            if !within {
                stop.store(copied == after, Ordering::Relaxed);
            }
        };
        let done = plan.copy(&mut StopAt { target, left, stop: &stop }, &stop, each);
        let left = (0..6).filter(|i| dir.path().join(format!("dir/file{i}")).exists()).count();
        assert!(left == 6 || matches!(done, Err(RescueError::Interrupted)), "after {after}: {done:?}");
        let whole =
            |i: u8| fs::read(dir.path().join(format!("dir/file{i}"))).is_ok_and(|f| f == vec![i; 700_000]);
        assert_eq!((0..6).filter(|&i| whole(i)).count(), left, "half a file is left after {after}");
        assert!(!dir.path().join(".segno-rescue.part").exists());
        let again = OutputOptions { resume: true, ..OutputOptions::default() };
        let never = AtomicBool::new(false);
        plan.copy(&mut Target::open(dir.path(), again).unwrap(), &never, |_| {}).unwrap();
        assert!((0..6).all(whole) && dir.path().join("second").exists(), "after {after}");
    }
}
