//! The one way to storage.
use crate::aligned::Buffer;
use crate::exclusive_open::ExclusiveOpen;
use crate::host_storage::HostStorage;
use crate::reading::Reading;
use crate::zone::{self, Zone, ZoneLimits};
use auto_impl::auto_impl;
use std::sync::Arc;

/// A device of 4 KiB blocks, shared by threads. Addresses count blocks from its start.
///
/// A write is durable when a [`BlockDevice::flush`] that started after it returned has returned, or when it was made
/// with [`BlockDevice::write_fua`]. Until then a power cut may keep any subset of the writes, each in part.
///
/// Any access that is not wholly inside the device is refused with [`std::io::ErrorKind::InvalidInput`] and changes
/// nothing.
#[auto_impl(Arc, Box)]
pub trait BlockDevice: Send + Sync {
    /// Number of 4 KiB blocks.
    fn block_count(&self) -> u64;

    /// Reads consecutive blocks.
    fn read(&self, addr: u64, into: &mut [segno_format::Block]) -> std::io::Result<()>;

    /// Starts to read as many consecutive blocks as fit into the buffer, bypassing any cache. Devices that
    /// cannot read asynchronously read before this returns.
    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        Reading::at_once(into, |blocks| self.read(addr, blocks))
    }

    /// Writes consecutive blocks, gathered from the slices.
    fn write(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()>;

    /// Like [`BlockDevice::write`], for data that no caller waits for. If possible the data reaches the
    /// device before this returns, so that the next flush does not have to write it. Only that flush makes it
    /// durable.
    fn write_behind(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()> {
        self.write(addr, blocks)
    }

    /// Like [`BlockDevice::write`], durable on return; it does not cover earlier writes.
    fn write_fua(&self, addr: u64, blocks: &[&segno_format::Block]) -> std::io::Result<()> {
        self.write(addr, blocks)?;
        self.flush()
    }

    /// Makes every write that returned before this call durable.
    ///
    /// After an error those writes may be lost for good, even if a later flush succeeds.
    fn flush(&self) -> std::io::Result<()>;

    /// Returns when what a flush made durable no longer depends on a cache of this host.
    fn drain(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether a power cut keeps all writes up to one moment and none after it. Then no flush is needed
    /// between writes to order them.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Counters of the device's own, by name, for reports of the volume on it.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Discards blocks whose contents are no longer needed; reads of them may return anything afterwards.
    fn discard(&self, addr: u64, count: u64) -> std::io::Result<()>;

    /// Announces durable writes to unused blocks; they may read as zeros afterwards. An image file on a disk allocates
    /// storage for them now, so that later flushes do not have to commit allocations as well.
    fn prepare(&self, _addr: u64, _count: u64) -> std::io::Result<()> {
        Ok(())
    }

    /// Announces a read of these blocks, which may start now. A hint that cannot fail.
    fn prefetch(&self, _addr: u64, _count: u64) {}

    /// Host storage of the image files that hold this device; `None` without image files.
    fn host_storage(&self) -> std::io::Result<Option<HostStorage>> {
        Ok(None)
    }

    /// The first block from `addr` on that may hold anything but zeros: holes of an image file need not be read.
    fn next_data(&self, addr: u64) -> u64 {
        addr
    }

    /// The end of the blocks from `addr` on that are known to be equal, more than one where an image stores
    /// one block for many.
    fn repeats_until(&self, addr: u64) -> u64 {
        addr.saturating_add(1)
    }

    /// Whether the device consists of image files with all of their storage allocated, which is then kept.
    fn is_preallocated(&self) -> bool {
        let host = self.host_storage().ok().flatten();
        host.is_some_and(|host| host.allocated >= self.block_count())
    }

    /// Whether writes are refused.
    fn read_only(&self) -> bool;

    /// Ends the use by this process, where others wait for that: the device takes no more writes.
    fn close(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// The exclusive open, if this is a single block device.
    fn exclusive_open(&self) -> Option<Arc<ExclusiveOpen>> {
        None
    }

    /// The zones of a zoned device, ascending and without gaps; empty for any other device.
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

    /// Finishes the sequential zone that starts here: it accepts no more writes.
    fn finish_zone(&self, _start: u64) -> std::io::Result<()> {
        Err(zone::none())
    }
}
