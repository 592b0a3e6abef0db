//! Whether the volume is running, and the state that the superblock records: why it stopped and the kinds of
//! damage seen, for repair as in F2FS, and the guard mark, which forbids writing the volume without its
//! journal.
//!
//! Damage is recorded in memory where it is found, under any locks, and stored by the next checkpoint, which also
//! requests a check. A stopped volume writes no more checkpoints, so the reason is stored immediately, in a single
//! attempt.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::meta::Device;
use crate::notice::{Notice, Observer};
use crate::sync::Mutex as Unranked;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use segno_device::Operation;
use segno_format::record::{DamageKind, StopReason};
use segno_format::superblock::RawSuperblock;
use segno_format::{Corrupt, Structure};
use segno_layout::Superblocks;
use std::sync::Arc;

/// State of the volume with respect to failure and damage.
pub struct Health {
    dev: Arc<Device>,
    /// Is notified of the reason when the volume stops.
    observer: Observer,
    read_only: bool,
    stopped: AtomicBool,
    /// It stopped as another writer took it over. Set before.
    taken_over: AtomicBool,
    /// Bits of the kinds of damage seen since mount, and of those already stored.
    seen: AtomicU32,
    stored: AtomicU32,
    /// The superblock as last stored.
    raw: Mutex<RawSuperblock, { rank::LEAF }>,
    /// Held while copies are stored, so that newer ones are not overwritten with older ones.
    storing: Unranked<()>,
}

impl Health {
    /// `raw` is the superblock as mounted.
    pub fn new(raw: RawSuperblock, dev: Arc<Device>, observer: Observer, read_only: bool) -> Self {
        Self {
            dev,
            observer,
            read_only,
            stopped: AtomicBool::new(false),
            taken_over: AtomicBool::new(false),
            seen: AtomicU32::new(0),
            stored: AtomicU32::new(0),
            raw: Mutex::new(raw),
            storing: Unranked::new(()),
        }
    }
    /// Whether damage was seen during this mount.
    pub fn any_damage(&self) -> bool {
        self.seen.load(Ordering::Acquire) != 0
    }
    /// Whether the next checkpoint must store records.
    pub fn unstored(&self) -> bool {
        self.seen.load(Ordering::Acquire) != self.stored.load(Ordering::Acquire)
    }

    /// Returns the result unchanged; records damage in it.
    pub fn record_damage<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Corrupt(c)) = &result {
            self.note_damage(c);
        }
        result
    }

    /// Records damage that does not fail the call.
    pub fn note_damage(&self, damage: &Corrupt) {
        self.seen.fetch_or(1 << kind_of(damage) as u32, Ordering::AcqRel);
    }

    /// Stops the volume: from now on only the reason is written, and the last checkpoint stays in force.
    pub fn stop(&self, why: &Error) {
        let is_taken_over = why.is_taken_over();
        if is_taken_over && !self.is_stopped() {
            self.taken_over.store(true, Ordering::Release);
        }
        if self.stopped.swap(true, Ordering::AcqRel) || self.read_only {
            return;
        }
        if is_taken_over {
            // The records on the device belong to the other writer.
            return self.observer.notify(&Notice::TakenOver(why.to_string()));
        }
        self.observer.notify(&Notice::Stopped(why.to_string()));
        // Fails if the device has failed; the volume stops regardless.
        let _tried = self.store_records(Some(reason_of(why)));
    }

    /// Stops the volume after a violated invariant; see [`invariant`](crate::health::invariant).
    pub fn broken(&self, what: &'static str) -> Error {
        let why = Error::Invariant(what);
        self.stop(&why);
        why
    }

    /// Unwraps an option that must be `Some`; see [`invariant`](crate::health::invariant).
    pub fn present<T>(&self, found: Option<T>, what: &'static str) -> Result<T> {
        found.ok_or_else(|| self.broken(what))
    }

    /// Ends the volume, as it was unmounted or shut down on request. No reason is stored.
    pub fn end(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether the volume stopped after a failed write, or was unmounted.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub fn check_running(&self) -> Result<()> {
        match self.is_stopped() {
            true if self.taken_over.load(Ordering::Acquire) => Err(Error::TakenOver),
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    /// Rejects changes on a read-only or stopped volume. The first check of every change.
    pub fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly) } else { self.check_running() }
    }

    /// Stores records not stored yet.
    pub fn store_damage(&self) -> Result<()> {
        if self.unstored() { self.store_records(None) } else { Ok(()) }
    }

    fn store_records(&self, reason: Option<StopReason>) -> Result<()> {
        let seen = self.seen.load(Ordering::Acquire);
        self.store_superblock(|raw| {
            raw.note_damage(seen);
            if let Some(reason) = reason {
                raw.note_stop(reason);
            }
        })?;
        self.stored.store(seen, Ordering::Release);
        Ok(())
    }

    /// Sets or clears the guard mark, which reserves writing for implementations that know the journal.
    pub fn guard(&self, on: bool) -> Result<()> {
        if self.raw.lock().is_guarded() == on {
            return Ok(());
        }
        self.store_superblock(|raw| raw.set_guard(on))
    }

    /// The volume label.
    pub fn label(&self) -> String {
        self.raw.lock().label()
    }

    /// Sets the label. It is durable on return; a power cut meanwhile leaves the old or the new one.
    pub fn set_label(&self, label: &str) -> Result<()> {
        self.check_writable()?;
        let mut fits = *self.raw.lock();
        if !fits.set_label(label) {
            return Err(Error::Invalid("the label is longer than 512 UTF-16 units"));
        }
        self.store_superblock(|raw| _ = raw.set_label(label)).inspect_err(|e| self.stop(e))
    }

    fn store_superblock(&self, change: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let _storing = self.storing.lock();
        let raw = {
            let mut raw = self.raw.lock();
            change(&mut raw);
            raw.seal();
            *raw
        };
        store_copies(&self.dev, &raw)
    }
}

