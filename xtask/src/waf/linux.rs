//! Linux's part: F2FS in a virtual machine; its disk's own counter of sectors written.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::VOLUME_MIB;
use super::load::{Case, DIRTY_LIMIT, Load, Measured, Reported, user_bytes};
use crate::paths::run;
use crate::twin::Boot;

/// Unit of /sys/block/*/stat.
const SECTOR: u64 = 512;
/// Emulated processors are slow.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Prefix of lines that are not part of fio's report.
const MARK: &str = "waf: ";

pub fn measure(segno: &Path, work: &Path, case: Case) -> Result<Measured> {
    let image = work.join("linux");
    let size = format!("{VOLUME_MIB}M");
    // The volume of mkfs.f2fs, by Segno.
    run(Command::new(segno).args(["mkfs", "-q", "-f", "--size", &size]).arg(&image))?;
    let load = Load::of(case, Path::new("/mnt/volume/file"), user_bytes(segno, &image)?);
    let boot = Boot::new(script(&load), vec![image], PATIENCE);
    let guest = boot.run_to_end()?;
    let marked = |name: &str| guest.output.iter().find_map(|l| l.strip_prefix(MARK)?.strip_prefix(name));
    let sectors = |name: &str| -> Result<u64> {
        let text = marked(name).with_context(|| format!("the guest says nothing of {name}"))?;
        text.trim().parse().with_context(|| format!("{name} is no number: {text}"))
    };
    let report: Vec<&str> =
        guest.output.iter().filter(|l| !l.starts_with(MARK)).map(String::as_str).collect();
    let Reported { bytes: written, p999, longest } = Reported::of(&report.join("\n"))?;
    ensure!(written == load.written, "fio wrote {written} bytes of {}", load.written);
    let device = sectors("after")?.saturating_sub(sectors("before")?) * SECTOR;
    let version = marked("kernel").unwrap_or_default().trim();
    Ok(Measured { written, device, p999, longest, detail: format!("Linux {version}") })
}

/// Writeback depends on the number of dirty pages alone; neither checkpoints nor cleaning run by the clock.
fn script(load: &Load) -> String {
    let quoted = |words: &[String]| words.join(" ");
    let (background, limit, size) = (DIRTY_LIMIT / 2, DIRTY_LIMIT, load.size);
    let (fill, overwrite) = (quoted(&load.fill), quoted(&load.overwrite));
    format!(
        "set -e
cd /mnt
mkdir -p volume
mount -t f2fs -o mode=lfs,background_gc=off /dev/vda volume
echo 86400 > /sys/fs/f2fs/vda/cp_interval
echo {background} > /proc/sys/vm/dirty_background_bytes
echo {limit} > /proc/sys/vm/dirty_bytes
echo 0 > /proc/sys/vm/dirty_writeback_centisecs
sectors() {{ set -- $(cat /sys/block/vda/stat); echo $7; }}
fio {fill} > fill.log
sync -f volume
echo \"{MARK}kernel $(uname -r)\"
echo \"{MARK}before $(sectors)\"
fio {overwrite} > overwrite.json
sync -f volume
echo \"{MARK}after $(sectors)\"
[ $(($(stat -c %b volume/file) * 512)) -ge {size} ] || {{ echo 'fio made the file anew'; exit 1; }}
umount volume
cat overwrite.json
"
    )
}
