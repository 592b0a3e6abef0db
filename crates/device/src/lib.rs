//! Everything reaches storage through [`BlockDevice`]: image files, block devices, memory, several of them joined, and
//! the wrappers that record, cut, fail and count.
#![deny(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod aio;
mod aligned;
mod around;
mod bounds;
mod claim;
mod count;
mod crash;
mod error;
mod fault;
mod file;
mod host_zones;
mod ioctl;
mod memory;
mod model;
mod multi;
mod probe;
mod reading;
mod record;
mod rng;
mod start;
#[cfg(test)]
mod test_blocks;
mod volume;
mod wait;
mod zone;
mod zoned;

pub use claim::Claim;
pub use count::{CountDevice, Counts};
pub use crash::{CrashChoice, CrashLog, CrashPlan, CrashState, CrashStates, Kept};
pub use error::DeviceError;
pub use fault::{Fault, FaultCall, FaultDevice, FaultError};
pub use file::{FileDevice, OpenOptions};
pub use memory::{MemDevice, Snapshot};
pub use model::{ModelDevice, Speed};
pub use multi::MultiDevice;
pub use probe::{Probe, StorageKind, probe};
pub use reading::{Buffer, Reading};
pub use record::{Event, RecordDevice};
pub use volume::open_volume;
pub use wait::before_waits;
pub use zone::{Zone, ZoneCondition, ZoneKind, ZoneLimits};
pub use zoned::{ZoneCounts, ZoneShape, ZonedDevice};

use std::sync::Arc;

/// A device of 4 KiB blocks, shared by threads. Addresses count blocks from its start.
///
/// A write is durable when a [`BlockDevice::flush`] that started after it returned has returned, or when it was made
/// with [`BlockDevice::write_fua`]. Until then a power cut may keep any subset of the writes, each in part.
///
/// Any access that is not wholly inside the device is refused with [`std::io::ErrorKind::InvalidInput`] and changes
/// nothing.
pub trait BlockDevice: Send + Sync {
    /// Number of 4 KiB blocks.
    fn block_count(&self) -> u64;

    /// Reads consecutive blocks.
    fn read(&self, addr: u64, into: &mut [segno_format::Block]) -> std::io::Result<()>;

    /// Begins to read as many consecutive blocks as there is room for, past any cache. Where that cannot be had they are read
    /// before this returns.
    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        Reading::at_once(into, |blocks| self.read(addr, blocks))
    }

    /// Writes consecutive blocks, gathered from wherever they are.
    fn write(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()>;

    /// Like [`BlockDevice::write`], for what nobody waits for: it reaches the device before this returns, if that can be had, so
    /// that the next flush, which somebody waits for, has nothing of it left to write. Durable it is no sooner.
    fn write_behind(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()> {
        self.write(addr, blocks)
    }

    /// Like [`BlockDevice::write`], durable on return; it does not cover earlier writes.
    fn write_fua(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()>;

    /// Makes every write that returned before this call durable.
    ///
    /// After an error those writes may be lost for good, even if a later flush succeeds.
    fn flush(&self) -> std::io::Result<()>;

    /// Tells the device that blocks hold nothing of value; they may read as anything afterwards.
    fn discard(&self, addr: u64, count: u64) -> std::io::Result<()>;

    /// Announces durable writes to blocks that hold nothing of value; they may read as zeros afterwards. An image file
    /// gets its storage now and not at each flush, which then need not commit the allocation as well.
    fn prepare(&self, _addr: u64, _count: u64) -> std::io::Result<()> {
        Ok(())
    }

    /// Announces a read of these blocks, which may start now. Only a hint: it cannot fail.
    fn prefetch(&self, _addr: u64, _count: u64) {}

    /// Whether writes are refused.
    fn read_only(&self) -> bool;

    /// The claim that keeps others off, if this is one block device.
    fn claim(&self) -> Option<Arc<Claim>> {
        None
    }

    /// The zones of a zoned device, ascending and without gaps; none of any other device.
    fn zones(&self) -> std::io::Result<Vec<Zone>> {
        Ok(Vec::new())
    }

    /// How many zones may be in use at a time.
    fn zone_limits(&self) -> ZoneLimits {
        ZoneLimits::default()
    }

    /// Empties the sequential zone that starts here.
    fn reset_zone(&self, _start: u64) -> std::io::Result<()> {
        Err(zone::none())
    }

    /// Takes no more writes to the sequential zone that starts here.
    fn finish_zone(&self, _start: u64) -> std::io::Result<()> {
        Err(zone::none())
    }
}

macro_rules! forward_to_pointee {
    ($($pointer:ident),*) => {$(
        impl<T: BlockDevice + ?Sized> BlockDevice for $pointer<T> {
            fn block_count(&self) -> u64 {
                (**self).block_count()
            }
            fn read(&self, addr: u64, into: &mut [segno_format::Block]) -> std::io::Result<()> {
                (**self).read(addr, into)
            }
            fn start_read(&self, addr: u64, into: Buffer) -> Reading {
                (**self).start_read(addr, into)
            }
            fn write(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()> {
                (**self).write(addr, blocks)
            }
            fn write_behind(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()> {
                (**self).write_behind(addr, blocks)
            }
            fn write_fua(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()> {
                (**self).write_fua(addr, blocks)
            }
            fn flush(&self) -> std::io::Result<()> {
                (**self).flush()
            }
            fn discard(&self, addr: u64, count: u64) -> std::io::Result<()> {
                (**self).discard(addr, count)
            }
            fn prepare(&self, addr: u64, count: u64) -> std::io::Result<()> {
                (**self).prepare(addr, count)
            }
            fn prefetch(&self, addr: u64, count: u64) {
                (**self).prefetch(addr, count);
            }
            fn read_only(&self) -> bool {
                (**self).read_only()
            }
            fn claim(&self) -> Option<Arc<Claim>> {
                (**self).claim()
            }
            fn zones(&self) -> std::io::Result<Vec<Zone>> {
                (**self).zones()
            }
            fn zone_limits(&self) -> ZoneLimits {
                (**self).zone_limits()
            }
            fn reset_zone(&self, start: u64) -> std::io::Result<()> {
                (**self).reset_zone(start)
            }
            fn finish_zone(&self, start: u64) -> std::io::Result<()> {
                (**self).finish_zone(start)
            }
        }
    )*};
}
forward_to_pointee!(Arc, Box);
