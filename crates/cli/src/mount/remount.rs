//! `mount -o remount`: the kernel's flags of a live mount. The server goes on; a mount turned read-only just asks it for
//! no more changes.
use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount_remount};
use std::path::Path;

/// Flags of mount(2) by name; their opposites clear them. None is about access times, so the kernel leaves `noatime`.
const FLAGS: [(&str, &str, MountFlags); 5] = [
    ("ro", "rw", MountFlags::RDONLY),
    ("nodev", "dev", MountFlags::NODEV),
    ("nosuid", "suid", MountFlags::NOSUID),
    ("noexec", "exec", MountFlags::NOEXEC),
    ("sync", "async", MountFlags::SYNCHRONOUS),
];

/// Applies the flags among the options; mount(8) hands over the old ones too, so the last of a pair wins.
pub fn run(dir: &Path, options: &[String]) -> Result<()> {
    let flags = flags(options);
    mount_remount(dir, flags, c"").with_context(|| format!("cannot remount {}; only root may", dir.display()))
}

fn flags(options: &[String]) -> MountFlags {
    let mut flags = MountFlags::empty();
    for word in options.iter().flat_map(|o| o.split(',')) {
        for (set, clear, bit) in FLAGS {
            if word == set || word == clear {
                flags.set(bit, word == set);
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_wins() {
        let asked = |o: &str| flags(&[o.to_owned()]);
        assert_eq!(asked("rw,relatime,nosuid,remount,ro"), MountFlags::NOSUID | MountFlags::RDONLY);
        assert_eq!(asked("ro,remount,rw"), MountFlags::empty());
    }
}
