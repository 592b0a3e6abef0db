//! Many small files, and a mail server.
use super::rows::Scale;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const DIRS: usize = 10;
pub const BLOCK: [u8; 4096] = [0x5a; 4096];

fn each_file(dir: &Path, set: &str, scale: Scale, mut f: impl FnMut(&Path) -> Result<()>) -> Result<usize> {
    for d in 0..DIRS {
        let sub = dir.join(set).join(format!("d{d}"));
        for i in 0..scale.files / DIRS {
            f(&sub.join(format!("file-{i:06}")))?;
        }
    }
    Ok(scale.files / DIRS * DIRS)
}

fn make_dirs(dir: &Path, set: &str) -> Result<()> {
    for d in 0..DIRS {
        fs::create_dir_all(dir.join(set).join(format!("d{d}")))?;
    }
    Ok(())
}

pub fn create_empty(dir: &Path, scale: Scale) -> Result<usize> {
    make_dirs(dir, "empty")?;
    each_file(dir, "empty", scale, |p| Ok(File::create(p).map(drop)?))
}

pub fn stat_all(dir: &Path, scale: Scale) -> Result<usize> {
    each_file(dir, "empty", scale, |p| Ok(fs::symlink_metadata(p).map(drop)?))
}

pub fn list_all(dir: &Path, _scale: Scale) -> Result<usize> {
    let mut names = 0;
    for d in 0..DIRS {
        for e in fs::read_dir(dir.join("empty").join(format!("d{d}")))? {
            e?;
            names += 1;
        }
    }
    Ok(names)
}

pub fn unlink_empty(dir: &Path, scale: Scale) -> Result<usize> {
    each_file(dir, "empty", scale, |p| Ok(fs::remove_file(p)?))
}

pub fn create_small(dir: &Path, scale: Scale) -> Result<usize> {
    make_dirs(dir, "small")?;
    each_file(dir, "small", scale, |p| Ok(fs::write(p, BLOCK)?))
}

pub fn read_small(dir: &Path, scale: Scale) -> Result<usize> {
    each_file(dir, "small", scale, |p| {
        ensure!(fs::read(p)? == BLOCK, "{} reads back wrong", p.display());
        Ok(())
    })
}

pub fn copy_small(dir: &Path, scale: Scale) -> Result<usize> {
    make_dirs(dir, "copy")?;
    each_file(dir, "small", scale, |p| {
        let (name, sub) = (p.file_name().context("no name")?, p.parent().and_then(Path::file_name));
        fs::copy(p, dir.join("copy").join(sub.context("no parent")?).join(name))?;
        Ok(())
    })
}

/// What a mail server does: deliver with fsync, append with fsync, read, delete.
pub fn varmail(dir: &Path, scale: Scale) -> Result<usize> {
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
    Ok(scale.fsyncs)
}

pub fn unlink_small(dir: &Path, scale: Scale) -> Result<usize> {
    each_file(dir, "small", scale, |p| Ok(fs::remove_file(p)?))
}
