//! Several devices that make up one volume, one after the other.
use crate::zone::{Zone, ZoneLimits};
use crate::{BlockDevice, Buffer, HostStorage, Reading, bounds};
use parking_lot::Mutex;
use segno_format::Block;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices joined end to end. Blocks of a member beyond its share of the volume are unused, unless the rest
/// of the first one was added.
pub struct MultiDevice {
    members: Box<[Member]>,
    /// Extents of the members, in order and without gaps.
    extents: Box<[Extent]>,
}

struct Member {
    device: Arc<dyn BlockDevice>,
    /// Set after a write, cleared by the flush that covers it.
    dirty: AtomicBool,
    /// Held while flushing: a caller that finds `dirty` cleared must wait for the flush that cleared it.
    flushing: Mutex<()>,
}

/// Consecutive blocks of a member.
struct Extent {
    /// First block in the volume, and one past the last.
    blocks: Range<u64>,
    member: usize,
    /// Its first block on the member.
    start: u64,
}

/// The range of an access that lies on one member.
struct MemberRange<'a> {
    member: &'a Member,
    /// Address on the member.
    addr: u64,
    /// Which blocks of the access.
    blocks: Range<usize>,
}

impl MultiDevice {
    /// Joins devices, each with the number of blocks it contributes.
    pub fn new(members: Vec<(Arc<dyn BlockDevice>, u64)>) -> io::Result<Self> {
        let mut end = 0u64;
        let (mut joined, mut extents) =
            (Vec::with_capacity(members.len()), Vec::with_capacity(members.len()));
        for (member, (device, share)) in members.into_iter().enumerate() {
            let blocks = end..end.checked_add(share).ok_or_else(too_large)?;
            if device.block_count() < share {
                let has = device.block_count();
                return Err(invalid(format!("device {member} has {has} blocks, the volume needs {share}")));
            }
            end = blocks.end;
            extents.push(Extent { blocks, member, start: 0 });
            joined.push(Member { device, dirty: AtomicBool::new(false), flushing: Mutex::new(()) });
        }
        Ok(Self { members: joined.into(), extents: extents.into() })
    }

    /// Joins the devices of a volume. Blocks of the first device beyond its share follow the last device:
    /// they are the place of a journal, which on a single device follows the volume. A first device with
    /// zones has no such place.
    pub fn of_volume(members: Vec<(Arc<dyn BlockDevice>, u64)>) -> io::Result<Self> {
        let mut joined = Self::new(members)?;
        let (Some(first), Some(extent)) = (joined.members.first(), joined.extents.first()) else {
            return Ok(joined);
        };
        let (start, end) = (extent.blocks.end, joined.block_count());
        let rest = first.device.block_count().saturating_sub(start);
        if rest > 0 && first.device.zones()?.is_empty() {
            let blocks = end..end.checked_add(rest).ok_or_else(too_large)?;
            joined.extents =
                joined.extents.into_iter().chain([Extent { blocks, member: 0, start }]).collect();
        }
        Ok(joined)
    }

    /// The extents from an address on, each with its member.
    fn from(&self, addr: u64) -> impl Iterator<Item = (&Extent, &Member)> {
        let first = self.extents.partition_point(|extent| extent.blocks.end <= addr);
        let extents = self.extents.get(first..).unwrap_or_default();
        extents.iter().filter_map(|extent| Some((extent, self.members.get(extent.member)?)))
    }

    /// The ranges of an access, in order. The access must be inside the device.
    fn member_ranges(&self, addr: u64, count: u64) -> impl Iterator<Item = MemberRange<'_>> {
        let end = addr.saturating_add(count);
        self.from(addr).map_while(move |(extent, member)| {
            let range = addr.max(extent.blocks.start)..end.min(extent.blocks.end);
            let from_access = |a: u64| a.saturating_sub(addr) as usize;
            (extent.blocks.start < end).then(|| MemberRange {
                member,
                addr: extent.on_member(range.start),
                blocks: from_access(range.start)..from_access(range.end),
            })
        })
    }

    /// Applies a zone command to the member at an address.
    fn on_member(&self, addr: u64, command: impl Fn(&Member, u64) -> io::Result<()>) -> io::Result<()> {
        bounds::check(self.block_count(), addr, 1)?;
        self.member_ranges(addr, 1)
            .try_for_each(|range| range.member.changed(command(range.member, range.addr)))
    }

    fn write_ranges(
        &self,
        addr: u64,
        blocks: &[&Block],
        write: impl Fn(&Member, u64, &[&Block]) -> io::Result<()>,
    ) -> io::Result<()> {
        bounds::check(self.block_count(), addr, blocks.len() as u64)?;
        bounds::check_writable(self.read_only())?;
        self.member_ranges(addr, blocks.len() as u64).try_for_each(|range| {
            write(range.member, range.addr, blocks.get(range.blocks).unwrap_or_default())
        })
    }
}

impl Extent {
    /// The address on the member of a block that is not before the extent.
    fn on_member(&self, addr: u64) -> u64 {
        addr.saturating_sub(self.blocks.start).saturating_add(self.start)
    }

    /// The address in the volume of a block of the member that is not before the extent.
    fn in_volume(&self, addr: u64) -> u64 {
        addr.saturating_sub(self.start).saturating_add(self.blocks.start)
    }
}

