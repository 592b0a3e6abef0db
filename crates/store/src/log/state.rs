//! State of a writer: the map with all writes, the open group, and content that is not stored yet.
use crate::fence::epoch::Session;
use crate::ids::{Epoch, LogPlace, Overflow, Seq};
use crate::log::commit::{Op, Run};
use crate::log::extents::Extent;
use crate::log::map::{Geometry, Map};
use crate::log::map_record::encode_map;
use crate::wire::names::ObjectId;
use crate::wire::pieces::OBJECT_BLOCKS;
use bytes::Bytes;
use segno_format::{BLOCK_SIZE, Block};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;

/// Blocks that go into the commit's object instead: 256 KiB.
pub(crate) const INLINE_BLOCKS: usize = 64;
/// Maximum number of blocks in open buffers, half of those that may wait for the store.
const OPEN_BLOCKS: usize = 16 * 1024;
/// Maximum number of changes of a group: 24 MiB in its object, which has up to 64 MiB
/// (`names::LOG_BYTES_MAX`).
const CHANGES_MAX: usize = 1 << 20;
/// Key of the buffer for conventional zones; others have the number of their zone.
const CONVENTIONAL: u32 = u32::MAX;

/// A change of the open group. Objects are named by index, as their identity is only known when the group is
/// closed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Run { zone: u32, extent: Extent },
    Other(Op),
}

/// Content that is not stored yet.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Open(Vec<u8>),
    Closed(Arc<Vec<u8>>),
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Open(bytes) => bytes,
            Self::Closed(bytes) => bytes,
        }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.bytes().len() / BLOCK_SIZE
    }

    pub(crate) fn block(&self, offset: u16) -> Option<&[u8]> {
        let at = usize::from(offset) * BLOCK_SIZE;
        self.bytes().get(at..at + BLOCK_SIZE)
    }
}

/// A data object to be stored.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub index: u32,
    pub id: ObjectId,
    pub content: Arc<Vec<u8>>,
}

/// A closed group.
#[derive(Debug)]
pub(crate) struct Group {
    pub seq: Seq,
    pub ops: Vec<Op>,
    /// Inline content, in order, with the objects that it was collected in.
    pub inline: Vec<(u32, Arc<Vec<u8>>)>,
    pub uploads: Vec<Upload>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub map: Map,
    epoch: Epoch,
    /// Number of the open group.
    pub seq: Seq,
    next_data: u64,
    changes: Vec<Change>,
    /// Open buffers by zone.
    open: BTreeMap<u32, u32>,
    /// Content by index of its object.
    pub content: HashMap<u32, Content>,
    /// Objects of the group, whether they are still referred to or not.
    pub new_objects: Vec<ObjectId>,
    /// Objects in the store that maps may name, of this mount and, once they are listed, of earlier ones.
    pub stored: HashSet<ObjectId>,
}

impl State {
    pub(crate) fn new(map: Map, epoch: Epoch) -> Self {
        Self { map, epoch, seq: Seq::FIRST, next_data: 1, ..Self::default() }
    }

