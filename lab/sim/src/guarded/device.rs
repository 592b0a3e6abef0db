//! The volume of a case on a zoned device in memory, or on one without zones.
use super::draw::Case;
use super::write_observer::{Place, WriteObserver};
use segno_device::{BlockDevice, ZoneLimits};
use segno_engine::options::AllocMode;
use segno_engine::{MountOptions, Volume};
use segno_format::BLOCKS_PER_SEG;
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::{PauseDevice, ZoneCounts, ZoneShape, ZonedDevice};
use std::ops::Range;
use std::sync::Arc;

/// Upper bound of the sections for metadata.
const MOST_CONVENTIONAL: u32 = 24;
const CACHE: usize = 32 << 20;

/// A formatted device, and where its areas are.
pub(super) struct Device {
    pub zoned: Arc<ZonedDevice>,
    checkpoints: Range<u64>,
    main: u64,
}

impl Device {
    /// The device, and an observer of its writes.
    pub fn observed(&self, place: Place) -> (Arc<WriteObserver>, Arc<dyn BlockDevice>) {
        let observer = Arc::new(WriteObserver::new(self.checkpoints.clone(), self.main, place));
        let sees = observer.clone();
        let dev = PauseDevice::before_each(self.zoned.clone(), move |call| sees.see(call));
        (observer, Arc::new(dev))
    }
}

/// Sections of a volume, and the share that is kept from users.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Sections are zones; otherwise they are allocated as on a zoned device (`mode=lfs`).
    pub zoned: bool,
    pub sections: u32,
    pub segments_per_section: u32,
    pub overprovision_percent: f64,
    pub reserved: u32,
}

impl Geometry {
    /// A formatted device that enforces the rules of zones.
    pub fn zoned_device(&self) -> Result<Arc<ZonedDevice>, String> {
        self.device().map(|made| made.zoned)
    }

    /// From this one on, with one more section each kept from users.
    pub(super) fn with_more_reserved(self) -> impl Iterator<Item = Self> {
        (self.reserved..self.sections).map(move |reserved| Self { reserved, ..self })
    }

    /// How sections are allocated.
    pub(super) fn mode(&self) -> AllocMode {
        if self.zoned { MountOptions::default().mode } else { AllocMode::Lfs }
    }

    pub(super) fn device(&self) -> Result<Device, String> {
        let opts = MkfsOptions {
            zoned: self.zoned,
            segs_per_sec: self.segments_per_section,
            overprovision_percent: Some(self.overprovision_percent),
            reserved_sections: Some(self.reserved),
            uuid: Some([7; 16]),
            checkpoint_ver: Some(1_000_000),
            timestamp: Some(1),
            ..MkfsOptions::default()
        };
        let blocks = u64::from(self.segments_per_section * BLOCKS_PER_SEG);
        let mut why = String::new();
        for conventional in 2..MOST_CONVENTIONAL {
            let zones = conventional + self.sections;
            let shape = ZoneShape {
                zones,
                conventional: if self.zoned { conventional } else { zones },
                blocks,
                capacity: blocks,
                limits: ZoneLimits::default(),
            };
            let dev = Arc::new(ZonedDevice::new(shape));
            let device: Arc<dyn BlockDevice> = dev.clone();
            match format(&[Member { device, path: "memory".into(), zeroed: true }], &opts) {
                Ok(made) if u64::from(made.layout.geo.main_blkaddr) <= u64::from(conventional) * blocks => {
                    let main = made.layout.geo.main_blkaddr.into();
                    return Ok(Device {
                        zoned: dev,
                        checkpoints: made.layout.geo.cp_blkaddr.into()..made.layout.geo.sit_blkaddr.into(),
                        main,
                    });
                }
                Ok(_) => {}
                Err(e) => why = e.to_string(),
            }
        }
        Err(format!("no layout has {} sections: {why}", self.sections))
    }
}

/// A counter of a mounted volume.
pub(super) fn reported(volume: &Volume, name: &str) -> u64 {
    volume.report().iter().find(|(n, _)| *n == name).map_or(0, |&(_, n)| n)
}

/// Checks an unmounted volume. Returns what the device was given, and fails if anything broke a rule of zones.
pub fn judge(dev: &ZonedDevice) -> Result<ZoneCounts, String> {
    crate::setup::check(dev)?;
    match dev.counts() {
        counts @ ZoneCounts { violations: 0, .. } => Ok(counts),
        ZoneCounts { violations, .. } => Err(format!("{violations} violations of zone rules")),
    }
}

impl Case {
    pub(super) fn mount(&self, device: Arc<dyn BlockDevice>) -> Result<Arc<Volume>, String> {
        let opts = MountOptions {
            background: false,
            mode: self.geometry.mode(),
            gc_policy: Some(self.policy.to_owned()),
            lifetime: self.lifetime,
            cache_bytes: CACHE,
            ..MountOptions::default()
        };
        Volume::mount(device, opts).map_err(|e| format!("mount: {e}"))
    }
}
