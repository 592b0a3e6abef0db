//! Linux's part: one boot for several volumes.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::handover::kernel::complaints;
use crate::twin::{Boot, Kill, Machine, Run};

/// Printed when everything is done that is to be done before the power goes.
const CUT_LINE: &str = "stale: cut now";

/// Messages of Linux about a volume with the mark.
const MARKED: [&str; 3] = [
    "Allow to mount readonly mode only",
    "orphan cleanup on readonly fs",
    "quota file may be corrupted, skip loading it",
];

/// A volume, and the script to run while it is mounted at `$DIR`.
pub struct Guest<'a> {
    pub name: &'a str,
    pub image: &'a Path,
    /// Mount options.
    pub mount: &'a str,
    pub script: &'a str,
}

/// Mounts each volume, runs its script, and unmounts it or loses power.
pub fn visit(
    machine: Machine,
    guests: &[Guest<'_>],
    cut: bool,
    timeout: Duration,
) -> Result<Vec<Result<()>>> {
    let boot = Boot {
        machine,
        kill: cut.then(|| Kill { on_line: Some(CUT_LINE.to_owned()), after: Duration::ZERO }),
        ..Boot::new(
            script(machine, guests, cut)?,
            guests.iter().map(|guest| guest.image.to_owned()).collect(),
            timeout,
        )
    };
    eprintln!("stale: booting Linux for {} volumes", guests.len());
    let run = boot.run_to_end()?;
    Ok(guests.iter().map(|guest| judge(guest, &run)).collect())
}

fn script(machine: Machine, guests: &[Guest<'_>], cut: bool) -> Result<String> {
    let mut out = String::new();
    for (n, Guest { name, mount, script, .. }) in guests.iter().enumerate() {
        let (disk, dir) = (machine.disk_name(n), format!("/mnt/{n}"));
        writeln!(out, "export DIR={dir}; mkdir -p $DIR; dmesg -C; status=0")?;
        writeln!(out, "mount -t f2fs -o {mount} {disk} $DIR && ( set -e\n{script}\n) || status=1")?;
        if !cut {
            writeln!(out, "umount $DIR || status=2")?;
        }
        writeln!(out, "dmesg | sed 's/^/{name} says: /'; echo \"{name} status: $status\"")?;
    }
    if cut {
        writeln!(out, "echo '{CUT_LINE}'; sleep 1000")?;
    }
    Ok(out)
}

fn judge(guest: &Guest<'_>, run: &Run) -> Result<()> {
    let says = format!("{} says: ", guest.name);
    let dmesg = run.output.iter().filter_map(|line| line.strip_prefix(&says));
    let dmesg: Vec<&str> = dmesg.filter(|line| !MARKED.iter().any(|said| line.contains(said))).collect();
    if !run.output.contains(&format!("{} status: 0", guest.name)) {
        return Err(anyhow!("on Linux:\n{}", run.output.join("\n")));
    }
    complaints(&dmesg.join("\n"))
}
