//! The journal of a mounted volume: appending groups and releasing space.
use crate::about::About;
use crate::area::Area;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::header::{HEADER, Header, PayloadKind};
use crate::ring::{GROUP_PAYLOAD, MAX_GROUP_BLOCKS, MIN_RING, MOST_BLOCKS, Ring, SUPERBLOCKS};
use crate::superblock::{Anchor, Checkpoint, CpIntent, JournalSuperblock, Tail};
use crate::vacant::Vacant;
use crate::zones::stamp;
use parking_lot::{Mutex, MutexGuard};
use segno_format::{BLOCK_SIZE, Block};
use std::collections::VecDeque;

/// Blocks reserved for announcements, so that a full journal can always be emptied by a checkpoint.
const FOR_INTENTS: u64 = 2;

/// Position of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Sequence number of the group. It is durable when a [`Journal::flush`] returns that began later.
    pub seq: u64,
    /// Bytes that it took.
    pub bytes: u64,
}

/// How full the journal is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the ring.
    pub size: u64,
    /// Bytes that replay would still need.
    pub used: u64,
    /// Bytes that groups may still take; less than `size - used`, as a checkpoint needs room.
    pub free: u64,
}

/// The journal of a mounted volume. Methods can be called from any thread.
#[derive(Debug)]
pub struct Journal {
    pub(crate) ring: Ring,
    /// Size at which a payload is cut into several groups.
    pub(crate) group_payload: usize,
    state: Mutex<State>,
}

/// A group in the ring that must not be overwritten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub seq: u64,
    pub index: u64,
    pub blocks: u64,
    pub prev_crc: u32,
    /// `None` for an announcement.
    pub last_epoch: Option<u64>,
}

#[derive(Debug)]
struct State {
    /// As last written.
    superblock: JournalSuperblock,
    /// Generation of the newest superblock known to be durable; the space before its tail is free.
    durable_generation: u64,
    head: Tail,
    live: VecDeque<Live>,
    used: u64,
    /// The blocks of the ring before this one have storage on the host.
    stored: u64,
    durable_seq: u64,
    /// The announced checkpoint, until it is in force.
    intent: Option<Anchor>,
    failed: bool,
}

impl Journal {
    /// The smallest area that holds one, in blocks.
    pub const LEAST_BLOCKS: u64 = SUPERBLOCKS + MIN_RING;

    /// The largest area that is used, in blocks.
    pub const MOST_BLOCKS: u64 = MOST_BLOCKS;

    /// Creates an empty journal. An existing journal of the volume is lost. `unique` is a random number.
    pub fn create(space: Vacant, cp: &Checkpoint, unique: [u8; 16]) -> Result<Self> {
        let area = space.area();
        let blocks = area.blocks();
        if blocks < Self::LEAST_BLOCKS {
            return Err(Error::TooSmall { blocks, least: Self::LEAST_BLOCKS });
        }
        let before = JournalSuperblock::read(&area).map_or(0, |s| s.generation);
        let cp_in_force = CpIntent { version: cp.version, crc: cp.crc, boundary: 0, canaries: Vec::new() };
        let superblock = JournalSuperblock {
            generation: before,
            volume: cp.volume,
            journal: unique,
            blocks: blocks - SUPERBLOCKS,
            clean: false,
            mount: 0,
            mount_seq: 1,
            tail: Tail { index: 0, seq: 1, prev_crc: 0 },
            anchor: Anchor { cp: cp_in_force, first_seq: 1 },
            last_epoch: 0,
        };
        Self::start(area, superblock, Tail { index: 0, seq: 1, prev_crc: 0 }, VecDeque::new())
    }

    /// Continues the log at `head` as a new mount of the journal. The superblock with the number of this
    /// mount is durable on return.
    pub(crate) fn start(
        area: Area,
        superblock: JournalSuperblock,
        head: Tail,
        live: VecDeque<Live>,
    ) -> Result<Self> {
        let ring = Ring { seed: superblock.seed(), blocks: superblock.blocks, area };
        let used = live.iter().map(|l| l.blocks).sum();
        let durable_generation = superblock.generation;
        let durable_seq = head.seq - 1;
        let mut superblock = superblock;
        superblock.mount = superblock.mount.saturating_add(1);
        superblock.mount_seq = head.seq;
        superblock.clean = false;
        let state = State {
            superblock,
            durable_generation,
            head,
            live,
            used,
            stored: ring.stored(head.index),
            durable_seq,
            intent: None,
            failed: false,
        };
        let journal = Self { ring, group_payload: GROUP_PAYLOAD, state: Mutex::new(state) };
        journal.write_superblock(&mut journal.state.lock())?;
        journal.flush()?;
        Ok(journal)
    }

