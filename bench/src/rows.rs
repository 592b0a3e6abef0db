//! The work that is timed, one row each. Every row works below a directory of its own and reports a rate.
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
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
    row("copy 4 KiB", "files/s", false, false, copy_small),
    row("unlink 4 KiB", "files/s", false, true, unlink_small),
    row("varmail", "loops/s", false, false, varmail),
    row("untar", "files/s", false, false, untar),
    row("du cold", "files/s", true, false, du),
    row("grep cold", "files/s", true, false, grep),
    row("grep warm", "files/s", false, false, grep),
    row("rm -rf", "files/s", false, false, rm),
    row("sequential write 1 MiB", "MiB/s", false, false, seq_write),
    row("sequential read 1 MiB cold", "MiB/s", true, false, seq_read),
    row("random read 4 KiB cold", "ops/s", true, false, rand_read),
    row("random write 4 KiB + fsync", "ops/s", false, false, rand_write),
    row("random read 4 KiB direct", "ops/s", false, false, rand_read_direct),
    row("random write 4 KiB direct", "ops/s", false, false, rand_write_direct),
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

fn copy_small(dir: &Path, scale: Scale) -> Result<f64> {
    make_dirs(dir, "copy")?;
    each_file(dir, "small", scale, |p| {
        let (name, sub) = (p.file_name().context("no name")?, p.parent().and_then(Path::file_name));
        fs::copy(p, dir.join("copy").join(sub.context("no parent")?).join(name))?;
        Ok(())
    })
}

/// What a mail server does: deliver with fsync, append with fsync, read, delete.
fn varmail(dir: &Path, scale: Scale) -> Result<f64> {
    let box_dir = dir.join("mail");
    fs::create_dir_all(&box_dir)?;
    for i in 0..scale.fsyncs {
        let path = box_dir.join(format!("{i}"));
        for _ in 0..2 {
            let mut f = File::options().create(true).append(true).open(&path)?;
            f.write_all(&BLOCK)?;
            f.sync_all()?;
        }
        ensure!(fs::read(&path)?.len() == 2 * BLOCK.len(), "mail {i} is short");
        if i >= 16 {
            fs::remove_file(box_dir.join(format!("{}", i - 16)))?;
        }
    }
    Ok(scale.fsyncs as f64)
}

fn archive(work: &Path) -> std::path::PathBuf {
    work.join("tree.tar")
}

/// Makes what the rows need and is not timed: an archive of a tree like that of a program's source.
pub fn prepare(work: &Path, scale: Scale) -> Result<()> {
    let tree = work.join("source/tree");
    let words = "struct inode *find(const char *name) { return lookup(root, name); }\n";
    for i in 0..scale.files / 2 {
        let sub = tree.join(format!("part{:02}/sub{:02}", i / 400, i / 20 % 20));
        fs::create_dir_all(&sub)?;
        // Sizes as in source trees: mostly a few KiB, some much larger.
        let lines = if i % 50 == 0 { 2_000 } else { 4 + i * 37 % 200 };
        fs::write(sub.join(format!("file{i}.c")), words.repeat(lines))?;
    }
    program("tar", &["cf", "tree.tar", "-C", "source", "tree"], work)?;
    Ok(fs::remove_dir_all(work.join("source"))?)
}

pub fn clean(work: &Path) -> Result<()> {
    Ok(fs::remove_file(archive(work))?)
}

/// Runs a program; one that finds nothing (status 1 of grep) has done its work.
fn program(name: &str, args: &[&str], dir: &Path) -> Result<()> {
    let mut command = Command::new(name);
    let status =
        command.args(args).current_dir(dir).stdout(Stdio::null()).status().context(name.to_owned())?;
    ensure!(status.success() || (name == "grep" && status.code() == Some(1)), "{name}: {status}");
    Ok(())
}

fn untar(dir: &Path, scale: Scale) -> Result<f64> {
    let archive = archive(dir.parent().context("no work folder")?);
    program("tar", &["xf", &archive.to_string_lossy(), "--no-same-owner"], dir)?;
    Ok((scale.files / 2) as f64)
}

fn du(dir: &Path, scale: Scale) -> Result<f64> {
    program("du", &["-s", "tree"], dir)?;
    Ok((scale.files / 2) as f64)
}

fn grep(dir: &Path, scale: Scale) -> Result<f64> {
    program("grep", &["-r", "no such words", "tree"], dir)?;
    Ok((scale.files / 2) as f64)
}

fn rm(dir: &Path, scale: Scale) -> Result<f64> {
    program("rm", &["-rf", "tree"], dir)?;
    Ok((scale.files / 2) as f64)
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

/// Memory that O_DIRECT takes.
#[repr(align(4096))]
struct Aligned([u8; 4096]);
const O_DIRECT: i32 = 0x4000;

fn rand_read_direct(dir: &Path, scale: Scale) -> Result<f64> {
    let f = File::options().read(true).custom_flags(O_DIRECT).open(dir.join("big"))?;
    let mut buf = Aligned(BLOCK);
    for b in scattered(scale) {
        f.read_exact_at(&mut buf.0, b * 4096)?;
    }
    Ok(scale.random_ops as f64)
}

fn rand_write_direct(dir: &Path, scale: Scale) -> Result<f64> {
    let f = File::options().write(true).custom_flags(O_DIRECT).open(dir.join("big"))?;
    let buf = Aligned(BLOCK);
    for b in scattered(scale) {
        f.write_all_at(&buf.0, b * 4096)?;
    }
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
