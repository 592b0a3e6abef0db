//! Runs one guest: qemu's arguments, its output, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::initrd;
use super::kernel::Kernel;
use crate::paths::{target_dir, tool};

/// Disks sit in slots 8 to 31 of the PCI bus, eight functions each.
const DISKS_MAX: usize = 24 * 8;

const MEMORY_MIB: &str = "1024";

/// A panic must end qemu (-no-reboot) and not wait. On a busy host the guest's processor may stand still for long, which is
/// nobody's fault here: watchdogs of the processor are off, that of hung tasks is not. The rest saves boot time under emulation.
const APPEND: &str = "console=ttyS0 quiet panic=-1 nosoftlockup rcupdate.rcu_cpu_stall_suppress=1 mitigations=off nokaslr no_timer_check";

/// Status of a guest that ended without running the script to its end.
pub const STATUS_DIED: u8 = 125;

/// When to pull the plug: some time after the guest printed a line, or after it started printing at all.
#[derive(Clone, Debug)]
pub struct Kill {
    pub on_line: Option<String>,
    pub after: Duration,
}

/// One boot of the kernel twin.
#[derive(Debug)]
pub struct Boot {
    pub script: String,
    /// Raw images; they become /dev/vda, /dev/vdb, ...
    pub disks: Vec<PathBuf>,
    /// Socket of a vhost-user server whose file system the guest mounts as "segno".
    pub virtiofs: Option<PathBuf>,
    /// A guest that resets itself boots again, with the same script.
    pub reboots: bool,
    pub timeout: Duration,
    /// Folder the guest sees as its root.
    pub share: PathBuf,
    pub kill: Option<Kill>,
    /// Pass the script's output on while it runs.
    pub echo: bool,
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The script ran to its end and gave this status.
    Exited(u8),
    /// Cut off, as asked for.
    Killed,
    TimedOut,
    /// The guest ended, the script did not: a panic, or a boot that failed.
    Died,
}

/// What a guest left behind.
#[derive(Debug)]
pub struct Run {
    pub outcome: Outcome,
    /// Lines the script printed.
    pub output: Vec<String>,
    /// The kernel's console.
    pub console: String,
    pub elapsed: Duration,
    pub accelerator: &'static str,
}

impl Boot {
    /// Boots, runs the script, waits for the end.
    pub fn run(&self) -> Result<Run> {
        let kernel = Kernel::obtain()?;
        let room = Room::new()?;
        fs::write(room.file("script"), &self.script)?;
        fs::write(room.file("status"), STATUS_DIED.to_string())?;
        initrd::write(&kernel, &room.file("initrd"))?;

        let accelerator = accelerator();
        let mut command = self.command(&kernel, &room, accelerator)?;
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut guest = Guest { child };
        let (output, end) = self.watch(&mut guest)?;
        let outcome = match end {
            End::Killed => Outcome::Killed,
            End::TimedOut => Outcome::TimedOut,
            End::Closed => room.status(),
        };
        let console = fs::read(room.file("console")).unwrap_or_default();
        Ok(Run {
            outcome,
            output,
            console: String::from_utf8_lossy(&console).into_owned(),
            elapsed: started.elapsed(),
            accelerator,
        })
    }

    fn command(&self, kernel: &Kernel, room: &Room, accelerator: &str) -> Result<Command> {
        if self.disks.len() > DISKS_MAX {
            bail!("{} disks asked for, at most {DISKS_MAX} fit", self.disks.len());
        }
        let mut command = Command::new(tool("qemu-system-x86_64", "qemu-system-x86")?);
        let accelerator = if accelerator == "kvm" { "kvm" } else { "tcg,thread=multi" };
        command
            .args(["-accel", accelerator, "-cpu", "max", "-m", MEMORY_MIB])
            .args(["-nodefaults", "-display", "none"])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(room.file("initrd"))
            .args(["-append", APPEND])
            .arg("-serial")
            .arg(format!("file:{}", comma_free(&room.file("console"))?))
            .args(["-device", "virtio-serial-pci", "-chardev", "stdio,id=out,signal=off"])
            .args(["-device", "virtserialport,chardev=out,name=out"]);
        for (tag, path) in [("host", &self.share), ("run", &room.dir)] {
            let path = path.canonicalize().with_context(|| format!("sharing {}", path.display()))?;
            command.arg("-virtfs").arg(format!(
                "local,path={},mount_tag={tag},security_model=none,multidevs=remap",
                comma_free(&path)?
            ));
        }
        for (index, disk) in self.disks.iter().enumerate() {
            add_disk(&mut command, index, disk)?;
        }
        if !self.reboots {
            command.arg("-no-reboot");
        }
        if let Some(socket) = &self.virtiofs {
            add_virtiofs(&mut command, socket)?;
        }
        // A pipe that stays open: at the end of stdin the port would be unplugged and the guest's output with it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }

    /// Collects output until the guest is gone or it is time to end it.
    fn watch(&self, guest: &mut Guest) -> Result<(Vec<String>, End)> {
        let stdout = guest.child.stdout.take().context("qemu has no output pipe")?;
        let lines = read_lines(stdout);
        let give_up = Instant::now() + self.timeout;
        let mut kill_at = None;
        let mut output = Vec::new();
        loop {
            let until = kill_at.map_or(give_up, |at: Instant| at.min(give_up));
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if self.echo {
                        writeln!(std::io::stdout(), "{line}")?;
                    }
                    if kill_at.is_none() {
                        kill_at = self
                            .kill
                            .as_ref()
                            .filter(|kill| kill.starts_at(&line))
                            .map(|kill| Instant::now() + kill.after);
                    }
                    output.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    guest.child.wait().context("waiting for qemu")?;
                    return Ok((output, End::Closed));
                }
                Err(RecvTimeoutError::Timeout) => {
                    guest.end()?;
                    let end =
                        if kill_at.is_some_and(|at| at <= give_up) { End::Killed } else { End::TimedOut };
                    output.extend(lines.iter());
                    return Ok((output, end));
                }
            }
        }
    }
}