/// Checks a condition that must hold for any content of the device. On a violation the volume stops, the
/// reason is recorded in the superblock, and the caller gets [`Error::Invariant`]. In a function without a
/// result, `else` gives the code to run.
macro_rules! invariant {
    ($health:expr, $holds:expr, $what:literal) => {
        if !$holds {
            return Err($health.broken($what));
        }
    };
    ($health:expr, $holds:expr, $what:literal, else $otherwise:expr) => {
        if !$holds {
            // `broken` has stopped the volume and notified the observer; no caller takes a result.
            let _reported = $health.broken($what);
            $otherwise
        }
    };
}
pub(crate) use invariant;

/// Makes both copies of the superblock this one; one copy is valid at any time.
pub fn store_copies(dev: &Device, raw: &RawSuperblock) -> Result<()> {
    for (copy, block) in Superblocks::load(dev)?.update(raw) {
        dev.write_fua(copy, &[&block])?;
    }
    Ok(())
}

/// The F2FS error kind of a damaged structure.
fn kind_of(c: &Corrupt) -> DamageKind {
    match c.what {
        Structure::Cluster => DamageKind::Cluster,
        Structure::DentryBlock | Structure::InlineDentry => DamageKind::Dirent,
        Structure::Inode | Structure::Symlink | Structure::Quota => DamageKind::Inode,
        Structure::Summary => DamageKind::Summary,
        Structure::NodeFooter => DamageKind::Footer,
        Structure::NatJournal | Structure::SitJournal => DamageKind::Journal,
        Structure::SitBlock => DamageKind::Sit,
        Structure::Xattr | Structure::Acl => DamageKind::Xattr,
        Structure::DirectNode | Structure::IndirectNode => DamageKind::NodeReference,
        Structure::NatBlock => DamageKind::Nat,
        Structure::OrphanBlock => DamageKind::Orphan,
        Structure::Superblock | Structure::Checkpoint => DamageKind::Curseg,
        Structure::RollForward | Structure::Journal | Structure::Volume => DamageKind::BlockAddress,
    }
}

fn reason_of(why: &Error) -> StopReason {
    match why {
        Error::Io { op: Operation::Flush, .. } => StopReason::FlushFail,
        Error::Io { op: Operation::Read, .. } => StopReason::MetaPage,
        Error::Corrupt(c) if c.what == Structure::Summary => StopReason::CorruptedSummary,
        Error::Corrupt(_) => StopReason::MetaPage,
        Error::NoSpace => StopReason::NoSegment,
        Error::Invariant(_) => StopReason::UpdateInode,
        _ => StopReason::WriteFail,
    }
}

/// A health record for a small volume in memory.
#[cfg(test)]
pub fn test_health() -> Arc<Health> {
    use zerocopy::FromZeros;
    let dev = Device::new(Arc::new(segno_device::MemDevice::new(16)), crate::meta::test_geometry());
    Arc::new(Health::new(RawSuperblock::new_zeroed(), Arc::new(dev), Observer::default(), false))
}
