//! Upper bound of the wait of one write: the moves that one placed block pays for, and a checkpoint, at the
//! rate of the device.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::load::{fio, total_time};
use crate::paths::run;

/// Upper bound of the blocks that cleaning moves for one placed block.
const MOVES: u64 = 512;
/// Size of the writes of moved blocks.
const WRITTEN_AT_ONCE: u64 = 256 << 10;
const BLOCK: u64 = 4096;

/// The time to read 512 scattered blocks of an image, to write as many in order to another file, and to make
/// a checkpoint.
pub fn time_to_move(image: &Path, work: &Path, checkpoint: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let copies = work.join("copies");
    let of_image = format!("--filename={}", image.display());
    let of_copies = format!("--filename={}", copies.display());
    let bytes = MOVES * BLOCK;
    let timed = |args: &[&str], which: &str| -> Result<Duration> {
        let common = ["--name=pace", "--ioengine=psync", "--thread", "--direct=1", "--output-format=json"];
        total_time(&run(fio()?.args(common).args(args))?, which)
    };
    let reads = timed(
        &[&of_image, "--readonly", "--rw=randread", &format!("--bs={BLOCK}"), &format!("--io_size={bytes}")],
        "read",
    )?;
    let writes = timed(
        &[&of_copies, "--rw=write", &format!("--bs={WRITTEN_AT_ONCE}"), &format!("--size={bytes}")],
        "write",
    )?;
    fs::remove_file(&copies).context("removing the file of copies")?;
    let begun = Instant::now();
    checkpoint()?;
    Ok(reads + writes + begun.elapsed())
}