impl Kill {
    fn starts_at(&self, line: &str) -> bool {
        self.on_line.as_ref().is_none_or(|wanted| line.trim_end() == wanted)
    }
}

enum End {
    Closed,
    Killed,
    TimedOut,
}

/// qemu, ended with us whatever happens.
struct Guest {
    child: Child,
}

impl Guest {
    /// SIGKILL: what the guest had written is in the image, what it had not is lost, as in a power cut.
    fn end(&mut self) -> Result<()> {
        self.child.kill().context("killing qemu")?;
        self.child.wait().context("waiting for qemu")?;
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Nothing is left to be told: either it has ended, or an error is on its way up already.
        let _ = self.end();
    }
}

/// Folder of one run, shared with the guest: script and status, initrd, console.
struct Room {
    dir: PathBuf,
}

impl Room {
    fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = target_dir().join("kernel-twin").join(format!("run-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(Self { dir })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn status(&self) -> Outcome {
        let text = fs::read_to_string(self.file("status")).unwrap_or_default();
        match text.trim().parse() {
            Ok(STATUS_DIED) | Err(_) => Outcome::Died,
            Ok(status) => Outcome::Exited(status),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("kernel-twin: {} is left behind: {error}", self.dir.display());
        }
    }
}

/// KVM needs a processor that offers it; some machines have the device and cannot run a common kernel on it.
fn accelerator() -> &'static str {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let capable = flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    let open = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    if capable && open { "kvm" } else { "tcg" }
}

fn add_disk(command: &mut Command, index: usize, disk: &Path) -> Result<()> {
    let path = disk.canonicalize().with_context(|| format!("disk {}", disk.display()))?;
    let (slot, function) = (8 + index / 8, index % 8);
    // writeback: what the guest has written survives the death of qemu.
    command.arg("-drive").arg(format!(
        "file={},if=none,id=disk{index},format=raw,cache=writeback,discard=unmap",
        comma_free(&path)?
    ));
    command
        .arg("-device")
        .arg(format!("virtio-blk-pci,drive=disk{index},addr={slot:x}.{function},multifunction=on"));
    Ok(())
}

/// The server maps the guest's memory, so this is shared. Rings of 1,024 entries take requests of 1 MiB.
fn add_virtiofs(command: &mut Command, socket: &Path) -> Result<()> {
    command
        .arg("-object")
        .arg(format!("memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on"))
        .args(["-numa", "node,memdev=memory", "-chardev"])
        .arg(format!("socket,id=virtiofs,path={}", comma_free(socket)?))
        .args(["-device", "vhost-user-fs-pci,chardev=virtiofs,tag=segno,queue-size=1024"]);
    Ok(())
}

/// Name of a disk in the guest: vda to vdz, then vdaa.
pub fn disk_name(index: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = index + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    format!("/dev/vd{}", letters.iter().rev().collect::<String>())
}

/// qemu splits its options at commas.
fn comma_free(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    if text.contains(',') {
        bail!("qemu takes no path with a comma: {text}");
    }
    Ok(text.to_owned())
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_named_as_the_kernel_names_them() {
        let names = [0, 25, 26, 51, 52, 191].map(disk_name);
        assert_eq!(names, ["/dev/vda", "/dev/vdz", "/dev/vdaa", "/dev/vdaz", "/dev/vdba", "/dev/vdgj"]);
    }

    #[test]
    fn a_kill_waits_for_its_line() {
        let kill = Kill { on_line: Some("CUT".into()), after: Duration::ZERO };
        assert!(kill.starts_at("CUT"));
        assert!(!kill.starts_at("CUT it"));
        assert!(Kill { on_line: None, after: Duration::ZERO }.starts_at("anything"));
    }
}
