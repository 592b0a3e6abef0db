//! Guests of user-mode Linux: a kernel that is a program, with the host's root as its own, or that of a disk.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::boot::{Boot, Room, comma_free};
use crate::paths::{run, target_dir};

/// The driver has no more.
pub const DISKS_MAX: usize = 16;

/// Makes the kernel of Debian's sources, about six minutes of processor time.
const BUILD: &str = include_str!("user_mode_kernel.sh");

const INIT: &str = include_str!("user_mode_init.sh");

/// The command of a boot, and the machine it runs on. The console's output is on standard error, that of the
/// script on standard output.
pub fn command(boot: &Boot, room: &Room) -> Result<(Command, &'static str)> {
    ensure!(boot.virtiofs.is_none(), "user-mode Linux has no virtiofs");
    ensure!(boot.share == Path::new("/"), "the root of user-mode Linux is the host's");
    let mut command = Command::new(kernel()?);
    command.args(["mem=1024M", "rw", "quiet", "panic=-1", "null_blk.nr_devices=0"]).args([
        "con=null",
        "con0=null,fd:2",
        "ssl0=null,fd:1",
    ]);
    if boot.script.is_some() {
        let init = room.file("init");
        fs::write(&init, INIT.replace("@ROOM@", &comma_free(&room.dir)?))?;
        fs::set_permissions(&init, Permissions::from_mode(0o755))?;
        command.args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/"]);
        command.arg(format!("init={}", comma_free(&init)?));
    } else {
        command.arg(format!("root={}", boot.machine.disk_name(0)));
    }
    for (letter, disk) in ('a'..).zip(&boot.disks) {
        let path = disk.canonicalize().with_context(|| format!("disk {}", disk.display()))?;
        command.arg(format!("ubd{letter}={}", comma_free(&path)?));
    }
    command.stderr(File::create(room.file("console"))?);
    if Path::new("/dev/shm").is_dir() {
        // The guest's memory is a file.
        command.env("TMPDIR", "/dev/shm");
    }
    Ok((command, "user-mode Linux"))
}

/// The kernel kept from an earlier run, or built now.
fn kernel() -> Result<PathBuf> {
    let home = target_dir().join("kernel-twin/user-mode");
    let program = home.join("linux");
    if !program.is_file() {
        fs::create_dir_all(&home).with_context(|| format!("creating {}", home.display()))?;
        eprintln!("kernel-twin: building user-mode Linux (once, about six minutes of processor time)");
        run(Command::new("bash").args(["-c", BUILD, "user_mode_kernel.sh"]).arg(&home))?;
    }
    Ok(program)
}
