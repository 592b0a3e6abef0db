//! Makes a volume of many files, ages it until sections were cleaned, zeroes everything before the main area, rescues it and
//! compares: `wiped_volume IMAGE TARGET [FILES [MIB [SEED]]]`. Prints the share of files that are right at their path.
use segno::{Device, FormatOptions, MountOptions, Volume};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_format::Block;
use segno_layout::{Superblocks, certain};
use segno_rescue::output::{OutputOptions, Plan, Target};
use segno_rescue::scan::BadBlocks;
use segno_rescue::{Class, Reader, ScanOptions, Tree, Verdicts, scan};
use segno_testkit::Rng;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Length and seed of the content of each file.
type Oracle = BTreeMap<String, (usize, u64)>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [image, target] = [0, 1].map(|i| args.get(i).cloned().unwrap_or_default());
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |a| a.parse());
    let (files, mib, seed) = (number(2, 100_000)?, number(3, 2400)?, number(4, 1)?);
    let start = Instant::now();
    let oracle = make(Path::new(&image), files, mib, seed)?;
    println!("{} files made and aged in {:.0} s", oracle.len(), start.elapsed().as_secs_f64());
    wipe(Path::new(&image))?;
    let before = memory();
    let start = Instant::now();
    let classes = rescue(Path::new(&image), Path::new(&target))?;
    println!(
        "rescued in {:.1} s, peak memory {} MiB (after making the volume {} MiB); classes A, B, C: {classes:?}",
        start.elapsed().as_secs_f64(),
        memory() >> 10,
        before >> 10
    );
    let right = |(path, (len, tag)): &(&String, &(usize, u64))| {
        std::fs::read(Path::new(&target).join(path)).is_ok_and(|b| b == content(*len, *tag))
    };
    let right = oracle.iter().filter(right).count();
    println!(
        "{right} of {} files right at their path: {:.4} %",
        oracle.len(),
        100.0 * right as f64 / oracle.len() as f64
    );
    Ok(())
}

fn content(len: usize, tag: u64) -> Vec<u8> {
    let mut rng = Rng::new(tag);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.draw().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn make(image: &Path, files: u64, mib: u64, seed: u64) -> Result<Oracle, Box<dyn Error>> {
    let device = Device::create(image, mib << 20)?;
    segno::format(&device, &FormatOptions::default())?;
    let volume = Volume::open_with(&device, &MountOptions::new().discard(segno::Discard::Never))?;
    let (mut rng, mut oracle) = (Rng::new(seed), Oracle::new());
    let write = |path: String, rng: &mut Rng, oracle: &mut Oracle| -> segno::Result<()> {
        let len = if rng.one_in(20) { rng.below(200_000) } else { rng.below(12_000) } as usize;
        let tag = rng.draw();
        volume.write(&path, content(len, tag))?;
        oracle.insert(path, (len, tag));
        Ok(())
    };
    for i in 0..files {
        let dir = format!("d{}/e{}", i % 97, i % 41);
        if i < 97 * 41 {
            volume.create_dir_all(&dir)?;
        }
        write(format!("{dir}/file-{i}"), &mut rng, &mut oracle)?;
    }
    volume.sync()?;
    let paths: Vec<String> = oracle.keys().cloned().collect();
    for round in 0..files {
        let Some(path) = paths.get(rng.index(paths.len())).filter(|p| oracle.contains_key(*p)) else {
            continue;
        };
        match rng.below(10) {
            0 => {
                volume.remove_file(path)?;
                oracle.remove(path);
            }
            1 => {
                let to = format!("d{}/moved-{round}", rng.below(97));
                volume.rename(path, &to)?;
                if let Some(entry) = oracle.remove(path) {
                    oracle.insert(to, entry);
                }
            }
            2 => write(format!("d{}/new-{round}", rng.below(97)), &mut rng, &mut oracle)?,
            _ => write(path.clone(), &mut rng, &mut oracle)?,
        }
    }
    volume.close()?;
    Ok(oracle)
}

fn wipe(image: &Path) -> Result<(), Box<dyn Error>> {
    let device = FileDevice::open(image, OpenOptions::default())?;
    let geo = certain(Superblocks::load(&Reader::new(&device, 0))).in_force().ok_or("no superblock")?.geo;
    let zero = Block::zeroed();
    (0..geo.main_blkaddr).try_for_each(|at| device.write(at.into(), &[&zero]))?;
    Ok(device.flush()?)
}

fn rescue(image: &Path, target: &Path) -> Result<BTreeMap<Class, u64>, Box<dyn Error>> {
    let device = FileDevice::open(image, OpenOptions { read_only: true, direct: false })?;
    let (known_bad, stop) = (BadBlocks::default(), AtomicBool::new(false));
    let threads = std::thread::available_parallelism()?.get();
    let found =
        scan(&device, &ScanOptions { threads, known_bad: &known_bad, base: None, stop: &stop }, &|_| {})?;
    println!("{} node blocks", found.nodes.len());
    let volume = segno_rescue::Volume::find(&device, found, false);
    let tree = Tree::build(&volume);
    let verdicts = Verdicts::of(&volume, &tree, &mut |_, _| {});
    let plan = Plan { volume: &volume, tree: &tree, verdicts: &verdicts, only: None };
    let mut target = Target::open(target, OutputOptions::default())?;
    let mut classes = BTreeMap::new();
    plan.copy(&mut target, &stop, |item| *classes.entry(item.class).or_default() += 1)?;
    Ok(classes)
}

/// Peak memory of this process in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
