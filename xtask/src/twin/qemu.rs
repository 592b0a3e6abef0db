//! Guests of QEMU: its arguments.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::boot::{Boot, Room, comma_free};
use super::initrd;
use super::kernel::Kernel;
use crate::paths::tool;

/// Disks sit in slots 8 to 31 of the PCI bus, eight functions each.
pub const DISKS_MAX: usize = 24 * 8;

const MEMORY_MIB: &str = "1024";

/// A panic must end qemu (-no-reboot) and not wait. On a busy host the guest's processor may stall for long,
/// which is no fault of the guest: watchdogs of the processor are off, the watchdog of hung tasks is on. The
/// rest saves boot time under emulation.
const APPEND: &str = "console=ttyS0 quiet panic=-1 nosoftlockup rcupdate.rcu_cpu_stall_suppress=1 mitigations=off nokaslr no_timer_check";

/// The command of a boot, and the accelerator it runs with.
pub fn command(boot: &Boot, room: &Room) -> Result<(Command, &'static str)> {
    ensure!(boot.script.is_some(), "a guest of QEMU runs a script; --machine user-mode boots a disk");
    let kernel = Kernel::obtain()?;
    initrd::write(&kernel, &room.file("initrd"))?;
    let machine = accelerator();
    let mut command = Command::new(tool("qemu-system-x86_64", "qemu-system-x86")?);
    let accelerator = if machine == "kvm" { "kvm" } else { "tcg,thread=multi" };
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
    for (tag, path) in [("host", &boot.share), ("run", &room.dir)] {
        let path = path.canonicalize().with_context(|| format!("sharing {}", path.display()))?;
        command.arg("-virtfs").arg(format!(
            "local,path={},mount_tag={tag},security_model=none,multidevs=remap",
            comma_free(&path)?
        ));
    }
    for (index, disk) in boot.disks.iter().enumerate() {
        add_disk(&mut command, index, disk)?;
    }
    if !boot.reboots {
        command.arg("-no-reboot");
    }
    if let Some(socket) = &boot.virtiofs {
        add_virtiofs(&mut command, socket)?;
    }
    Ok((command, machine))
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
    // writeback: data that the guest has written survives the death of qemu.
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