    /// Writes a group. After a crash it is accepted if all of it and all groups before it are on the device,
    /// which [`Journal::flush`] ensures.
    pub fn append(&self, group: &Group) -> Result<Position> {
        let payloads = group.payloads(self.group_payload)?;
        self.write_groups(
            PayloadKind::Group(group.kind),
            (group.epoch, group.last_epoch()),
            &payloads,
            FOR_INTENTS,
        )
    }

    /// Announces a checkpoint: replay starts from it once its last block is durable. Every group of an epoch
    /// up to its boundary must have been appended. Flush before that last block is written.
    pub fn intend(&self, cp: CpIntent) -> Result<Position> {
        let boundary = cp.boundary;
        let mut anchor = Anchor { cp, first_seq: 0 };
        let mut state = self.lock()?;
        let behind = state.live.iter().find(|l| l.last_epoch.is_some_and(|e| e > boundary));
        anchor.first_seq = behind.map_or(state.head.seq, |l| l.seq);
        let mut payload = Vec::new();
        anchor.encode(&mut payload);
        while self.free(&state, 0) < 1 {
            state = self.make_room(state, 1, 0)?;
        }
        let position =
            self.write_one(&mut state, PayloadKind::CpIntent, false, (boundary, boundary), &payload)?;
        state.intent = Some(anchor);
        Ok(position)
    }

    /// Releases the space of groups that the announced checkpoint covers. The checkpoint must be durable.
    pub fn reclaim(&self) -> Result<()> {
        let mut state = self.lock()?;
        let Some(anchor) = state.intent.take() else { return Ok(()) };
        // A copy is never written while the other may be lost.
        while state.durable_generation != state.superblock.generation {
            drop(state);
            self.flush()?;
            state = self.lock()?;
        }
        let first = state.live.iter().find(|l| l.seq >= anchor.first_seq);
        state.superblock.tail =
            first.map_or(state.head, |l| Tail { index: l.index, seq: l.seq, prev_crc: l.prev_crc });
        state.superblock.last_epoch = state.superblock.last_epoch.max(anchor.cp.boundary);
        state.superblock.anchor = anchor;
        self.write_superblock(&mut state)
    }

    /// Makes everything durable that was appended before the call.
    pub fn flush(&self) -> Result<()> {
        let (seq, generation) = {
            let state = self.lock()?;
            (state.head.seq - 1, state.superblock.generation)
        };
        let done = self.ring.area.flush();
        let mut state = self.state.lock();
        if let Err(e) = done {
            // Writes that the failed flush should have covered may be lost for good.
            state.failed = true;
            return Err(e);
        }
        state.durable_seq = state.durable_seq.max(seq);
        if state.durable_generation < generation {
            state.durable_generation = generation;
            // A superblock is not written before the last one is durable, so this is the one in memory.
            let tail = state.superblock.tail.seq;
            while let Some(gone) = state.live.front().copied().filter(|l| l.seq < tail) {
                state.live.pop_front();
                state.used -= gone.blocks;
            }
        }
        Ok(())
    }

    /// Marks the journal clean at unmount. The last checkpoint was announced and is durable; if groups after
    /// its boundary remain, the journal stays in use. Nothing may be appended afterwards.
    pub fn close(&self) -> Result<()> {
        self.reclaim()?;
        self.flush()?;
        {
            let mut state = self.lock()?;
            let boundary = state.superblock.anchor.cp.boundary;
            if state.live.iter().any(|l| l.last_epoch.is_some_and(|e| e > boundary)) {
                return Ok(());
            }
            state.superblock.clean = true;
            state.superblock.tail = state.head;
            state.superblock.anchor.first_seq = state.head.seq;
            self.write_superblock(&mut state)?;
        }
        self.flush()
    }

    /// The block with which mounts of this journal begin their writes to a zone
    /// ([`Replay::stamp`](crate::Replay::stamp)).
    #[must_use]
    pub fn stamp(&self) -> Block {
        stamp(&self.state.lock().superblock.journal)
    }

