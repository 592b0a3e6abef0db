//! Opening a journal after a mount or a crash: which of its groups are accepted.
use crate::area::Area;
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::group::{Accepted, Group};
use crate::header::{Header, PayloadKind};
use crate::journal::{Journal, Live};
use crate::payload::Payload;
use crate::record::{Mapping, Record, data_crc};
use crate::ring::{MAX_GROUP_BLOCKS, Ring, SUPERBLOCKS, Window};
use crate::superblock::{Anchor, Canary, Checkpoint, JournalSuperblock, Tail};
use crate::zones::{Zones, stamp};
use segno_device::{BlockDevice, Operation};
use segno_format::checkpoint::newer_pack;
use segno_format::{Block, BlockAddr};
use std::collections::{BTreeSet, VecDeque};

/// State of a journal relative to a volume.
#[derive(Debug)]
pub enum Opened {
    /// It follows the checkpoint in force; there may be groups to replay.
    Usable(Box<Replay>),
    /// It has no effect; [`Journal::create`] makes a new one in its place.
    Stale(Stale),
}

/// Why a journal has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The journal names the id of another volume.
    #[error("it belongs to another volume")]
    OtherVolume,
    /// The superblock records a larger area.
    #[error("its area is smaller than it was")]
    Truncated,
    /// Not an error: the volume was mounted without the journal after a clean unmount.
    #[error("it was empty, and the volume has been used without it since")]
    Unused,
    /// The first checkpoint since the volume was formatted is in force, and the journal follows neither that
    /// nor the next one: it is left from a previous volume with the same id.
    #[error("the volume was formatted again since, with the same id")]
    Reformatted,
    /// The chain of groups does not begin at the checkpoint in force.
    #[error("the volume was checkpointed without it ({}); {lost}", difference(*journal, *volume))]
    OtherCheckpoint {
        /// Version that the journal follows.
        journal: u64,
        /// Version in force.
        volume: u64,
        /// Changes that the volume lacks for good.
        lost: Lost,
    },
    /// No checkpoint of the volume is as new as the one that the journal follows: either that checkpoint is
    /// damaged, or the volume is an older copy.
    #[error(
        "the journal follows checkpoint {journal:#x}, with {records} records of {inodes} inodes, and the newest checkpoint that can be read \
         is {volume:#x}"
    )]
    AheadOfVolume {
        /// Version that the journal follows.
        journal: u64,
        /// Version in force.
        volume: u64,
        /// Records after the checkpoint.
        records: u64,
        /// Inodes that they change.
        inodes: u64,
    },
    /// The volume fell back to its older pack, whose groups were already overwritten.
    #[error(
        "the volume's newest checkpoint is unreadable, and what followed the one before is no longer in the journal"
    )]
    Reclaimed,
    /// A group that was durable is damaged, and groups follow it.
    #[error(
        "group {seq} of the journal, at its block {at}, is damaged, and changes that were durable are in it and behind it; the {kept} \
         records before it are whole"
    )]
    DamagedGroup {
        /// Its sequence number.
        seq: u64,
        /// Its first block, counted from the start of the journal.
        at: u64,
        /// Records before it that the volume lacks.
        kept: u64,
    },
    /// A block has changed that mounts with this journal leave unchanged.
    #[error("block {at} was written without it: the volume was mounted elsewhere since the crash; {lost}")]
    ForeignWrite {
        /// The block.
        at: BlockAddr,
        /// Changes that the volume lacks for good.
        lost: Lost,
    },
}

/// Committed changes that only a journal without effect contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{records} committed changes of {inodes} inodes, which only it had, are lost")]
pub struct Lost {
    /// Records of changes.
    pub records: u64,
    /// Inodes that they change.
    pub inodes: u64,
}

impl Stale {
    /// Whether it was in use when the last mount of the volume ended, so that its changes are lost.
    #[must_use]
    pub fn was_in_use(&self) -> bool {
        !matches!(self, Self::OtherVolume | Self::Truncated | Self::Unused | Self::Reformatted)
    }