    fn geometry(&self) -> Geometry {
        self.map.geometry
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the open group has as many changes as an object of the log should have.
    pub(crate) fn is_long(&self) -> bool {
        self.changes.len() >= CHANGES_MAX
    }

    /// A new identity for a data object.
    pub(crate) fn data_id(&mut self) -> ObjectId {
        let number = self.next_data;
        self.next_data += 1;
        ObjectId::Data { epoch: self.epoch, number }
    }

    /// Collects blocks. Returns complete data objects, and the number of blocks that took no room.
    pub(crate) fn write(&mut self, addr: u64, blocks: &[&Block]) -> io::Result<(Vec<Upload>, usize)> {
        let (mut uploads, mut spared, mut rest) = (Vec::new(), 0, blocks);
        for (zone, start, len) in self.geometry().zone_ranges(addr, blocks.len() as u64) {
            let (now, later) = rest.split_at(usize::from(len).min(rest.len()));
            rest = later;
            if self.geometry().is_conventional(zone) {
                for (at, block) in (start..).zip(now) {
                    spared += usize::from(self.overwrite(zone, at, &block.0, &mut uploads));
                }
            } else {
                self.check_pointer(zone, start, len)?;
                now.iter().zip(start..).for_each(|(b, at)| self.append(zone, zone, at, &b.0, &mut uploads));
                if start + len == self.geometry().zone_blocks {
                    uploads.extend(self.close_buffer(zone));
                }
            }
        }
        if self.open_blocks() > OPEN_BLOCKS {
            uploads.extend(self.close_largest());
        }
        Ok((uploads, spared))
    }

    fn check_pointer(&self, zone: u32, start: u16, len: u16) -> io::Result<()> {
        let pointer = self.map.zone(zone).map_or(0, |z| z.pointer);
        if start == pointer && u32::from(start) + u32::from(len) <= self.geometry().zone_blocks.into() {
            return Ok(());
        }
        let at = self.geometry().start_of(zone);
        Err(io::Error::other(format!(
            "write of {len} blocks at block {start} of the zone at {at}: its pointer is {pointer}"
        )))
    }

    /// Writes a block of a conventional zone. `true` if it took no room: the block is in the buffer already,
    /// or is zero as before.
    fn overwrite(&mut self, zone: u32, at: u16, bytes: &[u8], uploads: &mut Vec<Upload>) -> bool {
        let found = self.map.zone(zone).and_then(|z| z.extents.within(at, at + 1).next());
        match found {
            None if bytes.iter().all(|&b| b == 0) => true,
            Some(e) if self.open.get(&CONVENTIONAL) == Some(&e.object) => {
                let place = usize::from(e.offset) * BLOCK_SIZE;
                let Some(Content::Open(content)) = self.content.get_mut(&e.object) else { return false };
                let into = content.get_mut(place..place + BLOCK_SIZE);
                into.map(|into| into.copy_from_slice(bytes)).is_some()
            }
            _ => {
                self.append(CONVENTIONAL, zone, at, bytes, uploads);
                false
            }
        }
    }

    /// Adds a block to a buffer.
    fn append(&mut self, buffer: u32, zone: u32, at: u16, bytes: &[u8], uploads: &mut Vec<Upload>) {
        let index = match self.open.get(&buffer) {
            Some(&index) => index,
            None => {
                let id = self.data_id();
                let index = self.map.add(id);
                self.open.insert(buffer, index);
                self.content.insert(index, Content::Open(Vec::new()));
                index
            }
        };
        let Some(Content::Open(content)) = self.content.get_mut(&index) else { return };
        let offset = (content.len() / BLOCK_SIZE) as u16;
        content.extend_from_slice(bytes);
        let extent = Extent { start: at, len: 1, object: index, offset };
        self.map.put(zone, extent);
        self.note_run(zone, extent);
        if offset + 1 >= OBJECT_BLOCKS {
            uploads.extend(self.close_buffer(buffer));
        }
    }

    /// Records the location of blocks, as a part of the previous record if possible.
    fn note_run(&mut self, zone: u32, new: Extent) {
        if let Some(Change::Run { zone: z, extent: last }) = self.changes.last_mut()
            && *z == zone
            && last.object == new.object
            && last.end() == new.start
            && last.offset + last.len == new.offset
        {
            last.len += new.len;
            return;
        }
        self.changes.push(Change::Run { zone, extent: new });
    }

    fn open_blocks(&self) -> usize {
        self.open.values().filter_map(|i| self.content.get(i)).map(Content::blocks).sum()
    }

    fn close_largest(&mut self) -> Option<Upload> {
        let size = |i: &u32| self.content.get(i).map_or(0, Content::blocks);
        let (&buffer, _) = self.open.iter().max_by_key(|(_, i)| size(i))?;
        self.close_buffer(buffer)
    }

    /// Ends a buffer, and returns its object to be stored.
    fn close_buffer(&mut self, buffer: u32) -> Option<Upload> {
        let index = self.open.remove(&buffer)?;
        let content = self.close_content(index)?;
        let id = self.map.object(index)?.id;
        self.new_objects.push(id);
        Some(Upload { index, id, content })
    }

    fn close_content(&mut self, index: u32) -> Option<Arc<Vec<u8>>> {
        let content = self.content.get_mut(&index)?;
        let bytes = match std::mem::replace(content, Content::Open(Vec::new())) {
            Content::Open(bytes) => Arc::new(bytes),
            Content::Closed(bytes) => bytes,
        };
        *content = Content::Closed(bytes.clone());
        Some(bytes)
    }

    pub(crate) fn reset(&mut self, zone: u32) -> Option<Upload> {
        let upload = self.close_buffer(zone);
        self.map.reset(zone);
        self.changes.push(Change::Other(Op::Reset(zone)));
        upload
    }

    pub(crate) fn finish(&mut self, zone: u32) -> Option<Upload> {
        let upload = self.close_buffer(zone);
        self.map.finish(zone);
        self.changes.push(Change::Other(Op::Finish(zone)));
        upload
    }

    /// Blocks of conventional zones read as zeros from now on, whole sequential zones are reset.
    pub(crate) fn discard(&mut self, addr: u64, count: u64) -> Vec<Upload> {
        let mut uploads = Vec::new();
        for (zone, start, len) in self.geometry().zone_ranges(addr, count) {
            let Some(z) = self.map.zone(zone) else { continue };
            let end = start.saturating_add(len);
            if self.geometry().is_conventional(zone) {
                if z.extents.within(start, end).next().is_some() {
                    self.map.discard(zone, start, len);
                    self.changes.push(Change::Other(Op::Discard { zone, start, len }));
                }
            } else if len == self.geometry().zone_blocks && (z.pointer > 0 || z.finished) {
                uploads.extend(self.reset(zone));
            }
        }
        uploads
    }

    /// Moves blocks that have not changed since they were read to another object.
    pub(crate) fn relocate(&mut self, zone: u32, from: Extent, object: u32, offset: u16) {
        let Some(z) = self.map.zone(zone) else { return };
        let still: Vec<Extent> = z
            .extents
            .within(from.start, from.end())
            .filter(|e| e.object == from.object && e.offset == from.offset + (e.start - from.start))
            .collect();
        for e in still {
            let moved = Extent { object, offset: offset + (e.start - from.start), ..e };
            // An empty zone has none of the blocks, so its pointer must not move.
            self.map.put(zone, moved);
            self.changes.push(Change::Run { zone, extent: moved });
        }
    }

    /// Closes the group. Blocks left in buffers go into data objects, or inline if they are few.
    pub(crate) fn close(&mut self) -> Result<Group, Overflow> {
        let next = self.seq.next()?;
        let mut uploads = Vec::new();
        while self.open_blocks() > INLINE_BLOCKS {
            uploads.extend(self.close_largest());
        }
        let seq = self.seq;
        let id = ObjectId::Log(LogPlace::new(self.epoch, seq));
        let total = self.open_blocks() as u16;
        let (mut base, mut inline) = (0, Vec::new());
        for index in std::mem::take(&mut self.open).into_values() {
            if let Some(bytes) = self.close_content(index) {
                self.map.place(index, id, base, total);
                base += (bytes.len() / BLOCK_SIZE) as u16;
                inline.push((index, bytes));
            }
        }
        let ops =
            std::mem::take(&mut self.changes).into_iter().filter_map(|change| self.op(change)).collect();
        self.stored.insert(id);
        self.stored.extend(self.new_objects.drain(..));
        self.seq = next;
        Ok(Group { seq, ops, inline, uploads })
    }

    /// Replaces commits by one object in the place of the first, and a data object with their inline blocks.
    pub(crate) fn merge(&mut self, data: Option<ObjectId>, first: ObjectId, bases: &HashMap<ObjectId, u16>) {
        for id in bases.keys().filter(|&&id| id != first) {
            self.stored.remove(id);
        }
        if let Some(data) = data {
            self.map.move_into(data, bases);
            self.stored.insert(data);
        }
    }

    /// The map of the last closed group, and the stored objects that it does not name.
    pub(crate) fn describe(&mut self, session: &Session) -> (Bytes, Vec<ObjectId>) {
        let content = &self.content;
        self.map.forget_unused(|index| content.contains_key(&index));
        let bytes = encode_map(&self.map, &session.volume, session.place(self.seq.previous()));
        let named: HashSet<ObjectId> = self.map.named().map(|(_, object)| object.id).collect();
        let mut unnamed: Vec<ObjectId> = self.stored.extract_if(|id| !named.contains(id)).collect();
        unnamed.sort_unstable();
        (bytes, unnamed)
    }

    fn op(&self, change: Change) -> Option<Op> {
        match change {
            Change::Other(op) => Some(op),
            Change::Run { zone, extent } => {
                let object = self.map.object(extent.object)?;
                let offset = object.base + extent.offset;
                Some(Op::Run(Run { zone, start: extent.start, len: extent.len, object: object.id, offset }))
            }
        }
    }
}
