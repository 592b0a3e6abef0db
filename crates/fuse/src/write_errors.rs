//! Errors of data that only the kernel had. With a writeback cache write(2) has succeeded by the time a WRITE
//! of cached pages fails, and the kernel reports that only to fsync and close: a program that calls neither
//! could write without end. So its next write fails. Before the kernel takes data into its cache it fetches
//! attributes that are marked as stale, and the reply to this GETATTR is the error.
use parking_lot::Mutex;
use rustix::io::Errno;
use segno_engine::Attr;
use segno_format::Ino;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of files with an error to report. The oldest is dropped; fsync and close still report it.
const FILES_MAX: usize = 1024;

#[derive(Debug)]
struct Failed {
    ino: Ino,
    /// Distinguishes the file from a later one with this number.
    generation: u32,
    why: Errno,
}

/// Files whose next write fails.
#[derive(Debug, Default)]
pub(crate) struct WriteErrors {
    failed: Mutex<VecDeque<Failed>>,
    /// Length of `failed`: usually 0, and then GETATTR takes no lock.
    count: AtomicUsize,
}

impl WriteErrors {
    /// Notes that cached pages of a file could not be written.
    pub(crate) fn note(&self, file: &Attr, why: Errno) {
        let mut failed = self.failed.lock();
        failed.retain(|f| f.ino != file.ino);
        if failed.len() >= FILES_MAX {
            failed.pop_front();
        }
        failed.push_back(Failed { ino: file.ino, generation: file.generation, why });
        self.count.store(failed.len(), Ordering::Release);
    }

    /// Whether a write to the file is to report an error.
    pub(crate) fn has(&self, file: &Attr) -> bool {
        self.count.load(Ordering::Acquire) > 0
            && self.failed.lock().iter().any(|f| (f.ino, f.generation) == (file.ino, file.generation))
    }

    /// The error that a write to the file is to report, once.
    pub(crate) fn take(&self, file: &Attr) -> Option<Errno> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut failed = self.failed.lock();
        let at = failed.iter().position(|f| f.ino == file.ino)?;
        let found = failed.remove(at)?;
        self.count.store(failed.len(), Ordering::Release);
        (found.generation == file.generation).then_some(found.why)
    }
}