    /// Changes that the volume lost because another implementation wrote to it, if any.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        match self {
            Self::OtherCheckpoint { lost, .. } | Self::ForeignWrite { lost, .. } => {
                Some(*lost).filter(|lost| lost.records > 0)
            }
            _ => None,
        }
    }

    /// Whether the journal proves that durable data is lost: a checkpoint of the volume, or a group. A new
    /// checkpoint would remove the evidence and reuse blocks that the lost data refers to.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::AheadOfVolume { .. } | Self::Reclaimed | Self::DamagedGroup { .. })
    }

    /// Advice for the user in case of damage.
    #[must_use]
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::DamagedGroup { .. } => {
                "A read-only mount shows the last checkpoint, `segno rescue` copies newer files that are still on the device; `segno \
                 journal replay --force` applies what is before the damage and gives up the rest"
            }
            _ => {
                "A read-only mount shows the older checkpoint, `segno rescue` copies newer files that are still on the device; `segno \
                 journal discard` then gives up the journal"
            }
        }
    }
}

/// A journal that follows the volume's checkpoint. Reading it changes nothing.
#[derive(Debug)]
pub struct Replay {
    ring: Ring,
    superblock: JournalSuperblock,
    anchor: Anchor,
    accepted: Vec<Accepted>,
    /// All groups from the tail on, which stay in the ring.
    live: VecDeque<Live>,
    head: Tail,
    /// Why the log ends where it does.
    end: &'static str,
}

/// Condition under which a log may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Only where a power cut can have left its end.
    Sound,
    /// Also at a damaged group.
    Damaged,
}

/// A group of the chain.
struct Found {
    live: Live,
    header: Header,
    sum: u32,
}

struct Scan {
    chain: Vec<Found>,
    intents: Vec<Anchor>,
    end: &'static str,
}

impl Journal {
    /// Reads the journal in `area` for the volume whose checkpoint in force is `cp` and whose blocks are
    /// `data`. Nothing is written.
    pub fn open(area: Area, cp: &Checkpoint, data: &dyn BlockDevice) -> Result<Opened> {
        Self::open_up_to(End::Sound, area, cp, data)
    }

    /// Discards a damaged group that was durable and all groups after it, so that the groups before it can be
    /// replayed.
    pub fn give_up_damage(area: Area, cp: &Checkpoint, data: &dyn BlockDevice) -> Result<()> {
        match Self::open_up_to(End::Damaged, area, cp, data)? {
            // The groups of a new mount begin in place of the damaged one.
            Opened::Usable(replay) => replay.into_journal().map(drop),
            Opened::Stale(_) => Ok(()),
        }
    }

    fn open_up_to(end: End, area: Area, cp: &Checkpoint, data: &dyn BlockDevice) -> Result<Opened> {
        let mut superblock = JournalSuperblock::read(&area)?;
        if superblock.volume != cp.volume {
            return Ok(Opened::Stale(Stale::OtherVolume));
        }
        if superblock.blocks > area.blocks().saturating_sub(SUPERBLOCKS) {
            return Ok(Opened::Stale(Stale::Truncated));
        }
        let ring = Ring { seed: superblock.seed(), blocks: superblock.blocks, area };
        if superblock.tail.index >= ring.blocks || ring.blocks < crate::ring::MIN_RING {
            return Err(Error::Absent { why: "its tail lies outside" });
        }
        let mut scan = scan(&ring, &superblock)?;
        let own = superblock.anchor.is(cp).then(|| superblock.anchor.clone());
        let Some(anchor) = scan.intents.iter().rev().find(|a| a.is(cp)).cloned().or(own) else {
            return Ok(Opened::Stale(without_anchor(&ring, &superblock, &scan, cp)));
        };
        if superblock.tail.seq > anchor.first_seq {
            return Ok(Opened::Stale(Stale::Reclaimed));
        }
        let zones = Zones::of(data)?;
        let lost = |scan: &Scan| held(&ring, scan, &anchor);
        if let Some(at) = foreign_write(&anchor.cp.canaries, &superblock.journal, &zones, data)? {
            return Ok(Opened::Stale(Stale::ForeignWrite { at, lost: lost(&scan) }));
        }
        if let (End::Sound, Some(at)) = (end, damaged(&ring, &superblock, &scan)?) {
            let (seq, kept) = (at.seq, lost(&scan).records);
            return Ok(Opened::Stale(Stale::DamagedGroup { seq, at: SUPERBLOCKS + at.index, kept }));
        }
        drop_unfinished(&mut scan);
        if let Some(at) = check_data(&ring, &mut scan, &anchor, &zones, data)? {
            return Ok(Opened::Stale(Stale::ForeignWrite { at, lost: lost(&scan) }));
        }
        superblock.mount = scan.chain.iter().map(|f| f.header.mount).fold(superblock.mount, u32::max);
        let accepted = accepted(&scan, &anchor);
        let head = behind(&ring, &superblock, &scan);
        let live = scan.chain.iter().map(|f| f.live).collect();
        let end = scan.end;
        Ok(Opened::Usable(Box::new(Replay { ring, superblock, anchor, accepted, live, head, end })))
    }

