//! The work that is timed, one row each. Every row works below a directory of its own and reports a rate.
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub files: usize,
    pub big_mib: usize,
    pub random_ops: usize,
    pub fsyncs: usize,
    pub transactions: usize,
}

impl Scale {
    pub const FULL: Self =
        Self { files: 10_000, big_mib: 1024, random_ops: 50_000, fsyncs: 2_000, transactions: 1_000 };
    pub const QUICK: Self =
        Self { files: 2_000, big_mib: 128, random_ops: 5_000, fsyncs: 200, transactions: 100 };
}

/// A row: name, unit, whether caches are dropped first, and the work, which returns how many units it did.
pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    pub cold: bool,
    /// Metadata rows have a higher bar.
    pub metadata: bool,
    pub run: fn(&Path, Scale) -> Result<f64>,
}

const fn row(
    name: &'static str,
    unit: &'static str,
    cold: bool,
    metadata: bool,
    run: fn(&Path, Scale) -> Result<f64>,
) -> Row {
    Row { name, unit, cold, metadata, run }
}

/// The rows in the order they run: later ones use what earlier ones made.
pub const ROWS: &[Row] = &[
    row("create empty", "files/s", false, true, create_empty),
    row("stat cold", "files/s", true, true, stat_all),
    row("stat warm", "files/s", false, true, stat_all),
    row("list cold", "names/s", true, true, list_all),
    row("unlink empty", "files/s", false, true, unlink_empty),
    row("create 4 KiB", "files/s", false, true, create_small),
    row("read 4 KiB files cold", "files/s", true, false, read_small),
    row("unlink 4 KiB", "files/s", false, true, unlink_small),
    row("sequential write 1 MiB", "MiB/s", false, false, seq_write),
    row("sequential read 1 MiB cold", "MiB/s", true, false, seq_read),
    row("random read 4 KiB cold", "ops/s", true, false, rand_read),
    row("random write 4 KiB + fsync", "ops/s", false, false, rand_write),
    row("4 KiB append, fsync every write", "ops/s", false, false, fsync_each),
    row("4 KiB append, fsync every 32", "ops/s", false, false, fsync_32),
    row("SQLite WAL transactions", "tx/s", false, false, sqlite_wal),
    row("SQLite DELETE transactions", "tx/s", false, false, sqlite_delete),
];

const DIRS: usize = 10;
const BLOCK: [u8; 4096] = [0x5a; 4096];

fn each_file(dir: &Path, set: &str, scale: Scale, mut f: impl FnMut(&Path) -> Result<()>) -> Result<f64> {
    for d in 0..DIRS {
        let sub = dir.join(set).join(format!("d{d}"));
        for i in 0..scale.files / DIRS {
            f(&sub.join(format!("file-{i:06}")))?;
        }
    }
    Ok((scale.files / DIRS * DIRS) as f64)
}

fn make_dirs(dir: &Path, set: &str) -> Result<()> {
    for d in 0..DIRS {
        fs::create_dir_all(dir.join(set).join(format!("d{d}")))?;
    }
    Ok(())
}

fn create_empty(dir: &Path, scale: Scale) -> Result<f64> {
    make_dirs(dir, "empty")?;
    each_file(dir, "empty", scale, |p| Ok(File::create(p).map(drop)?))
}

fn stat_all(dir: &Path, scale: Scale) -> Result<f64> {
    each_file(dir, "empty", scale, |p| Ok(fs::symlink_metadata(p).map(drop)?))
}

fn list_all(dir: &Path, _scale: Scale) -> Result<f64> {
    let mut names = 0;
    for d in 0..DIRS {
        for e in fs::read_dir(dir.join("empty").join(format!("d{d}")))? {
            e?;
            names += 1;
        }
    }
    Ok(f64::from(names))
}

fn unlink_empty(dir: &Path, scale: Scale) -> Result<f64> {
    each_file(dir, "empty", scale, |p| Ok(fs::remove_file(p)?))
}

