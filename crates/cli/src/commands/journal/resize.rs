//! `segno journal resize`.
use super::found::{Found, blocks_of, remake};
use super::{ResizeArgs, room};
use crate::document::Schema;
use crate::out;
use anyhow::{Result, bail};
use segno_format::{BLOCK_SIZE, size};
use serde_json::json;

pub fn run(args: &ResizeArgs) -> Result<()> {
    let of = &args.target.of;
    let found = Found::open(of, false)?;
    let blocks = blocks_of(args.size)?;
    let found = room::make(found, of, blocks, |found| refuse(found, args, blocks))?;
    let (bytes, place) = (blocks * BLOCK_SIZE as u64, found.describe());
    remake(&found.area, blocks, &found.checkpoint)?;
    let shortened = room::shorten(found, of, blocks)?;
    let words = format!("an empty journal of {} is {place}", size::human(bytes));
    let document = json!({ "bytes": bytes, "shortened": shortened });
    Ok(out::report(args.target.json, Schema("segno.journal-resize", 1), &document, words)?)
}

/// Refuses a journal with changes to replay, and one that is followed by other data.
fn refuse(found: &Found, args: &ResizeArgs, blocks: u64) -> Result<()> {
    let about = found.unneeded(&args.target.of.image)?;
    if let Some(byte) = found.other_data(&about, blocks)? {
        bail!("there is other data behind the journal, first at byte {byte}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno::inspect;
    use segno_device::{BlockDevice, MemDevice};
    use segno_engine::options::JournalMode;
    use segno_engine::{MountOptions, Owner, Volume};
    use segno_format::Ino;
    use segno_journal::Area;
    use segno_mkfs::{Member, MkfsOptions, format};
    use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;

    fn options() -> MountOptions {
        MountOptions { journal: JournalMode::Auto, background: false, ..MountOptions::default() }
    }

    /// Between any two writes, and inside one: with the old journal, the new one or none the volume mounts, and has its file.
    #[test]
    fn a_cut_leaves_a_volume_that_mounts() {
        for blocks in [1024, 3000] {
            let device = Arc::new(MemDevice::new(80 * MIB / BLOCK_SIZE as u64));
            let member = Member { device: device.clone(), path: String::new(), zeroed: true };
            let mkfs = MkfsOptions { blocks: Some(64 * MIB / BLOCK_SIZE as u64), ..MkfsOptions::default() };
            format(&[member], &mkfs).unwrap();
            let volume =
                Volume::mount(device.clone(), MountOptions { journal: JournalMode::On, ..options() })
                    .unwrap();
            volume.mknod(Ino::ROOT, b"kept", 0o100_644, (0, 0), Owner::default()).unwrap();
            volume.sync().unwrap();
            volume.unmount().unwrap();
            let base = device.snapshot();
            let recorded = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
            let sb = inspect::superblock(&*recorded).unwrap();
            let checkpoint = inspect::checkpoint(&*recorded, &sb).unwrap().journaled(&sb);
            let area = Area::tail(recorded.clone(), sb.geo.block_count).unwrap();
            remake(&area, blocks, &checkpoint).unwrap();
            let log = CrashLog::new(base, recorded.log()).unwrap();
            let (mut states, mut journals) = (0, [0; 2]);
            for state in CrashStates::new(&log, CrashPlan { subsets: 16, ..CrashPlan::new(1) }, |_, _| false)
            {
                let device: Arc<dyn BlockDevice> = Arc::new(state.device);
                let found =
                    segno_journal::About::read(&Area::tail(device.clone(), sb.geo.block_count).unwrap());
                journals[usize::from(found.is_ok())] += 1;
                let volume =
                    Volume::mount(device, options()).unwrap_or_else(|e| panic!("{:?}: {e}", state.choice));
                assert!(volume.lookup(Ino::ROOT, b"kept").is_ok(), "{:?}", state.choice);
                volume.unmount().unwrap();
                states += 1;
            }
            println!("{blocks} blocks: {states} states, without and with a journal: {journals:?}");
            assert!(states > 10 && journals.iter().all(|&n| n > 0), "{states} {journals:?}");
        }
    }
}