    /// Number of groups in the journal in `area` that the volume lacks; 0 for a journal without effect.
    pub fn changes(area: Area, cp: &Checkpoint, data: &dyn BlockDevice) -> Result<usize> {
        match Self::open(area, cp, data) {
            Ok(Opened::Usable(replay)) => Ok(replay.accepted().len()),
            Ok(Opened::Stale(_)) | Err(Error::Absent { .. } | Error::TooSmall { .. }) => Ok(0),
            Err(e) => Err(e),
        }
    }
}

/// How the checkpoint that a journal follows differs from that of the volume.
fn difference(journal: u64, volume: u64) -> String {
    if journal == volume {
        return format!("both have checkpoint {journal:#x}, with different checksums");
    }
    format!("its checkpoint {journal:#x}, the volume's {volume:#x}")
}

impl Replay {
    /// The accepted groups, in replay order.
    #[must_use]
    pub fn accepted(&self) -> &[Accepted] {
        &self.accepted
    }

    /// The checkpoint has all changes of epochs up to this one.
    #[must_use]
    pub fn boundary(&self) -> u64 {
        self.anchor.cp.boundary
    }

    /// Highest accepted epoch, at least the boundary: the boundary of the checkpoint that completes recovery.
    #[must_use]
    pub fn last_epoch(&self) -> u64 {
        self.accepted.iter().map(|a| a.last_epoch).fold(self.boundary(), u64::max)
    }

    /// Why the log ends where it does.
    #[must_use]
    pub fn end(&self) -> &'static str {
        self.end
    }

    /// `checkpoint_ver` of the checkpoint that it follows.
    #[must_use]
    pub fn checkpoint(&self) -> u64 {
        self.anchor.cp.version
    }

    /// Bytes of the ring, and bytes of it in use.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        let used: u64 = self.live.iter().map(|l| l.blocks).sum();
        let bytes = segno_format::BLOCK_SIZE as u64;
        (self.ring.blocks * bytes, used * bytes)
    }

    /// All accepted groups in replay order, without the sections that the checkpoint has.
    pub fn groups(&self) -> impl Iterator<Item = Result<Group>> + '_ {
        self.payloads().map(|payload| payload?.group())
    }

    /// Payloads of the accepted groups in replay order, to be read in place.
    pub fn payloads(&self) -> impl Iterator<Item = Result<Payload>> + '_ {
        let mut window = Window::default();
        self.accepted.iter().map(move |a| payload(&self.ring, &mut window, a, self.boundary()))
    }

    /// The block with which mounts of this journal begin their writes to a zone, before
    /// [`Replay::into_journal`] and after it.
    #[must_use]
    pub fn stamp(&self) -> Block {
        stamp(&self.superblock.journal)
    }

    /// Continues the journal for a new mount. Its groups stay until a checkpoint has been announced, is
    /// durable, and is [reclaimed](Journal::reclaim).
    pub fn into_journal(self) -> Result<Journal> {
        let mut superblock = self.superblock;
        superblock.last_epoch =
            self.accepted.iter().map(|a| a.last_epoch).fold(superblock.last_epoch, u64::max);
        Journal::start(self.ring.area, superblock, self.head, self.live)
    }
}

