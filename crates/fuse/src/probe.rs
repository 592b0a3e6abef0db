//! Probe for `no_open`. The server answers OPEN with ENOSYS, and from the first such reply on the kernel sends neither OPEN
//! nor RELEASE. Until then it sends a RELEASE for each created file that is closed. So a process opens a virtual file,
//! which is on no volume, right after mounting.
use crate::wire::{Attr, EntryOut, ROOT};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = ".segno-no-open-probe";
/// No inode has this number.
const NODE: u64 = u64::MAX;

/// Makes the kernel stop sending OPEN and RELEASE. Must not be called by the process that serves the mount: a process
/// that waits for its own reply cannot be killed.
pub fn probe_no_open(dir: &Path) {
    // If this fails the mount still works, with more requests.
    let _refused = File::open(dir.join(NAME));
}

/// The virtual file. It exists until it is looked up for the first time.
#[derive(Debug)]
pub struct NoOpenProbe(AtomicBool);

impl NoOpenProbe {
    /// A file that exists if this is set.
    pub fn new(enabled: bool) -> Self {
        Self(AtomicBool::new(enabled))
    }

    /// The entry, if this lookup is for the file.
    pub fn entry(&self, parent: u64, name: &[u8]) -> Option<EntryOut> {
        let is_probe = self.0.load(Ordering::Relaxed) && parent == ROOT && name == NAME.as_bytes();
        (is_probe && self.0.swap(false, Ordering::Relaxed)).then(|| EntryOut {
            nodeid: NODE,
            // Opening it needs the attributes once more.
            attr_valid: 60,
            attr: Attr { ino: NODE, mode: 0o100_444, nlink: 1, ..Attr::default() },
            ..EntryOut::default()
        })
    }
}
