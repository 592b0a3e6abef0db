//! What F2FS notes in the superblock for whoever repairs the volume: why it stopped, and which kinds of damage were seen;
//! and the mark that it is not to be written without its journal.
//!
//! Damage is noted in memory where it is found, under whatever locks, and stored by the next checkpoint, which also asks
//! for a check. A volume that stops writes no checkpoint any more, so the reason is stored at once, and tried only once.
use super::Volume;
use super::mount::read_superblock;
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::meta::Device;
use crate::sync::Mutex as Unranked;
use crate::sync::atomic::{AtomicU32, Ordering};
use segno_device::BlockDevice;
use segno_format::record::{DamageKind, StopReason};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};
use segno_format::{Corrupt, Structure};
use std::sync::Arc;

/// See the module.
pub(crate) struct Records {
    /// Kinds of damage seen since mount, as bits, and those of them that are stored.
    seen: AtomicU32,
    stored: AtomicU32,
    /// The superblock as it was stored last.
    raw: Mutex<RawSuperblock, { rank::LEAF }>,
    /// Held while copies are stored: the later ones must not be overwritten with earlier ones.
    storing: Unranked<()>,
}

impl Records {
    pub fn new(raw: RawSuperblock) -> Self {
        Self {
            seen: AtomicU32::new(0),
            stored: AtomicU32::new(0),
            raw: Mutex::new(raw),
            storing: Unranked::new(()),
        }
    }
    /// Whether damage was seen in this mount.
    pub fn any_damage(&self) -> bool {
        self.seen.load(Ordering::Acquire) != 0
    }
    /// Whether a checkpoint has something to note.
    pub fn unstored(&self) -> bool {
        self.seen.load(Ordering::Acquire) != self.stored.load(Ordering::Acquire)
    }
}

impl Volume {
    /// Passes a result on; damage in it is noted.
    pub(crate) fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Corrupt(c)) = &result {
            self.records.seen.fetch_or(1 << kind_of(c) as u32, Ordering::AcqRel);
        }
        result
    }

    /// Nothing is written any more but the reason: the last checkpoint stays what it is.
    pub fn stop(&self, why: &Error) {
        if self.stopped.swap(true, Ordering::AcqRel) || self.opts.read_only {
            return;
        }
        // Where the device is dead this fails like everything else; the volume has stopped all the same.
        let _tried = self.store_records(Some(reason_of(why)));
    }

    /// Stores what was seen and is not stored yet.
    pub(crate) fn store_damage(&self) -> Result<()> {
        if self.records.unstored() { self.store_records(None) } else { Ok(()) }
    }

    fn store_records(&self, reason: Option<StopReason>) -> Result<()> {
        let seen = self.records.seen.load(Ordering::Acquire);
        self.store_superblock(|raw| {
            raw.note_damage(seen);
            if let Some(reason) = reason {
                raw.note_stop(reason);
            }
        })?;
        self.records.stored.store(seen, Ordering::Release);
        Ok(())
    }

    /// Marks the volume as one to be written only by whoever knows its journal, or takes the mark away.
    pub(crate) fn guard(&self, on: bool) -> Result<()> {
        if self.records.raw.lock().is_guarded() == on {
            return Ok(());
        }
        self.store_superblock(|raw| raw.set_guard(on))
    }

    /// The volume label.
    #[must_use]
    pub fn label(&self) -> String {
        self.records.raw.lock().label()
    }

    /// Changes the label. It is durable when this returns; a power cut meanwhile leaves the old one or the new one.
    pub fn set_label(&self, label: &str) -> Result<()> {
        self.check_writable()?;
        let mut fits = *self.records.raw.lock();
        if !fits.set_label(label) {
            return Err(Error::Invalid("the label is longer than 512 UTF-16 units"));
        }
        self.store_superblock(|raw| _ = raw.set_label(label)).inspect_err(|e| self.stop(e))
    }

    fn store_superblock(&self, change: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let _storing = self.records.storing.lock();
        let raw = {
            let mut raw = self.records.raw.lock();
            change(&mut raw);
            raw.seal();
            *raw
        };
        store_copies(&self.dev, &raw)
    }
}

/// Takes the mark of [`MountOptions::guard`](crate::MountOptions::guard) from a volume that is not mounted, and so gives up
/// what its journal holds. False if there is none.
pub fn unguard(dev: Arc<dyn BlockDevice>) -> Result<bool> {
    let mut sb = read_superblock(&*dev)?;
    if !sb.guarded {
        return Ok(false);
    }
    sb.raw.set_guard(false);
    sb.raw.seal();
    store_copies(&Device::new(dev, sb.geo), &sb.raw).map(|()| true)
}

/// The spare copy first: one good copy is there at any time.
fn store_copies(dev: &Device, raw: &RawSuperblock) -> Result<()> {
    let [first, spare] = SUPERBLOCK_COPIES;
    for copy in [spare, first] {
        let mut block = dev.read(copy)?;
        raw.store(&mut block.0);
        dev.write_fua(copy, &[&block])?;
    }
    Ok(())
}

/// The kind under which F2FS files a damaged structure.
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
        Error::Io { op: "flush", .. } => StopReason::FlushFail,
        Error::Io { op: "read", .. } => StopReason::MetaPage,
        Error::Corrupt(c) if c.what == Structure::Summary => StopReason::CorruptedSummary,
        Error::Corrupt(_) => StopReason::MetaPage,
        Error::NoSpace => StopReason::NoSegment,
        _ => StopReason::WriteFail,
    }
}
