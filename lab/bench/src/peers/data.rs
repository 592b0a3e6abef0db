//! File data: sequential, random, appends with fsync, and a database.
use super::files::BLOCK;
use super::rows::Scale;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

pub fn seq_write(dir: &Path, scale: Scale) -> Result<usize> {
    write_whole(&dir.join("big"), scale.big_mib)
}

/// Writes a file of this size and syncs it; returns its size.
pub fn write_whole(path: &Path, big_mib: usize) -> Result<usize> {
    let mut f = File::create(path)?;
    let mib = vec![0xa5; 1 << 20];
    for _ in 0..big_mib {
        f.write_all(&mib)?;
    }
    f.sync_all()?;
    Ok(big_mib)
}

pub fn seq_read(dir: &Path, scale: Scale) -> Result<usize> {
    let mut f = File::open(dir.join("big"))?;
    let mut mib = vec![0; 1 << 20];
    for _ in 0..scale.big_mib {
        f.read_exact(&mut mib)?;
    }
    ensure!(mib.iter().all(|&b| b == 0xa5), "the big file reads back wrong");
    Ok(scale.big_mib)
}

/// Block numbers of the big file in a fixed pseudorandom order.
fn scattered(scale: Scale) -> impl Iterator<Item = u64> {
    blocks_in_random_order(scale, 1).take(scale.random_ops)
}

/// Endless; another order for each seed but 0.
pub fn blocks_in_random_order(scale: Scale, seed: u64) -> impl Iterator<Item = u64> {
    let blocks = scale.big_mib as u64 * 256;
    let mut x = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed);
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % blocks
    })
}

pub fn rand_read(dir: &Path, scale: Scale) -> Result<usize> {
    let f = File::open(dir.join("big"))?;
    let mut buf = BLOCK;
    for b in scattered(scale) {
        f.read_exact_at(&mut buf, b * 4096)?;
    }
    Ok(scale.random_ops)
}

pub fn rand_write(dir: &Path, scale: Scale) -> Result<usize> {
    let f = overwrite(dir, scale, scale.random_ops)?;
    f.sync_all()?;
    Ok(scale.random_ops)
}

/// Ten times as many, as a cache takes them without a request.
pub fn rand_write_no_fsync(dir: &Path, scale: Scale) -> Result<usize> {
    overwrite(dir, scale, scale.random_ops * 10)?;
    Ok(scale.random_ops * 10)
}

/// Overwrites blocks of the big file, which stays open.
fn overwrite(dir: &Path, scale: Scale, writes: usize) -> Result<File> {
    let f = File::options().write(true).open(dir.join("big"))?;
    for b in blocks_in_random_order(scale, 1).take(writes) {
        f.write_all_at(&BLOCK, b * 4096)?;
    }
    Ok(f)
}

/// Memory aligned for O_DIRECT.
#[repr(align(4096))]
struct Aligned([u8; 4096]);
const O_DIRECT: i32 = 0x4000;

pub fn rand_read_direct(dir: &Path, scale: Scale) -> Result<usize> {
    let f = File::options().read(true).custom_flags(O_DIRECT).open(dir.join("big"))?;
    let mut buf = Aligned(BLOCK);
    for b in scattered(scale) {
        f.read_exact_at(&mut buf.0, b * 4096)?;
    }
    Ok(scale.random_ops)
}

pub fn rand_write_direct(dir: &Path, scale: Scale) -> Result<usize> {
    let f = File::options().write(true).custom_flags(O_DIRECT).open(dir.join("big"))?;
    let buf = Aligned(BLOCK);
    for b in scattered(scale) {
        f.write_all_at(&buf.0, b * 4096)?;
    }
    Ok(scale.random_ops)
}

fn append_with_fsync(path: &Path, writes: usize, every: usize) -> Result<usize> {
    let mut f = File::create(path)?;
    for i in 1..=writes {
        f.write_all(&BLOCK)?;
        if i % every == 0 {
            f.sync_data()?;
        }
    }
    Ok(writes)
}

pub fn fsync_each(dir: &Path, scale: Scale) -> Result<usize> {
    append_with_fsync(&dir.join("log1"), scale.fsyncs, 1)
}

pub fn fsync_32(dir: &Path, scale: Scale) -> Result<usize> {
    append_with_fsync(&dir.join("log32"), scale.fsyncs * 8, 32)
}

fn sqlite(dir: &Path, scale: Scale, mode: &str) -> Result<usize> {
    let db = dir.join(format!("{mode}.db"));
    let mut child = Command::new("sqlite3")
        .arg(&db)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("sqlite3 is not installed")?;
    let mut sql = format!(
        "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; CREATE TABLE t(a INTEGER PRIMARY KEY, b);\n"
    );
    for i in 0..scale.transactions {
        sql.push_str(&format!("INSERT INTO t(b) VALUES('row {i} {}');\n", "x".repeat(100)));
    }
    child.stdin.take().context("no stdin")?.write_all(sql.as_bytes())?;
    ensure!(child.wait()?.success(), "sqlite3 failed");
    Ok(scale.transactions)
}

pub fn sqlite_wal(dir: &Path, scale: Scale) -> Result<usize> {
    sqlite(dir, scale, "WAL")
}

pub fn sqlite_delete(dir: &Path, scale: Scale) -> Result<usize> {
    sqlite(dir, scale, "DELETE")
}
