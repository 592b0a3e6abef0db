//! The state of the device: the write pointer of every zone, and the location of its blocks.
use crate::ids::{Epoch, Seq};
use crate::log::commit::{Op, Run};
use crate::log::extents::{Extent, Extents};
use crate::wire::names::{MAP_BYTES_MAX, ObjectId};
use crate::wire::pieces::OBJECT_BLOCKS;
use std::collections::{BTreeMap, HashMap};

/// F2FS addresses 16 TiB, in zones of 16 MiB.
const ZONES_MAX: u32 = 1 << 20;
/// Bytes of a map for the header, and for a seal of each of a million epochs.
const MAP_ROOM: u64 = 16 << 20;
/// Bytes of an entry in each table of a map.
pub(crate) const ZONE_BYTES: u64 = 5;
pub(crate) const EXTENT_BYTES: u64 = 10;
pub(crate) const OBJECT_BYTES: u64 = 15;
pub(crate) const SEAL_BYTES: u64 = 12;

/// Sizes that never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of a zone.
    pub zone_blocks: u16,
    /// Number of zones.
    pub zones: u32,
    /// Number of conventional zones, which come first.
    pub conventional: u32,
}

impl Geometry {
    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        u64::from(self.zones) * u64::from(self.zone_blocks)
    }

    /// Reason why no volume can have these sizes.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.zone_blocks == 0 || self.conventional > self.zones {
            return Err("its zones have no blocks, or more are conventional than there are");
        }
        if self.zones > ZONES_MAX || self.blocks() > 1 << 32 {
            return Err("it has more than 2^32 blocks, or more than 2^20 zones");
        }
        Ok(())
    }

    /// Bytes of the largest map: each block is an extent, in a separate object.
    pub(crate) fn map_bytes_max(&self) -> u64 {
        let zone = ZONE_BYTES + u64::from(self.zone_blocks) * (EXTENT_BYTES + OBJECT_BYTES);
        (MAP_ROOM + u64::from(self.zones) * zone).min(MAP_BYTES_MAX)
    }

    /// Zone of a block, and its place there.
    pub(crate) fn place(&self, addr: u64) -> (u32, u16) {
        let size = u64::from(self.zone_blocks.max(1));
        ((addr / size) as u32, (addr % size) as u16)
    }

    pub(crate) fn start_of(&self, zone: u32) -> u64 {
        u64::from(zone) * u64::from(self.zone_blocks)
    }

    pub(crate) fn is_conventional(&self, zone: u32) -> bool {
        zone < self.conventional
    }

    /// The zone_ranges of a range, each in one zone: zone, first block in it, number of blocks.
    pub(crate) fn zone_ranges(self, addr: u64, count: u64) -> impl Iterator<Item = (u32, u16, u16)> {
        let end = addr.saturating_add(count).min(self.blocks());
        let mut at = addr;
        std::iter::from_fn(move || {
            let (zone, start) = self.place(at);
            let len = end.checked_sub(at).filter(|&n| n > 0)?.min((self.zone_blocks - start).into());
            at += len;
            Some((zone, start, len as u16))
        })
    }
}

/// One zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    pub extents: Extents,
    /// Blocks written, in a sequential zone.
    pub pointer: u16,
    pub finished: bool,
}

/// An object with blocks. A buffer collected for a commit is one too, and may end inside the commit's object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub id: ObjectId,
    /// Where its blocks begin in the stored object.
    pub base: u16,
    /// Blocks in the stored object; an upper bound for a data object.
    pub blocks: u16,
    /// Blocks that the zones refer to.
    pub live: u32,
}

/// The map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub geometry: Geometry,
    zones: Vec<Zone>,
    objects: Vec<Option<Object>>,
    free: Vec<u32>,
    /// Index of objects by identity, for those that begin at block 0.
    index: HashMap<ObjectId, u32>,
    /// The seal of each earlier epoch. Their objects are never deleted.
    pub seals: BTreeMap<Epoch, Seq>,
}

