//! The guest's first file system: busybox, the modules and an `/init`, as an uncompressed cpio archive.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::kernel::{BOOT_MODULES, Kernel};

const INIT: &str = include_str!("init.sh");

/// Programs that `/init` calls, and that the kernel calls to load a module.
const APPLETS: [&str; 9] = [
    "bin/sh",
    "bin/mount",
    "bin/modprobe",
    "sbin/modprobe",
    "bin/chroot",
    "bin/cat",
    "bin/mkdir",
    "bin/sync",
    "bin/poweroff",
];

const DIRS: [&str; 9] = ["bin", "sbin", "proc", "sys", "dev", "host", "run", "lib", "lib/modules"];

const DIR: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// Writes the archive for `kernel` to `out`.
pub fn write(kernel: &Kernel, out: &Path) -> Result<()> {
    let mut archive = Archive { out: Vec::new(), ino: 0 };
    for dir in DIRS {
        archive.entry(dir, DIR, &[])?;
    }
    archive.entry("bin/busybox", FILE, &fs::read(&kernel.busybox)?)?;
    for applet in APPLETS {
        archive.entry(applet, LINK, b"/bin/busybox")?;
    }
    archive.entry("init", FILE, INIT.replace("@MODULES@", &BOOT_MODULES.join(" ")).as_bytes())?;
    let modules = format!("lib/modules/{}", kernel.version);
    archive.tree(&kernel.modules.join(&modules), &modules).context("packing the modules")?;
    archive.entry("TRAILER!!!", 0, &[])?;
    fs::write(out, archive.out).with_context(|| format!("writing {}", out.display()))
}

/// cpio's "newc" format: a header of hexadecimal fields, name and data each padded to four bytes.
struct Archive {
    out: Vec<u8>,
    ino: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        self.ino += 1;
        write!(self.out, "070701{:08x}{mode:08x}", self.ino)?;
        write!(self.out, "{:08x}{:08x}{:08x}{:08x}{:08x}", 0, 0, 1, 0, data.len())?;
        write!(self.out, "{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}", 0, 0, 0, 0, name.len() + 1, 0)?;
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
        self.pad();
        self.out.extend_from_slice(data);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
    }

    fn tree(&mut self, from: &Path, name: &str) -> Result<()> {
        self.entry(name, DIR, &[])?;
        for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
            let entry = entry?;
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.tree(&entry.path(), &name)?;
            } else {
                self.entry(&name, FILE, &fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_headed_as_newc_wants() {
        let mut archive = Archive { out: Vec::new(), ino: 0 };
        archive.entry("ab", FILE, b"hello").unwrap();
        let head = &archive.out[..110];
        assert!(head.starts_with(b"07070100000001000081ed"), "{}", String::from_utf8_lossy(head));
        assert_eq!(&head[54..62], b"00000005");
        assert_eq!(&head[94..102], b"00000003");
        assert_eq!(archive.out.len(), 110 + 6 + 8);
        assert_eq!(&archive.out[116..121], b"hello");
    }
}
