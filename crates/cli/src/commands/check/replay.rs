//! Volumes that other commands show with their journal replayed.
use crate::external_journal::External;
use crate::path::cause;
use anyhow::Result;
use segno::{PendingReplay, inspect};
use segno_check::{CheckOptions, check};
use segno_device::{BlockDevice, Overlay};
use segno_format::superblock::Superblock;
use std::sync::Arc;

/// A volume with its journal replayed in memory; as it is if there is nothing to replay. On a damaged volume a replay
/// might overwrite blocks in use, so what the journal holds is left out.
pub fn with_journal(device: Arc<dyn BlockDevice>, journal: &External) -> Result<Arc<dyn BlockDevice>> {
    let is_supported = |sb: Superblock| sb.check_support().is_ok();
    if !inspect::superblock(&*device).is_ok_and(is_supported) {
        return Ok(device);
    }
    journal.verify(&device)?;
    match journal.checker(&device).pending_in_journal() {
        Ok(PendingReplay::Chain | PendingReplay::Journal) => {}
        Ok(PendingReplay::Ahead(why)) => {
            eprintln!("segno: note: what the journal has is left out: {why}");
            return Ok(device);
        }
        Ok(pending) => {
            pending.without_its_journal().iter().for_each(|why| eprintln!("segno: note: {why}"));
            return Ok(device);
        }
        Err(_) => return Ok(device),
    }
    let options = CheckOptions { max_problems: 0, ..CheckOptions::default() };
    if !check(&*device, &options, &mut |_| {}).is_ok_and(|report| report.is_clean()) {
        eprintln!("segno: note: the volume is damaged, so what its journal has is left out");
        return Ok(device);
    }
    let overlay = Arc::new(Overlay::new(device.clone()));
    match journal.in_memory().checker(&(overlay.clone() as Arc<dyn BlockDevice>)).replay() {
        Ok(()) => {
            eprintln!("segno: note: the journal was replayed in memory");
            Ok(overlay)
        }
        Err(e) => {
            eprintln!(
                "segno: note: what the journal has is left out, as it cannot be replayed: {}",
                cause(&e)
            );
            Ok(device)
        }
    }
}