/// Why a journal has no anchor at the checkpoint in force.
fn without_anchor(ring: &Ring, superblock: &JournalSuperblock, scan: &Scan, cp: &Checkpoint) -> Stale {
    let (journal, volume) = (superblock.anchor.cp.version, cp.version);
    // One checkpoint after the first may be unreadable. Two would have replaced the first.
    if cp.is_first && journal.wrapping_sub(volume) > 1 {
        return Stale::Reformatted;
    }
    if newer_pack(Some(volume), Some(journal)) == Some(1) {
        let Lost { records, inodes } = held(ring, scan, &superblock.anchor);
        return Stale::AheadOfVolume { journal, volume, records, inodes };
    }
    if superblock.clean {
        return Stale::Unused;
    }
    Stale::OtherCheckpoint { journal, volume, lost: held(ring, scan, &superblock.anchor) }
}

/// Records after an anchor, and the inodes that they change, as far as the groups can be decoded.
fn held(ring: &Ring, scan: &Scan, anchor: &Anchor) -> Lost {
    let (mut window, mut inodes, mut records) = (Window::default(), BTreeSet::new(), 0);
    let decoded = accepted(scan, anchor).into_iter().map_while(|group| {
        payload(ring, &mut window, &group, anchor.cp.boundary).and_then(|p| p.group()).ok()
    });
    for section in decoded.flat_map(|group| group.sections) {
        inodes.insert(section.ino);
        records += section.records.len() as u64;
    }
    Lost { records, inodes: inodes.len() as u64 }
}

/// Follows the chain from the tail to its end.
fn scan(ring: &Ring, superblock: &JournalSuperblock) -> Result<Scan> {
    let mut window = Window::default();
    let (mut at, mut left) = (superblock.tail, ring.blocks);
    let mut out = Scan { chain: Vec::new(), intents: Vec::new(), end: "" };
    out.end = loop {
        if left == 0 {
            break "the ring is full";
        }
        let loaded = match ring.load(&mut window, at.index)? {
            Ok(loaded) => loaded,
            Err(why) => break why,
        };
        let h = loaded.header;
        if h.seq != at.seq || h.prev_crc != at.prev_crc || is_cut_off(&h, superblock) {
            break "a group of another time";
        }
        let blocks = u64::from(h.blocks);
        if blocks > left {
            break "a group over the tail";
        }
        left -= blocks;
        if h.kind == PayloadKind::CpIntent {
            let why = |why| Error::Corrupt { seq: h.seq, at: at.index, why };
            out.intents.push(Anchor::decode(&mut Bytes(loaded.payload())).map_err(why)?);
        }
        let last_epoch = (h.kind != PayloadKind::CpIntent).then_some(h.last_epoch);
        let live = Live { seq: h.seq, index: at.index, blocks, prev_crc: h.prev_crc, last_epoch };
        let sum = loaded.sum;
        out.chain.push(Found { live, header: h, sum });
        at = Tail { index: ring.after(at.index, blocks), seq: at.seq + 1, prev_crc: sum };
    };
    Ok(out)
}

/// Whether recovery did not accept a group: a later mount continues at its number.
fn is_cut_off(header: &Header, superblock: &JournalSuperblock) -> bool {
    header.seq >= superblock.mount_seq && header.mount < superblock.mount
}

/// The position after the chain.
fn behind(ring: &Ring, superblock: &JournalSuperblock, scan: &Scan) -> Tail {
    scan.chain.last().map_or(superblock.tail, |f| Tail {
        index: ring.after(f.live.index, f.live.blocks),
        seq: f.live.seq + 1,
        prev_crc: f.sum,
    })
}

