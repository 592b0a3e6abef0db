//! Requests of a workload in a guest, compared with those of a mount of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Place, WORKLOAD};
use crate::paths::run;
use crate::twin::Run;

/// Prints the requests of both by operation.
pub fn compare(guest: &Run, place: &Place, work: &Path) -> Result<()> {
    let guest = counters(&guest.output)?;
    let mount = counters(&mounted(place, work)?)?;
    println!("{:<14} {:>9} {:>9}", "requests", "virtiofs", "/dev/fuse");
    let mut names: Vec<&String> = guest.keys().chain(mount.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let of = |side: &BTreeMap<String, u64>| side.get(name).copied().unwrap_or(0);
        println!("{name:<14} {:>9} {:>9}", of(&guest), of(&mount));
    }
    println!("{:<14} {:>9} {:>9}", "all", guest.values().sum::<u64>(), mount.values().sum::<u64>());
    Ok(())
}

/// The output of the workload on a new volume that is mounted here, through /dev/fuse.
fn mounted(place: &Place, work: &Path) -> Result<Vec<String>> {
    let (image, dir) = (work.join("mounted"), work.join("mnt"));
    fs::create_dir_all(&dir)?;
    let segno = || Command::new(&place.segno);
    run(segno().args(["mkfs", "-q", "-f", "--size", "1G"]).arg(&image))?;
    run(segno().args(["mount", "-o", "transport=classic"]).args([&image, &dir]))?;
    let said = run(Command::new("sh").arg("-ec").arg(format!("dir={}\n{WORKLOAD}", dir.display())));
    run(segno().arg("umount").arg(&dir))?;
    Ok(said?.lines().map(str::to_owned).collect())
}

fn counters(output: &[String]) -> Result<BTreeMap<String, u64>> {
    let json =
        output.iter().find_map(|l| l.strip_prefix("counters ")).context("the workload has no counters")?;
    let all: BTreeMap<String, Value> = serde_json::from_str(json).context("the server's counters")?;
    let requests = all.into_iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("fuse_")?;
        // Others are times.
        let is_operation = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        is_operation.then_some((name.to_owned(), value.as_u64()?))
    });
    Ok(requests.collect())
}
