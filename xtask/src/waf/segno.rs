//! Segno's part: a mount, its counters, and the kernel's counter of the bytes that its server wrote.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::VOLUME_MIB;
use super::load::{Case, DIRTY_LIMIT, Load, Measured, Reported, fio, user_bytes};
use super::pace::time_to_move;
use crate::kills::volume::Volume;
use crate::paths::run;

const BLOCK: u64 = 4096;
/// A file is written back from a sixteenth of the cache on, until half of that is dirty.
const LARGE_DIVISOR: u64 = 16;
/// Counters of blocks that reach the device, by who caused them.
const CLASSES: [(&str, &str); 5] = [
    ("user data", "data_blocks"),
    ("moved data", "gc_data_blocks"),
    ("directories", "dent_blocks"),
    ("nodes", "node_blocks"),
    ("metadata", "meta_blocks"),
];

pub fn measure(segno: &Path, work: &Path, case: Case) -> Result<Measured> {
    // No periodic commit and no cleaning while idle: nothing depends on time. With `direct` all that the server writes
    // reaches the device.
    let options =
        format!("mode=lfs,direct,background_gc=off,commit=86400,cache={}", LARGE_DIVISOR * DIRTY_LIMIT);
    let volume = Volume::make(segno, work, VOLUME_MIB, &[], &["-o", &options])?;
    let user_bytes = user_bytes(segno, volume.image())?;
    let server = volume.mount()?;
    let load = Load::of(case, &volume.dir().join("file"), user_bytes);
    run(fio()?.args(&load.fill))?;
    sync(&volume.dir())?;
    let bound = time_to_move(volume.image(), work, || checkpoint(&volume.dir()))?;
    let before = (counters(segno, &volume.dir())?, submitted(server.id())?);
    let report = run(fio()?.args(&load.overwrite))?;
    sync(&volume.dir())?;
    let after = (counters(segno, &volume.dir())?, submitted(server.id())?);
    let allocated = fs::metadata(volume.dir().join("file"))?.blocks() * 512;
    ensure!(allocated >= load.size, "the file has {allocated} bytes of {}: fio made it anew", load.size);
    volume.unmount(server)?;
    volume.check()?;

    let Reported { bytes: written, p999, longest } = Reported::of(&report)?;
    ensure!(written == load.written, "fio wrote {written} bytes of {}", load.written);
    let of = |name: &str| count(&after.0, name).saturating_sub(count(&before.0, name));
    let classes = CLASSES.map(|(class, name)| (class, of(name) * BLOCK));
    let device = classes.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let submitted = after.1.saturating_sub(before.1);
    ensure!(
        device.abs_diff(submitted) * 100 <= device,
        "segno counts {device} bytes to the device, the kernel {submitted}"
    );
    let shares = classes.map(|(class, bytes)| format!("{class} {:.3}", bytes as f64 / written as f64));
    let checkpoints = of("checkpoints");
    let detail = format!(
        "{}, {checkpoints} checkpoints; 512 moves and a checkpoint take {:.1} ms",
        shares.join(", "),
        bound.as_secs_f64() * 1e3
    );
    Ok(Measured { written, device, p999, longest, detail })
}

fn sync(dir: &Path) -> Result<()> {
    run(Command::new("sync").arg("-f").arg(dir)).map(drop)
}

/// Has a checkpoint written.
fn checkpoint(dir: &Path) -> Result<()> {
    fs::write(dir.join("checkpoint"), [0; BLOCK as usize])?;
    sync(dir)
}

fn counters(segno: &Path, dir: &Path) -> Result<Value> {
    let stats = run(Command::new(segno).args(["stats", "--json"]).arg(dir))?;
    serde_json::from_str(&stats).context("segno stats --json")
}

fn count(counters: &Value, name: &str) -> u64 {
    counters.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Bytes that a process has caused to be written, by the kernel.
fn submitted(process: u32) -> Result<u64> {
    let io =
        fs::read_to_string(format!("/proc/{process}/io")).context("reading the server's I/O counters")?;
    let line = io.lines().find_map(|l| l.strip_prefix("write_bytes: ")).context("no write_bytes")?;
    line.trim().parse().context("write_bytes is no number")
}
