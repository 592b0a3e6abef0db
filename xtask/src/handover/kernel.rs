//! Linux's side: one boot for all volumes of a turn.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::job::Job;
use super::side::{Promises, Side, Turn};
use crate::paths::{f2fs_tool, run};
use crate::twin::{Boot, Kill, Machine, Outcome};

/// Printed when every script has kept its promises.
const CUT_LINE: &str = "handover: cut now";

pub struct Kernel {
    pub machine: Machine,
    /// Limit of one boot.
    pub timeout: Duration,
}

impl Side for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn format(&self, job: &Job) -> Result<()> {
        run(f2fs_tool("mkfs.f2fs")?.args(["-q", "-f"]).args(job.mkfs_arguments())).map(drop)
    }

    fn visit(&self, turns: &[Turn<'_>]) -> Vec<Result<()>> {
        let visit = |turns: &[Turn<'_>]| -> Vec<Result<()>> {
            let boot = self.script(turns, visit_script).and_then(|script| self.boot(turns, script, None));
            turns.iter().map(|turn| judge(turn, &boot)).collect()
        };
        batches(turns, self.machine.disks_max()).into_iter().flat_map(visit).collect()
    }

    fn cut(&self, turns: &[Turn<'_>], promises: &Promises) -> Vec<Result<()>> {
        let cut = |turns: &[Turn<'_>]| self.cut_together(turns, promises);
        batches(turns, self.machine.disks_max()).into_iter().flat_map(cut).collect()
    }
}

/// Consecutive turns whose devices one guest takes.
fn batches<'t, 'j>(turns: &'t [Turn<'j>], disks_max: usize) -> Vec<&'t [Turn<'j>]> {
    let mut batches = Vec::new();
    let mut rest = turns;
    while !rest.is_empty() {
        let mut disks = 0;
        let fitting = rest.iter().take_while(|turn| {
            disks += turn.job.devices.len();
            disks <= disks_max
        });
        // A volume of more devices than fit is reported by its boot.
        let (batch, others) = rest.split_at(fitting.count().max(1));
        batches.push(batch);
        rest = others;
    }
    batches
}

