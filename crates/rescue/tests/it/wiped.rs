//! Volumes that lost what is before the main area, in parts or all of it.
use super::fixture::{Aged, Oracle, aged, features, look, wipe};
use segno::Features;
use segno_device::MemDevice;
use segno_format::Geometry;
use segno_layout::{Superblocks, certain};
use segno_rescue::output::{OutputOptions, Plan, Target};
use segno_rescue::{Class, Reader, Tree, Verdicts, Volume};
use segno_testkit::Rng;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

fn plain() -> &'static Aged {
    static AGED: OnceLock<Aged> = OnceLock::new();
    AGED.get_or_init(|| aged(20, 1200, 128, Features::empty(), 8))
}

fn full() -> &'static Aged {
    static AGED: OnceLock<Aged> = OnceLock::new();
    AGED.get_or_init(|| aged(21, 1000, 128, features() | Features::FLEXIBLE_INLINE_XATTR, 8))
}

fn geometry(device: &MemDevice) -> Geometry {
    certain(Superblocks::load(&Reader::new(device, 0))).in_force().unwrap().geo
}

/// Rescues everything and compares; returns the share of files that are right.
fn rescue(device: &MemDevice, files: &Oracle) -> (f64, [usize; 3]) {
    let volume = Volume::find(device, look(device).unwrap(), false);
    let tree = Tree::build(&volume);
    let verdicts = Verdicts::of(&volume, &tree, &mut |_, _| {});
    let plan = Plan { volume: &volume, tree: &tree, verdicts: &verdicts, only: None };
    let dir = tempfile::tempdir().unwrap();
    let mut target = Target::open(dir.path(), OutputOptions::default()).unwrap();
    let (mut classes, mut wrong) = ([0; 3], Vec::new());
    plan.copy(&mut target, &AtomicBool::new(false), |item| {
        if item.kind == "file" {
            classes[item.class as usize] += 1;
            // Content that was not reported as doubtful is right, or the file is not in the tree.
            if item.class != Class::C
                && files.get(&item.path).is_none_or(|f| !same(&dir.path().join(&item.path), f))
            {
                wrong.push(item);
            }
        }
    })
    .unwrap();
    assert!(wrong.is_empty(), "wrong, and not said to be doubtful: {:?}", &wrong[..wrong.len().min(5)]);
    let right = files.iter().filter(|(path, file)| same(&dir.path().join(path), file)).count();
    (right as f64 / files.len() as f64, classes)
}

fn same(path: &Path, (bytes, mode): &(Vec<u8>, u32)) -> bool {
    std::fs::read(path).is_ok_and(|b| b == *bytes)
        && std::fs::metadata(path).unwrap().permissions().mode() & 0o7777 == *mode
}

/// Wipes an area with zeros and with noise, and expects all but one file in a thousand.
fn expect(base: &Aged, area: impl Fn(&Geometry) -> Range<u32>) {
    for noise in [false, true] {
        let device = MemDevice::from_snapshot(&base.device.snapshot());
        let geo = geometry(&device);
        let mut rng = Rng::new(5);
        for at in area(&geo) {
            wipe(&device, at..at + 1, noise.then_some(&mut rng));
        }
        let (share, classes) = rescue(&device, &base.files);
        println!("noise {noise}: {share} {classes:?}");
        assert!(share >= 0.999, "only {share} are right; classes {classes:?}");
    }
}

#[test]
fn a_whole_volume_is_proven() {
    let (share, [a, b, c]) = rescue(&full().device, &full().files);
    assert_eq!((share, b, c), (1.0, 0, 0), "{a} proven");
}

#[test]
fn without_superblocks() {
    expect(plain(), |_| 0..2);
    expect(full(), |_| 0..2);
}

#[test]
fn without_packs() {
    expect(plain(), |g| g.cp_blkaddr..g.sit_blkaddr);
}

#[test]
fn without_sit() {
    expect(plain(), |g| g.sit_blkaddr..g.nat_blkaddr);
}

#[test]
fn without_nat() {
    expect(plain(), |g| g.nat_blkaddr..g.ssa_blkaddr);
}

#[test]
fn without_ssa() {
    expect(plain(), |g| g.ssa_blkaddr..g.main_blkaddr);
}

#[test]
fn without_all_before_the_main_area() {
    expect(plain(), |g| 0..g.main_blkaddr);
    expect(full(), |g| 0..g.main_blkaddr);
}