fn create_small(dir: &Path, scale: Scale) -> Result<f64> {
    make_dirs(dir, "small")?;
    each_file(dir, "small", scale, |p| Ok(fs::write(p, BLOCK)?))
}

fn read_small(dir: &Path, scale: Scale) -> Result<f64> {
    each_file(dir, "small", scale, |p| {
        ensure!(fs::read(p)? == BLOCK, "{} reads back wrong", p.display());
        Ok(())
    })
}

fn unlink_small(dir: &Path, scale: Scale) -> Result<f64> {
    each_file(dir, "small", scale, |p| Ok(fs::remove_file(p)?))
}

fn seq_write(dir: &Path, scale: Scale) -> Result<f64> {
    let mut f = File::create(dir.join("big"))?;
    let mib = vec![0xa5; 1 << 20];
    for _ in 0..scale.big_mib {
        f.write_all(&mib)?;
    }
    f.sync_all()?;
    Ok(scale.big_mib as f64)
}

fn seq_read(dir: &Path, scale: Scale) -> Result<f64> {
    let mut f = File::open(dir.join("big"))?;
    let mut mib = vec![0; 1 << 20];
    for _ in 0..scale.big_mib {
        f.read_exact(&mut mib)?;
    }
    ensure!(mib.iter().all(|&b| b == 0xa5), "the big file reads back wrong");
    Ok(scale.big_mib as f64)
}

/// Block numbers in an order that looks random and is the same every time.
fn scattered(scale: Scale) -> impl Iterator<Item = u64> {
    let blocks = scale.big_mib as u64 * 256;
    let mut x = 0x9E37_79B9_7F4A_7C15u64;
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % blocks
    })
    .take(scale.random_ops)
}

fn rand_read(dir: &Path, scale: Scale) -> Result<f64> {
    let f = File::open(dir.join("big"))?;
    let mut buf = BLOCK;
    for b in scattered(scale) {
        f.read_exact_at(&mut buf, b * 4096)?;
    }
    Ok(scale.random_ops as f64)
}

fn rand_write(dir: &Path, scale: Scale) -> Result<f64> {
    let f = File::options().write(true).open(dir.join("big"))?;
    for b in scattered(scale) {
        f.write_all_at(&BLOCK, b * 4096)?;
    }
    f.sync_all()?;
    Ok(scale.random_ops as f64)
}

fn append_with_fsync(path: &Path, writes: usize, every: usize) -> Result<f64> {
    let mut f = File::create(path)?;
    f.seek(SeekFrom::Start(0))?;
    for i in 1..=writes {
        f.write_all(&BLOCK)?;
        if i % every == 0 {
            f.sync_data()?;
        }
    }
    Ok(writes as f64)
}

fn fsync_each(dir: &Path, scale: Scale) -> Result<f64> {
    append_with_fsync(&dir.join("log1"), scale.fsyncs, 1)
}

fn fsync_32(dir: &Path, scale: Scale) -> Result<f64> {
    append_with_fsync(&dir.join("log32"), scale.fsyncs * 8, 32)
}

fn sqlite(dir: &Path, scale: Scale, mode: &str) -> Result<f64> {
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
    Ok(scale.transactions as f64)
}

fn sqlite_wal(dir: &Path, scale: Scale) -> Result<f64> {
    sqlite(dir, scale, "WAL")
}

fn sqlite_delete(dir: &Path, scale: Scale) -> Result<f64> {
    sqlite(dir, scale, "DELETE")
}

/// Runs a row and returns its rate.
pub fn rate(row: &Row, dir: &Path, scale: Scale) -> Result<f64> {
    let begun = Instant::now();
    let units = (row.run)(dir, scale).with_context(|| format!("row '{}'", row.name))?;
    Ok(units / begun.elapsed().as_secs_f64())
}
