//! The loads on the mount.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Files in a directory, where the number of names in one is not the point.
const PER_DIRECTORY: u64 = 1000;

/// A load, by the files or data that it makes.
#[derive(Clone, Copy)]
pub enum Load {
    /// Many empty files: made, listed with their attributes, looked up.
    Files { count: u64 },
    /// Many empty files in one directory: made, listed, looked up, removed.
    Directory { count: u64 },
    /// Small files: written, then copied.
    Copies { count: u64 },
    /// One large file.
    Data { mib: u64 },
}

impl Load {
    pub fn name(&self) -> String {
        match self {
            Self::Files { count } => format!("files {count}"),
            Self::Directory { count } => format!("directory of {count}"),
            Self::Copies { count } => format!("copies of {count}"),
            Self::Data { mib } => format!("data {mib} MiB"),
        }
    }

    pub fn run(&self, dir: &Path) -> Result<()> {
        match *self {
            Self::Files { count } => {
                make(dir, count, PER_DIRECTORY, &[])?;
                list(dir, count)?;
                look_up(dir, count, PER_DIRECTORY)
            }
            Self::Directory { count } => {
                make(dir, count, count, &[])?;
                list(dir, count)?;
                look_up(dir, count, count)?;
                fs::remove_dir_all(dir.join("0")).context("removing the directory")
            }
            Self::Copies { count } => copies(dir, count),
            Self::Data { mib } => data(&dir.join("data"), mib),
        }
    }
}

fn path(dir: &Path, i: u64, each: u64) -> PathBuf {
    dir.join((i / each).to_string()).join(format!("file {i}"))
}

fn make(dir: &Path, count: u64, each: u64, content: &[u8]) -> Result<()> {
    for i in 0..count {
        let path = path(dir, i, each);
        if i % each == 0 {
            let parent = path.parent().context("a file has a directory")?;
            fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        }
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Every name, with its attributes.
fn list(dir: &Path, count: u64) -> Result<()> {
    let mut found = 0;
    for parent in fs::read_dir(dir)? {
        for entry in fs::read_dir(parent?.path())? {
            entry?.metadata()?;
            found += 1;
        }
    }
    ensure!(found == count, "{found} of {count} files are listed");
    Ok(())
}

/// Far apart from one to the next.
fn look_up(dir: &Path, count: u64, each: u64) -> Result<()> {
    for i in 0..count {
        let path = path(dir, i * 7919 % count, each);
        fs::metadata(&path).with_context(|| format!("looking up {}", path.display()))?;
    }
    Ok(())
}

fn copies(dir: &Path, count: u64) -> Result<()> {
    let content: Vec<u8> = (0..6000_u32).map(|i| (i % 251) as u8).collect();
    let (from, to) = (dir.join("from"), dir.join("to"));
    make(&from, count, PER_DIRECTORY, &content)?;
    for i in 0..count {
        let target = path(&to, i, PER_DIRECTORY);
        if i % PER_DIRECTORY == 0 {
            fs::create_dir_all(target.parent().context("a file has a directory")?)?;
        }
        // Not `fs::copy`, which leaves the copying to the server.
        let mut bytes = Vec::new();
        File::open(path(&from, i, PER_DIRECTORY))?.read_to_end(&mut bytes)?;
        ensure!(bytes == content, "file {i} has another content");
        fs::write(&target, &bytes)?;
    }
    Ok(())
}

fn data(path: &Path, mib: u64) -> Result<()> {
    let chunk = vec![0x5a; 1 << 20];
    let mut file = File::create(path)?;
    for _ in 0..mib {
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    let (mut file, mut read, mut total) = (File::open(path)?, vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut read)? {
            0 => break,
            n => total += n as u64,
        }
    }
    ensure!(total == mib << 20, "{total} bytes of {mib} MiB are there");
    Ok(())
}
