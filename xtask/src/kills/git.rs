//! git, with its own syncs switched on and the directory synced after each commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Program, Worker};
use crate::paths::run;

pub struct Git;

/// A commit is acknowledged when its reference is on the disk: git syncs files, this script syncs the
/// directories.
const WORK: &str = r#"
cd "$1" || exit
n=$2
while :; do
  n=$((n+1))
  for i in 1 2 3 4 5 6; do head -c $((RANDOM)) /dev/urandom >"file$(((n+i)%40))" || exit; done
  mkdir -p "dir$((n%7))" && echo "$n" >"dir$((n%7))/$n" || exit
  git add -A && git commit -qm "$n" && sync .git || exit
  echo "$n"
  [ $((n%6)) != 0 ] || git gc -q || exit
done
"#;

fn git(dir: &Path, args: &[&str]) -> Result<String> {
    run(Command::new("git").arg("-C").arg(dir).args(args))
}

impl Program for Git {
    fn name(&self) -> String {
        "git commit, gc".into()
    }

    fn size(&self) -> u32 {
        512
    }

    fn prepare(&mut self, dir: &Path) -> Result<()> {
        git(dir, &["init", "-q", "-b", "main"])?;
        let settings = [
            ("core.fsync", "all"),
            ("core.fsyncMethod", "fsync"),
            ("user.name", "kills"),
            ("user.email", "kills@localhost"),
            ("gc.auto", "0"),
        ];
        settings.iter().try_for_each(|(key, value)| git(dir, &["config", key, value]).map(drop))?;
        git(dir, &["commit", "-q", "--allow-empty", "-m", "0"])?;
        run(Command::new("sync").arg(dir)).map(drop)
    }

    fn work(&mut self, dir: &Path, from: u64) -> Result<Worker> {
        let mut command = Command::new("bash");
        command.args(["-c", WORK, "work"]).arg(dir).arg(from.to_string());
        Worker::start(&mut command, Vec::new())
    }

    fn verify(&mut self, dir: &Path, acknowledged: u64) -> Result<u64> {
        remove_locks(&dir.join(".git")).context("removing the locks of the git that ended")?;
        git(dir, &["fsck", "--full", "--strict"])?;
        let last: u64 = git(dir, &["log", "-1", "--format=%s"])?.trim().parse().context("the last commit")?;
        ensure!(last >= acknowledged, "{acknowledged} acknowledged, {last} there");
        let commits: u64 = git(dir, &["rev-list", "--count", "HEAD"])?.trim().parse().context("a count")?;
        ensure!(commits == last + 1, "{commits} commits, the last is {last}");
        // The index and the working tree are not part of a commit.
        git(dir, &["reset", "-q", "--hard"])?;
        Ok(last)
    }
}

/// Removes the lock files, which git leaves after a crash for the user to remove.
fn remove_locks(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_locks(&path)?;
        } else if path.extension().is_some_and(|e| e == "lock")
            || path.file_name().is_some_and(|n| n == "gc.pid")
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