/// The place where the chain ends, if a later group records that the group there was durable. A power cut
/// leaves no such group, as each one is written after the flush of the one before has returned. The later
/// group begins within the length of one group.
fn damaged(ring: &Ring, superblock: &JournalSuperblock, scan: &Scan) -> Result<Option<Tail>> {
    let end = behind(ring, superblock, scan);
    let (mut window, most) = (Window::default(), MAX_GROUP_BLOCKS.min(ring.blocks - 1));
    for n in 1..=most {
        let block = ring.read(&mut window, ring.after(end.index, n), 1)?;
        let header = block.first().and_then(|block| Header::decode(&block.0, ring.seed).ok());
        let knows = |h: &Header| h.seq > end.seq && h.durable_seq >= end.seq && !is_cut_off(h, superblock);
        if header.is_some_and(|(h, _)| knows(&h)) {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// The first canary that has changed, or the first zone that another implementation wrote to. A new journal
/// has no canaries yet.
fn foreign_write(
    canaries: &[Canary],
    journal: &[u8; 16],
    zones: &Zones,
    data: &dyn BlockDevice,
) -> Result<Option<BlockAddr>> {
    for canary in canaries {
        if !zones.is_kept(canary, data)? {
            return Ok(Some(canary.addr));
        }
    }
    if canaries.is_empty() { Ok(None) } else { zones.without_stamp(canaries, journal, data) }
}

/// Removes groups whose last part is missing from the end.
fn drop_unfinished(scan: &mut Scan) {
    while scan.chain.pop_if(|f| f.header.more).is_some() {
        scan.end = "an epoch without its last part";
    }
}

/// Cuts the chain at the first group that maps a block whose content is not on the volume. The content of
/// groups known to be durable is not read, as their data is durable too. Returns the first block of durable
/// data that a zone reset has lost.
fn check_data(
    ring: &Ring,
    scan: &mut Scan,
    anchor: &Anchor,
    zones: &Zones,
    data: &dyn BlockDevice,
) -> Result<Option<BlockAddr>> {
    let durable = scan.chain.iter().map(|f| f.header.durable_seq).max().unwrap_or(0);
    let mut window = Window::default();
    for a in accepted(scan, anchor).iter().filter(|a| a.seq > durable || !zones.is_empty()) {
        let payload = payload(ring, &mut window, a, anchor.cp.boundary)?;
        match arrival(&payload, a.seq <= durable, zones, data)? {
            Arrival::Complete => {}
            Arrival::Lost(at) => return Ok(Some(at)),
            Arrival::Incomplete => {
                scan.chain.retain(|f| f.live.seq < a.seq);
                scan.end = "data that did not arrive";
                drop_unfinished(scan);
                break;
            }
        }
    }
    Ok(None)
}

/// State of the data that a group names.
enum Arrival {
    Complete,
    /// The flush of the group and its data did not return.
    Incomplete,
    /// The data was durable, and the zone of this block was reset.
    Lost(BlockAddr),
}

fn arrival(payload: &Payload, durable: bool, zones: &Zones, data: &dyn BlockDevice) -> Result<Arrival> {
    for part in payload.sections() {
        for record in part?.records::<&[u8]>() {
            let (Record::Map(mapping) | Record::Packed(mapping)) = record? else { continue };
            // Without checksums the data was flushed before the group was written.
            match zones.missing(&mapping) {
                Some(at) if durable || mapping.crcs.is_empty() => return Ok(Arrival::Lost(at)),
                Some(_) => return Ok(Arrival::Incomplete),
                None if !durable && !has_arrived(&mapping, data)? => return Ok(Arrival::Incomplete),
                None => {}
            }
        }
    }
    Ok(Arrival::Complete)
}

fn has_arrived(mapping: &Mapping, data: &dyn BlockDevice) -> Result<bool> {
    let mut crcs = mapping.crcs.iter();
    let mut one = [Block::zeroed()];
    for run in &mapping.runs {
        for i in 0..run.count {
            let Some(&crc) = crcs.next() else { return Ok(true) };
            let at = u64::from(run.addr.offset(i).0);
            data.read(at, &mut one).map_err(Error::io(Operation::ReadData, at))?;
            if one.iter().any(|b| data_crc(b) != crc) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn accepted(scan: &Scan, anchor: &Anchor) -> Vec<Accepted> {
    let counts = |f: &&Found| f.live.seq >= anchor.first_seq && f.header.last_epoch > anchor.cp.boundary;
    let one = |f: &Found| {
        let Header { kind: PayloadKind::Group(kind), epoch, last_epoch, .. } = f.header else { return None };
        let bytes = f.live.blocks * segno_format::BLOCK_SIZE as u64;
        Some(Accepted { seq: f.live.seq, kind, epoch, last_epoch, bytes, index: f.live.index })
    };
    scan.chain.iter().filter(counts).filter_map(one).collect()
}

fn payload(ring: &Ring, window: &mut Window, which: &Accepted, boundary: u64) -> Result<Payload> {
    let loaded = ring.load(window, which.index)?.map_err(|why| which.corrupt(why))?;
    Payload::new(which, boundary, loaded)
}
