//! Repaired volumes in Linux: each is mounted, read, written to and unmounted, and then has no finding.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::handover::kernel::complaints;
use crate::twin::{Boot, Run};

/// What Linux does with a volume: as few programs as possible, as qemu may have to emulate the processor.
const SCRIPT: &str = "ls -lR $DIR > /dev/null
mkdir $DIR/linux
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do echo \"$i and some more bytes\" > $DIR/linux/$i; done
rm $DIR/linux/1*
mv $DIR/linux $DIR/linux-was-here
sync
for i in 0 2 3 4 5 6 7 8 9; do read line < $DIR/linux-was-here/$i; [ \"$line\" = \"$i and some more bytes\" ]; done
[ ! -e $DIR/linux-was-here/11 ]";

/// Mount repaired volumes in Linux and write to them; one boot of the kernel twin for all
///
/// `SAVE=DIR cargo run -p segno-sim --example repair SEED FROM TO` makes the images.
#[derive(Args)]
pub struct Repaired {
    /// Folder with the images, all files of which are taken
    images: PathBuf,
    /// Limit of the boot, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 1800)]
    timeout: u64,
}

impl Repaired {
    pub fn run(self) -> Result<ExitCode> {
        let dir =
            self.images.canonicalize().with_context(|| format!("no folder {}", self.images.display()))?;
        let mut images: Vec<PathBuf> =
            fs::read_dir(&dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        images.sort();
        ensure!(!images.is_empty(), "{} is empty", dir.display());
        let boot = Boot::new(script(&images)?, Vec::new(), Duration::from_secs(self.timeout));
        eprintln!("repaired: booting Linux for {} volumes", images.len());
        let run = boot.run_to_end()?;
        let mut failed = 0;
        for (n, image) in images.iter().enumerate() {
            if let Err(e) = judge(n, &run).and_then(|()| crate::fsck::require_clean(image)) {
                println!("{}: {e:#}", image.display());
                failed += 1;
            }
        }
        println!(
            "repaired: {} of {} mounted in Linux, written to, and without findings",
            images.len() - failed,
            images.len()
        );
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn script(images: &[PathBuf]) -> Result<String> {
    let mut out = String::from("modprobe loop; export DIR=/mnt; mkdir -p $DIR\n");
    for (n, image) in images.iter().enumerate() {
        let path = image.display();
        writeln!(out, "dmesg -C; status=0")?;
        writeln!(out, "mount -t f2fs -o loop '{path}' $DIR && ( set -e\n{SCRIPT}\n) || status=1")?;
        writeln!(out, "umount $DIR || status=2")?;
        writeln!(out, "dmesg | sed 's/^/{n} says: /'; echo \"{n} status: $status\"")?;
    }
    Ok(out)
}

fn judge(n: usize, run: &Run) -> Result<()> {
    let says = format!("{n} says: ");
    let dmesg: Vec<&str> = run.output.iter().filter_map(|line| line.strip_prefix(&says)).collect();
    if !run.output.contains(&format!("{n} status: 0")) {
        bail!("on Linux:\n{}", dmesg.join("\n"));
    }
    complaints(&dmesg.join("\n"))
}