impl Kernel {
    /// One boot for volumes that lose power together.
    fn cut_together(&self, turns: &[Turn<'_>], promises: &Promises) -> Vec<Result<()>> {
        let kill = Kill { on_line: Some(CUT_LINE.to_owned()), after: promises.delay };
        let boot = self
            .script(turns, start_script)
            .map(|script| script + &wait_script(turns, promises))
            .and_then(|script| self.boot(turns, script, Some(kill)));
        let cut = match boot {
            Ok(Outcome::Killed) => Ok(()),
            Ok(outcome) => Err(format!("the guest was to lose power, instead: {outcome:?}")),
            Err(error) => Err(format!("{error:#}")),
        };
        turns
            .iter()
            .map(|turn| match &cut {
                Ok(()) => Ok(()),
                Err(why) => Err(anyhow!("{why}\n{}", told(turn))),
            })
            .collect()
    }

    fn boot(&self, turns: &[Turn<'_>], script: String, kill: Option<Kill>) -> Result<Outcome> {
        for turn in turns {
            for kind in ["status", "dmesg", "log"] {
                let file = turn.job.file(&format!("{}.{kind}", turn.label));
                if file.exists() {
                    fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
                }
            }
        }
        let boot = Boot {
            machine: self.machine,
            kill,
            ..Boot::new(
                script,
                turns.iter().flat_map(|turn| turn.job.devices.clone()).collect(),
                self.timeout,
            )
        };
        let run = boot.run()?;
        if run.outcome == Outcome::Died {
            bail!("the guest died; it said:\n{}\nits console:\n{}", run.output.join("\n"), run.console);
        }
        Ok(run.outcome)
    }

    /// The parts of all turns, with variables for each.
    fn script(&self, turns: &[Turn<'_>], part: fn(&Turn<'_>) -> String) -> Result<String> {
        let mut script = String::new();
        let mut disk = 0;
        for turn in turns {
            let out = quoted(&turn.job.dir)?;
            writeln!(script, "OUT={out}; XTASK={}; LABEL={}", quoted(&turn.job.program())?, turn.label)?;
            writeln!(script, "DIR=/mnt/{disk}; DISK={}", self.machine.disk_name(disk))?;
            writeln!(script, "export OUT XTASK DIR; mkdir -p $DIR; dmesg -C")?;
            if let [_, _, ..] = turn.job.devices[..] {
                // The superblock names the devices by their paths on the host; here the disks have to be there.
                for (offset, image) in turn.job.devices.iter().enumerate() {
                    writeln!(
                        script,
                        "mount --bind {} {}",
                        self.machine.disk_name(disk + offset),
                        quoted(image)?
                    )?;
                }
            }
            disk += turn.job.devices.len();
            script.push_str(&part(turn));
        }
        Ok(script)
    }
}

fn visit_script(turn: &Turn<'_>) -> String {
    format!(
        "if mount -t f2fs {} $DISK $DIR > $OUT/$LABEL.log 2>&1; then\n\
         (\n{}\n) >> $OUT/$LABEL.log 2>&1; status=$?\n\
         umount $DIR >> $OUT/$LABEL.log 2>&1 || status=99\n\
         else status=98; fi\n\
         dmesg > $OUT/$LABEL.dmesg; echo $status > $OUT/$LABEL.status\n",
        options(turn),
        turn.script
    )
}

fn options(turn: &Turn<'_>) -> String {
    // No shell takes the asterisk for a pattern here.
    turn.job.case.options.map_or_else(String::new, |options| format!("-o '{options}'"))
}

fn start_script(turn: &Turn<'_>) -> String {
    format!(
        "mount -t f2fs {} $DISK $DIR > $OUT/$LABEL.log 2>&1 && (\n{}\n) >> $OUT/$LABEL.log 2>&1 &\n",
        options(turn),
        turn.script
    )
}

/// Waits for promises of all; a script that ended early lets the boot run into its limit.
fn wait_script(turns: &[Turn<'_>], promises: &Promises) -> String {
    let logs: Vec<_> = turns.iter().map(|turn| turn.job.file(promises.log).display().to_string()).collect();
    format!(
        "for log in {}; do\n\
         until [ \"$(cat $log 2> /dev/null | wc -l)\" -ge {} ]; do sleep 0.1; done\n\
         done\necho '{CUT_LINE}'\nsleep 1000\n",
        logs.join(" "),
        promises.lines
    )
}

fn judge(turn: &Turn<'_>, boot: &Result<Outcome>) -> Result<()> {
    let status = turn.job.read(&format!("{}.status", turn.label)).ok();
    match (status.as_deref().map(str::trim), boot) {
        (Some("0"), _) => complaints(&turn.job.read(&format!("{}.dmesg", turn.label))?),
        (Some("98"), _) => bail!("Linux does not mount it: {}", told(turn)),
        (Some("99"), _) => bail!("Linux does not unmount it: {}", told(turn)),
        (Some(status), _) => bail!("the script ended with {status}: {}", told(turn)),
        (None, Ok(outcome)) => bail!("the guest did not come to it ({outcome:?}): {}", told(turn)),
        (None, Err(error)) => bail!("{error:#}"),
    }
}

/// Output of the script and the kernel's log, as far as there are any.
fn told(turn: &Turn<'_>) -> String {
    let read = |kind: &str| turn.job.read(&format!("{}.{kind}", turn.label)).unwrap_or_default();
    let (log, dmesg) = (read("log"), read("dmesg"));
    let last: Vec<_> = dmesg.lines().rev().take(12).collect();
    let dmesg: Vec<_> = last.into_iter().rev().collect();
    format!("{}\n{}", log.trim_end(), dmesg.join("\n"))
}

/// Fails if f2fs logged anything but messages of normal operation.
pub fn complaints(dmesg: &str) -> Result<()> {
    const GOOD: [&str; 10] = [
        "Mounted with checkpoint version",
        "checkpoint: version =",
        "Found nat_bits in checkpoint",
        // After a cut they are older than the checkpoint.
        "Disable nat_bits due to incorrect cp_ver",
        "Mount Device [",
        "IO Block Size:",
        "Using encoding defined by superblock",
        "recover_",
        "do_recover_data",
        "recover fsync data on readonly fs",
    ];
    const BAD: [&str; 5] = ["BUG:", "WARNING:", "Oops", "Call Trace", "blocked for more than"];
    let bad = |line: &&str| {
        BAD.iter().any(|word| line.contains(word))
            || line.contains("F2FS-fs") && !GOOD.iter().any(|word| line.contains(word))
    };
    let lines: Vec<_> = dmesg.lines().filter(bad).collect();
    if !lines.is_empty() {
        bail!("Linux complains:\n{}", lines.join("\n"));
    }
    Ok(())
}

fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    if text.contains([' ', '\'', '"', '$', '\\']) {
        bail!("a path without blanks and quotes is needed: {text}");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn the_kernel_may_say_that_it_mounted_and_nothing_else() {
        let good = "[    3.9] F2FS-fs (vda): Found nat_bits in checkpoint\n[    3.9] F2FS-fs (vda): Mounted with \
                    checkpoint version = 70ba357d\n[ 4.0] random: crng init done\n";
        assert!(complaints(good).is_ok());
        assert!(complaints(&format!("{good}[ 5.0] F2FS-fs (vda): sanity_check_inode: corrupted\n")).is_err());
        assert!(complaints("[ 5.0] WARNING: CPU: 0 PID: 1\n").is_err());
    }
}
