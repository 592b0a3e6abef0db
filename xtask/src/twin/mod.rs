//! The kernel twin: Linux's own F2FS, booted in a virtual machine, running a script on our images.

mod boot;
mod initrd;
mod kernel;
mod qemu;
mod user_mode;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use boot::STATUS_DIED;
pub use boot::{Boot, Kill, Machine, Outcome, Run};

/// Status of a run that took longer than its limit, as timeout(1) has it.
const STATUS_TIMED_OUT: u8 = 124;

/// Boot Linux in a virtual machine and run a script on images
#[derive(Args)]
pub struct KernelTwin {
    /// Shell script to run in the guest, as root, in the shared root [default: the init of the first disk, in user mode]
    #[arg(long)]
    script: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "qemu")]
    machine: Machine,
    /// Raw image, in order /dev/vda, /dev/vdb, ..., in user mode /dev/ubda, /dev/ubdb, ... (repeat)
    #[arg(long = "disk", value_name = "IMAGE")]
    disks: Vec<PathBuf>,
    /// Time limit of the guest, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    timeout: u64,
    /// Folder the guest has as its root
    #[arg(long, value_name = "DIR", default_value = "/")]
    share: PathBuf,
    /// Cut the power when the script prints exactly this line
    #[arg(long, value_name = "LINE")]
    kill_on: Option<String>,
    /// Cut the power this long after that line (or after the script's first line)
    #[arg(long, value_name = "SECS")]
    kill_after: Option<f64>,
}

impl KernelTwin {
    /// Passes the script's exit status through.
    pub fn run(self) -> Result<ExitCode> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).with_context(|| format!("reading the script {}", path.display()))
        };
        let script = self.script.as_ref().map(read).transpose()?;
        let after = Duration::try_from_secs_f64(self.kill_after.unwrap_or(0.0)).context("--kill-after")?;
        let kill_asked = self.kill_on.is_some() || self.kill_after.is_some();
        let boot = Boot {
            machine: self.machine,
            share: self.share,
            kill: kill_asked.then_some(Kill { on_line: self.kill_on, after }),
            echo: true,
            ..Boot::new(script, self.disks, Duration::from_secs(self.timeout))
        };
        let run = boot.run()?;
        let (verdict, code) = match run.outcome {
            Outcome::Exited(status) if kill_asked => {
                (format!("exited with {status} before it could be cut off"), STATUS_DIED)
            }
            Outcome::Exited(status) => (format!("exited with {status}"), status),
            Outcome::Killed => ("cut off as asked".to_owned(), 0),
            Outcome::TimedOut => (format!("still running after {} s", self.timeout), STATUS_TIMED_OUT),
            Outcome::Died => ("died before the script ended".to_owned(), STATUS_DIED),
        };
        if matches!(run.outcome, Outcome::TimedOut | Outcome::Died) {
            eprintln!("{}", run.console);
        }
        eprintln!("kernel-twin: {verdict} ({:.1} s, {})", run.elapsed.as_secs_f64(), run.machine);
        Ok(ExitCode::from(code))
    }
}
