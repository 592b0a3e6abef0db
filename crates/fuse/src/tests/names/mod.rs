//! Names in directories that ignore case: a request under any spelling takes effect under all spellings at
//! once.
mod random;
mod replies;
mod spellings;

use super::{Mount, volume_with};
use crate::options::Choice;
use rustix::ioctl::{Setter, ioctl, opcode};
use segno_engine::Volume;
use segno_format::Features;
use segno_mkfs::MkfsOptions;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

const SETFLAGS: rustix::ioctl::Opcode = opcode::write::<usize>(b'f', 2);
const FS_CASEFOLD_FL: usize = 0x4000_0000;

fn folding_volume() -> Arc<Volume> {
    volume_with(&MkfsOptions { features: Features::CASEFOLD, ..MkfsOptions::default() })
}

/// `chattr +F`, or `-F`.
fn set_folding(dir: &Path, on: bool) {
    let flags = if on { FS_CASEFOLD_FL } else { 0 };
    // SAFETY: FS_IOC_SETFLAGS reads one number through its pointer.
    unsafe { ioctl(File::open(dir).unwrap(), Setter::<SETFLAGS, usize>::new(flags)).unwrap() };
}

/// Runs a test on a mount of every transport, whose directory `g` ignores case and whose `plain` does not.
fn each_folding(test: impl Fn(&Mount)) {
    for choice in [Choice::Classic, Choice::IoUring] {
        let Some(mount) = Mount::of(folding_volume(), choice, &[]) else { continue };
        fs::create_dir(mount.path().join("g")).unwrap();
        fs::create_dir(mount.path().join("plain")).unwrap();
        set_folding(&mount.path().join("g"), true);
        test(&mount);
    }
}
