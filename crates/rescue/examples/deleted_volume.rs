//! Deletes a directory of a volume, brings it back and compares, then writes half of the volume and does that again:
//! `deleted_volume IMAGE TARGET [MIB [SEED]]`, with MIB of files on a volume of two and a half times that size.
use segno::{Device, FormatOptions, MountOptions, Volume};
use segno_device::{FileDevice, OpenOptions};
use segno_rescue::output::{OutputOptions, Target};
use segno_rescue::scan::BadBlocks;
use segno_rescue::undelete::{self, Lost, Proof};
use segno_rescue::{Class, ScanOptions, Tree, scan};
use segno_testkit::Rng;
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

type Done<T> = Result<T, Box<dyn Error>>;

/// Length and seed of the content of each file.
type Oracle = BTreeMap<String, (usize, u64)>;

fn main() -> Done<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [image, target] = [0, 1].map(|i| args.get(i).cloned().unwrap_or_default());
    let (image, target) = (Path::new(&image), Path::new(&target));
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |a| a.parse());
    let (mib, seed) = (number(2, 1024)?, number(3, 1)?);
    let mut rng = Rng::new(seed);
    let device = Device::create(image, (mib * 5 / 2) << 20)?;
    segno::format(&device, &FormatOptions::default())?;
    let volume = open(&device)?;
    let kept = fill(&volume, "kept", mib << 17, &mut rng)?;
    let gone = fill(&volume, "gone", mib << 20, &mut rng)?;
    volume.close()?;
    let volume = open(&device)?;
    volume.remove_dir_all("gone")?;
    volume.close()?;
    drop(device);
    std::fs::create_dir_all(target)?;
    judge(image, &target.join("deleted"), &gone, &[&gone, &kept])?;
    let device = Device::open(image)?;
    let volume = open(&device)?;
    let new = fill(&volume, "new", (mib * 5 / 4) << 20, &mut rng)?;
    volume.close()?;
    drop(device);
    judge(image, &target.join("overwritten"), &gone, &[&gone, &kept, &new])
}

fn open(device: &Device) -> Done<Volume> {
    Ok(Volume::open_with(device, &MountOptions::new().discard(segno::Discard::Never))?)
}

fn content(len: usize, tag: u64) -> Vec<u8> {
    let mut rng = Rng::new(tag);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // No block is all zero, as a hole is.
        bytes.extend((rng.draw() | 1).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Writes files below a directory.
fn fill(volume: &Volume, top: &str, bytes: u64, rng: &mut Rng) -> Done<Oracle> {
    let (mut oracle, mut written, mut i) = (Oracle::new(), 0, 0u64);
    while written < bytes {
        let len = match rng.below(20) {
            0 => rng.below(4 << 20),
            1..6 => rng.below(200_000),
            _ => rng.below(20_000),
        };
        let dir = format!("{top}/d{}/e{}", i % 23, i % 7);
        volume.create_dir_all(&dir)?;
        let (path, tag) = (format!("{dir}/file-{i}"), rng.draw());
        volume.write(&path, content(len as usize, tag))?;
        oracle.insert(path, (len as usize, tag));
        written += len;
        i += 1;
    }
    Ok(oracle)
}

/// Undeletes files and compares them with `gone`. Counts blocks that hold bytes of another file.
fn judge(image: &Path, to: &Path, gone: &Oracle, all: &[&Oracle]) -> Done<()> {
    let start = Instant::now();
    let lost = undelete(image, to)?;
    let seconds = start.elapsed().as_secs_f64();
    let (mut right, mut bytes, mut partial, mut foreign, mut unmarked) = (0u64, 0u64, 0u64, 0u64, 0u64);
    for l in lost.iter().filter(|l| l.item.kind == "file" && l.item.failed.is_none()) {
        let path = l.item.path.trim_end_matches(".partial");
        let Some(&(len, tag)) = all.iter().find_map(|files| files.get(path)) else {
            return Err(format!("{path} never existed").into());
        };
        let (back, want) = (std::fs::read(to.join(&l.item.path))?, content(len, tag));
        let blocks = || back.chunks(4096).zip(want.chunks(4096));
        foreign += blocks().filter(|(got, want)| got != want && got.iter().any(|b| *b != 0)).count() as u64;
        partial += u64::from(back != want);
        unmarked += u64::from(back != want && l.item.class != Class::C);
        if back == want && gone.contains_key(path) {
            right += 1;
            bytes += len as u64;
        }
    }
    let total: usize = gone.values().map(|(len, _)| len).sum();
    println!(
        "{}: {right} of {} files right by name and content ({:.3} %), {:.3} % of their bytes; {partial} partial, {foreign} foreign \
         blocks, {unmarked} wrong without a mark; {seconds:.0} s",
        to.display(),
        gone.len(),
        100.0 * right as f64 / gone.len() as f64,
        100.0 * bytes as f64 / total as f64
    );
    Ok(())
}

fn undelete(image: &Path, to: &Path) -> Done<Vec<Lost>> {
    let device = FileDevice::open(image, OpenOptions { read_only: true, direct: false })?;
    let (known_bad, stop) = (BadBlocks::default(), AtomicBool::new(false));
    let options = ScanOptions { threads: 2, known_bad: &known_bad, base: None, stop: &stop };
    let volume = segno_rescue::Volume::find(&device, scan(&device, &options, &|_| {})?, false);
    undelete::require(&volume)?;
    let tree = Tree::build(&volume);
    let dead = undelete::deleted(&volume, &tree);
    let proof = Proof::of(&volume, &dead, &mut |_, _| {});
    let mut target = Target::open(to, OutputOptions::default())?;
    let mut output =
        undelete::Output { target: &mut target, taken: HashSet::new(), unproven: false, stop: &stop };
    let each = dead.iter().map(|d| {
        let mut lost = undelete::describe(&volume, &tree, d, &proof);
        undelete::copy(&volume, d, &proof, &mut output, &mut lost)?;
        Ok(lost)
    });
    each.collect()
}