    /// How full it is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let state = self.state.lock();
        let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
        let free = self.free(&state, FOR_INTENTS);
        Usage { size: bytes(self.ring.blocks), used: bytes(state.used), free: bytes(free) }
    }

    /// The lowest epoch that operations of this mount may have.
    #[must_use]
    pub fn next_epoch(&self) -> u64 {
        let state = self.state.lock();
        state.live.iter().filter_map(|l| l.last_epoch).fold(state.superblock.last_epoch, u64::max) + 1
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.failed { Err(Error::Failed) } else { Ok(state) }
    }

    fn free(&self, state: &State, reserved: u64) -> u64 {
        self.ring.blocks.saturating_sub(state.used + reserved)
    }

    /// Makes a superblock durable that releases space; `Full` if there is none.
    fn make_room<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        needed: u64,
        reserved: u64,
    ) -> Result<MutexGuard<'a, State>> {
        if state.durable_generation == state.superblock.generation {
            return Err(Error::Full { needed, free: self.free(&state, reserved) });
        }
        drop(state);
        self.flush()?;
        self.lock()
    }

    /// Writes payloads as consecutive groups. All but the last are marked as continued.
    fn write_groups(
        &self,
        kind: PayloadKind,
        epochs: (u64, u64),
        payloads: &[Vec<u8>],
        reserved: u64,
    ) -> Result<Position> {
        let needed: u64 = payloads.iter().map(|p| blocks_of(p)).sum();
        let most = self.ring.blocks.saturating_sub(reserved);
        if let Some(blocks) = payloads.iter().map(|p| blocks_of(p)).find(|&n| n > MAX_GROUP_BLOCKS) {
            return Err(Error::TooLarge { blocks, ring: MAX_GROUP_BLOCKS });
        }
        if needed > most {
            return Err(Error::TooLarge { blocks: needed, ring: most });
        }
        let mut state = self.lock()?;
        while self.free(&state, reserved) < needed {
            state = self.make_room(state, needed, reserved)?;
        }
        let mut last = Position { seq: 0, bytes: 0 };
        for (i, payload) in payloads.iter().enumerate() {
            let more = i + 1 < payloads.len();
            let position = self.write_one(&mut state, kind, more, epochs, payload)?;
            last = Position { seq: position.seq, bytes: last.bytes + position.bytes };
        }
        Ok(last)
    }

    fn write_one(
        &self,
        state: &mut State,
        kind: PayloadKind,
        more: bool,
        (epoch, last_epoch): (u64, u64),
        payload: &[u8],
    ) -> Result<Position> {
        let Tail { index, seq, prev_crc } = state.head;
        let (durable_seq, mount) = (state.durable_seq, state.superblock.mount);
        let mut header = Header {
            kind,
            more,
            seq,
            epoch,
            last_epoch,
            durable_seq,
            blocks: 0,
            payload_len: 0,
            mount,
            prev_crc,
            payload_crc: 0,
        };
        let (blocks, sum) = self.ring.compose(&mut header, payload);
        let count = blocks.len() as u64;
        self.store(state, index, count);
        if let Err(e) = self.ring.write(index, &blocks) {
            state.failed = true;
            return Err(e);
        }
        let last_epoch = (kind != PayloadKind::CpIntent).then_some(last_epoch);
        state.live.push_back(Live { seq, index, blocks: count, prev_crc, last_epoch });
        state.used += count;
        state.head = Tail { index: self.ring.after(index, count), seq: seq + 1, prev_crc: sum };
        Ok(Position { seq, bytes: count * BLOCK_SIZE as u64 })
    }

    /// Ensures that the next blocks of the ring have storage.
    fn store(&self, state: &mut State, index: u64, count: u64) {
        if state.stored < (index + count).min(self.ring.blocks) {
            state.stored = self.ring.store(state.stored.max(index), count);
        }
    }

    /// Writes the older copy. The other one is durable.
    fn write_superblock(&self, state: &mut State) -> Result<()> {
        state.superblock.generation += 1;
        let at = state.superblock.generation % SUPERBLOCKS;
        let block = state.superblock.encode();
        self.ring.area.write(at, &[&block]).inspect_err(|_| state.failed = true)
    }

    /// Erases the journal in `area` durably, and nothing after it. Changes that the volume's checkpoint lacks
    /// are lost. The superblocks are erased last, so that a journal remains after a power cut.
    pub fn discard(area: &Area) -> Result<()> {
        let blocks = About::read(area)?.blocks();
        area.clone().first(blocks).erase()
    }
}

fn blocks_of(payload: &[u8]) -> u64 {
    (HEADER + payload.len()).div_ceil(BLOCK_SIZE) as u64
}
