//! Helpers to format, mount and check volumes.
use segno_device::{BlockDevice, MemDevice};
use segno_engine::{MountOptions, Volume};
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, Ino};
use segno_mkfs::{Member, MkfsOptions};
use std::sync::Arc;

/// A freshly formatted volume of `mib` MiB in memory.
pub fn fresh(mib: u64, opts: &MkfsOptions) -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new(mib * 256));
    let member = Member { device: dev.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], opts).unwrap();
    dev
}

/// Mount options for tests: no background thread, so that a run is a function of its calls.
pub fn quiet() -> MountOptions {
    MountOptions { background: false, ..MountOptions::default() }
}

pub fn mount(dev: &Arc<MemDevice>) -> Arc<Volume> {
    Volume::mount(dev.clone(), quiet()).unwrap()
}

/// Sets the pin flag in every copy of the inode on the device; Linux's ioctl sets it in the newest.
pub fn unmount_and_pin(v: &Volume, dev: &dyn BlockDevice, ino: Ino) {
    let geo = v.superblock().geo;
    v.unmount().unwrap();
    for at in geo.main_blkaddr..geo.main_end() {
        let mut one = [Block::zeroed()];
        dev.read(at.into(), &mut one).unwrap();
        let raw: &mut RawInode = one[0].view_mut();
        if raw.footer.nid.get() == ino.0 && raw.footer.ino.get() == ino.0 {
            raw.i_inline |= Inline::PIN_FILE.bits();
            dev.write(at.into(), &[&one[0]]).unwrap();
        }
    }
}

/// Panics if the checker finds anything.
pub fn assert_clean(dev: &dyn BlockDevice) {
    assert_finds_only(dev, &[]);
}

/// Panics unless fsck.f2fs, an independent implementation, finds the volume clean.
pub fn assert_clean_to_f2fs_tools(dev: &dyn BlockDevice, context: &str) {
    segno_testkit::f2fs_tools::assert_device_clean(context, dev);
}

/// Panics if the checker finds anything of other kinds.
pub fn assert_finds_only(dev: &dyn BlockDevice, kinds: &[segno_check::Kind]) {
    let mut starts = 0;
    let mut count =
        |step: segno_check::Progress| starts += u32::from(step.pass == segno_check::Pass::Superblock);
    let report = segno_check::check(dev, &segno_check::CheckOptions::default(), &mut count).unwrap();
    assert!(starts == 1 || !report.is_clean(), "nothing is wrong, and that was not proven");
    let others = report.problems.iter().filter(|p| !kinds.contains(&p.kind));
    let found: Vec<String> = others.map(ToString::to_string).collect();
    assert!(found.is_empty(), "the checker found:\n{}", found.join("\n"));
}
