//! A tree like that of a program's source: unpacked, searched, removed.
use super::rows::Scale;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn archive(work: &Path) -> PathBuf {
    work.join("tree.tar")
}

/// Untimed preparation: an archive of a tree like that of a program's source.
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

/// Runs a program; status 1 of grep, no match, counts as success.
fn program(name: &str, args: &[&str], dir: &Path) -> Result<()> {
    let mut command = Command::new(name);
    let status =
        command.args(args).current_dir(dir).stdout(Stdio::null()).status().context(name.to_owned())?;
    ensure!(status.success() || (name == "grep" && status.code() == Some(1)), "{name}: {status}");
    Ok(())
}

pub fn untar(dir: &Path, scale: Scale) -> Result<usize> {
    let archive = archive(dir.parent().context("no work folder")?);
    program("tar", &["xf", &archive.to_string_lossy(), "--no-same-owner"], dir)?;
    Ok(scale.files / 2)
}

pub fn du(dir: &Path, scale: Scale) -> Result<usize> {
    program("du", &["-s", "tree"], dir)?;
    Ok(scale.files / 2)
}

pub fn grep(dir: &Path, scale: Scale) -> Result<usize> {
    program("grep", &["-r", "no such words", "tree"], dir)?;
    Ok(scale.files / 2)
}

pub fn rm(dir: &Path, scale: Scale) -> Result<usize> {
    program("rm", &["-rf", "tree"], dir)?;
    Ok(scale.files / 2)
}