impl Member {
    /// Marks the member dirty even on failure: part of the data may have been written.
    fn changed(&self, done: io::Result<()>) -> io::Result<()> {
        self.dirty.store(true, Ordering::SeqCst);
        done
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.changed(self.device.write(addr, blocks))
    }

    fn write_behind(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.changed(self.device.write_behind(addr, blocks))
    }

    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.changed(self.device.prepare(addr, count))
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.changed(self.device.discard(addr, count))
    }

    fn flush(&self) -> io::Result<()> {
        let _others_wait = self.flushing.lock();
        if !self.dirty.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let done = self.device.flush();
        if done.is_err() {
            self.dirty.store(true, Ordering::SeqCst);
        }
        done
    }
}

impl BlockDevice for MultiDevice {
    fn block_count(&self) -> u64 {
        self.extents.last().map_or(0, |last| last.blocks.end)
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        bounds::check(self.block_count(), addr, into.len() as u64)?;
        self.member_ranges(addr, into.len() as u64).try_for_each(|range| {
            range.member.device.read(range.addr, into.get_mut(range.blocks).unwrap_or_default())
        })
    }

    /// A read that crosses members is synchronous.
    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        let count = into.blocks().len();
        match self.member_ranges(addr, count as u64).next().filter(|range| range.blocks.len() == count) {
            Some(range) => range.member.device.start_read(range.addr, into),
            None => Reading::at_once(into, |blocks| self.read(addr, blocks)),
        }
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write_ranges(addr, blocks, Member::write)
    }

    fn write_behind(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write_ranges(addr, blocks, Member::write_behind)
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write_ranges(addr, blocks, |member, addr, blocks| member.device.write_fua(addr, blocks))
    }

    /// Flushes every member written since its last flush, even after one of them failed.
    fn flush(&self) -> io::Result<()> {
        self.members.iter().map(Member::flush).fold(Ok(()), io::Result::and)
    }

    fn drain(&self) -> io::Result<()> {
        self.members.iter().map(|m| m.device.drain()).fold(Ok(()), io::Result::and)
    }

    /// Closes every member, even after one of them failed.
    fn close(&self) -> io::Result<()> {
        self.members.iter().map(|m| m.device.close()).fold(Ok(()), io::Result::and)
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        bounds::check(self.block_count(), addr, count)?;
        bounds::check_writable(self.read_only())?;
        self.member_ranges(addr, count)
            .try_for_each(|range| range.member.discard(range.addr, range.blocks.len() as u64))
    }

    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        bounds::check(self.block_count(), addr, count)?;
        bounds::check_writable(self.read_only())?;
        self.member_ranges(addr, count)
            .try_for_each(|range| range.member.prepare(range.addr, range.blocks.len() as u64))
    }

    fn prefetch(&self, addr: u64, count: u64) {
        if bounds::check(self.block_count(), addr, count).is_ok() {
            self.member_ranges(addr, count)
                .for_each(|range| range.member.device.prefetch(range.addr, range.blocks.len() as u64));
        }
    }

    fn host_storage(&self) -> io::Result<Option<HostStorage>> {
        let mut all: Option<HostStorage> = None;
        for member in &self.members {
            if let Some(one) = member.device.host_storage()? {
                all = Some(all.map_or(one, |all| all.and(one)));
            }
        }
        Ok(all)
    }

    fn next_data(&self, addr: u64) -> u64 {
        let found = self.from(addr).find_map(|(extent, member)| {
            let from = extent.on_member(addr.max(extent.blocks.start));
            Some(extent.in_volume(member.device.next_data(from))).filter(|&found| found < extent.blocks.end)
        });
        found.unwrap_or(self.block_count().max(addr))
    }

    fn repeats_until(&self, addr: u64) -> u64 {
        let end = self.from(addr).next().map(|(extent, member)| {
            extent.in_volume(member.device.repeats_until(extent.on_member(addr))).min(extent.blocks.end)
        });
        end.unwrap_or(addr.saturating_add(1))
    }

    fn read_only(&self) -> bool {
        self.members.iter().any(|m| m.device.read_only())
    }

    /// The zones of all members inside their shares.
    fn zones(&self) -> io::Result<Vec<Zone>> {
        let mut all = Vec::new();
        for (extent, member) in self.from(0) {
            let inside = member.device.zones()?.into_iter().filter(|z| {
                z.start >= extent.start
                    && extent.in_volume(z.start.saturating_add(z.blocks)) <= extent.blocks.end
            });
            all.extend(inside.map(|z| Zone {
                start: extent.in_volume(z.start),
                pointer: extent.in_volume(z.pointer),
                ..z
            }));
        }
        Ok(all)
    }

    /// The lowest limits of all members.
    fn zone_limits(&self) -> ZoneLimits {
        let least = |of: fn(ZoneLimits) -> u32| {
            self.members.iter().map(|m| of(m.device.zone_limits())).filter(|&n| n > 0).min().unwrap_or(0)
        };
        ZoneLimits { open: least(|l| l.open), active: least(|l| l.active) }
    }

    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.on_member(start, |m, at| m.device.reset_zone(at))
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.on_member(start, |m, at| m.device.finish_zone(at))
    }
}

fn too_large() -> io::Error {
    invalid("the volume is too large".into())
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
