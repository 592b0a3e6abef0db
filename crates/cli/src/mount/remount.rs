//! `mount -o remount`: the kernel's flags of a live mount. The server is not involved; on a
//! read-only mount the kernel sends it no changes.
use super::options::remountable;
use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount_remount};
use std::path::Path;

/// Applies the flags among the options; mount(8) passes the old ones too, so the last of a pair wins.
pub fn run(dir: &Path, options: &[String]) -> Result<()> {
    let flags = flags(options);
    mount_remount(dir, flags, c"").with_context(|| format!("cannot remount {}; only root may", dir.display()))
}

fn flags(options: &[String]) -> MountFlags {
    let mut flags = MountFlags::empty();
    for word in options.iter().flat_map(|o| o.split(',')) {
        for (set, clear, bit) in remountable() {
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
        let parsed = |o: &str| flags(&[o.to_owned()]);
        assert_eq!(parsed("rw,relatime,nosuid,remount,ro"), MountFlags::NOSUID | MountFlags::RDONLY);
        assert_eq!(parsed("ro,remount,rw"), MountFlags::empty());
    }
}