impl Map {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, zones: vec![Zone::default(); geometry.zones as usize], ..Self::default() }
    }

    pub(crate) fn zone(&self, zone: u32) -> Option<&Zone> {
        self.zones.get(zone as usize)
    }

    pub(crate) fn zone_mut(&mut self, zone: u32) -> Option<&mut Zone> {
        self.zones.get_mut(zone as usize)
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = (u32, &Zone)> {
        (0..).zip(&self.zones)
    }

    pub(crate) fn object(&self, index: u32) -> Option<&Object> {
        self.objects.get(index as usize)?.as_ref()
    }

    /// All objects that a zone refers to.
    pub(crate) fn named(&self) -> impl Iterator<Item = (u32, &Object)> {
        (0..).zip(&self.objects).filter_map(|(i, o)| o.as_ref().filter(|o| o.live > 0).map(|o| (i, o)))
    }

    /// Adds an object that is not stored yet.
    pub(crate) fn add(&mut self, id: ObjectId) -> u32 {
        let object = Some(Object { id, base: 0, blocks: OBJECT_BLOCKS, live: 0 });
        match self.free.pop() {
            Some(index) => {
                if let Some(slot) = self.objects.get_mut(index as usize) {
                    *slot = object;
                }
                index
            }
            None => {
                self.objects.push(object);
                self.objects.len() as u32 - 1
            }
        }
    }

    /// The index of a stored object.
    pub(crate) fn intern(&mut self, id: ObjectId, blocks: u16) -> u32 {
        if let Some(&index) = self.index.get(&id) {
            return index;
        }
        let index = self.add(id);
        self.place(index, id, 0, blocks);
        self.index.insert(id, index);
        index
    }

    /// Records that the blocks of a new object are stored in another one, from `base` on.
    pub(crate) fn place(&mut self, index: u32, id: ObjectId, base: u16, blocks: u16) {
        if let Some(Some(object)) = self.objects.get_mut(index as usize) {
            (object.id, object.base, object.blocks) = (id, base, blocks);
        }
    }

    /// Records that the blocks of some objects are stored in object `to`, each from its base on.
    pub(crate) fn move_into(&mut self, to: ObjectId, bases: &HashMap<ObjectId, u16>) {
        for object in self.objects.iter_mut().flatten() {
            if let Some(base) = bases.get(&object.id) {
                (object.id, object.base, object.blocks) = (to, object.base + base, OBJECT_BLOCKS);
            }
        }
    }

    /// Forgets objects without references, except those that `keep` still needs. No index to them may be
    /// left.
    pub(crate) fn forget_unused(&mut self, keep: impl Fn(u32) -> bool) {
        for (index, slot) in (0..).zip(&mut self.objects) {
            if let Some(object) = slot.filter(|o| o.live == 0 && !keep(index)) {
                *slot = None;
                self.free.push(index);
                if self.index.get(&object.id) == Some(&index) {
                    self.index.remove(&object.id);
                }
            }
        }
    }

    fn dropped(&mut self, gone: &[Extent]) {
        for extent in gone {
            if let Some(Some(object)) = self.objects.get_mut(extent.object as usize) {
                object.live = object.live.saturating_sub(extent.len.into());
            }
        }
    }

    /// Records that blocks of a zone are in an object from now on.
    pub(crate) fn put(&mut self, zone: u32, extent: Extent) {
        let Some(z) = self.zones.get_mut(zone as usize) else { return };
        let gone = z.extents.insert(extent);
        z.pointer = z.pointer.max(extent.end());
        if let Some(Some(object)) = self.objects.get_mut(extent.object as usize) {
            object.live = object.live.saturating_add(extent.len.into());
        }
        self.dropped(&gone);
    }

    pub(crate) fn reset(&mut self, zone: u32) {
        let end = self.geometry.zone_blocks;
        self.discard(zone, 0, end);
        if let Some(z) = self.zones.get_mut(zone as usize) {
            (z.pointer, z.finished) = (0, false);
        }
    }

    pub(crate) fn finish(&mut self, zone: u32) {
        let end = self.geometry.zone_blocks;
        if let Some(z) = self.zones.get_mut(zone as usize) {
            (z.pointer, z.finished) = (end, true);
        }
    }

    /// Blocks read as zeros from now on.
    pub(crate) fn discard(&mut self, zone: u32, start: u16, len: u16) {
        if let Some(z) = self.zones.get_mut(zone as usize) {
            let gone = z.extents.remove(start, start.saturating_add(len));
            self.dropped(&gone);
        }
    }

    /// Applies the changes of a commit with `inline` inline blocks in order. `false` if a change is
    /// impossible.
    pub(crate) fn apply(&mut self, ops: &[Op], inline: u16) -> bool {
        ops.iter().all(|op| {
            let (zone, start, len) = match *op {
                Op::Run(Run { zone, start, len, .. }) | Op::Discard { zone, start, len } => {
                    (zone, start, len)
                }
                Op::Reset(zone) | Op::Finish(zone) => (zone, 0, 0),
            };
            let end = u32::from(start) + u32::from(len);
            if zone >= self.geometry.zones || end > u32::from(self.geometry.zone_blocks) {
                return false;
            }
            match *op {
                Op::Run(run) => {
                    let blocks = match run.object {
                        ObjectId::Data { .. } => OBJECT_BLOCKS,
                        ObjectId::Log { .. } => inline,
                    };
                    let object = self.intern(run.object, blocks);
                    self.put(zone, Extent { start, len, object, offset: run.offset });
                }
                Op::Discard { .. } => self.discard(zone, start, len),
                Op::Reset(_) => self.reset(zone),
                Op::Finish(_) => self.finish(zone),
            }
            true
        })
    }
}
