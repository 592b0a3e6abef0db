//! Locates the structures of a volume and their fields.
use super::edit::{Edit, Place, Value};
use super::fields::{self, Field};
use super::ring::Ring;
use segno_device::{BlockDevice, MemDevice};
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::inode::{InodeLayout, RawInode, seal_checksum};
use segno_format::nat::{RawNatEntry, RawNatJournal, nat_index};
use segno_format::node::{NodeKind, RawNode, kind_of_offset};
use segno_format::pack::{PackHead, in_force};
use segno_format::sit::{RawSitEntry, RawSitJournal};
use segno_format::summary::JOURNAL_BYTES;
use segno_format::superblock::{RawSuperblock, Superblock};
use segno_format::{Block, BlockAddr, Geometry, Nid, SegNo, bits::msb};
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::FromBytes;

const SIT_ENTRY: usize = size_of::<RawSitEntry>();
const NAT_ENTRY: usize = size_of::<RawNatEntry>();
/// Maximum number of chain nodes decoded.
const CHAIN_MAX: u32 = 64;

/// A decoded volume.
pub struct Layout {
    sb: Superblock,
    /// The pack in force.
    pack: BlockAddr,
    pack_blocks: u32,
    /// Block and byte of each structure.
    places: BTreeMap<Place, (BlockAddr, usize)>,
    /// Fields by group: a group is drawn first, so that rare structures are not lost among many others.
    pub groups: Vec<Vec<Field>>,
    /// Node ids in use.
    pub nids: Vec<u32>,
    pub dirs: Vec<u32>,
    ring: Option<Ring>,
}

struct Decoder<'a> {
    dev: &'a dyn BlockDevice,
    out: Layout,
}

fn read(dev: &dyn BlockDevice, addr: BlockAddr) -> Result<Block, String> {
    dev.block(addr).map_err(|e| e.to_string())
}

/// Decodes an undamaged volume, with its journal if it has one.
pub fn decode(dev: &dyn BlockDevice, journal: bool) -> Result<Layout, String> {
    let block = read(dev, BlockAddr(0))?;
    let raw = RawSuperblock::from_block(&block.0);
    let sb = raw.parse(0).map_err(|e| e.to_string())?;
    let geo = sb.geo;
    let head = |pack| PackHead::read(geo.pack_addr(pack), |at| read(dev, at));
    let heads = [head(0)?, head(1)?];
    let newer = in_force(&heads).ok_or("no checkpoint")?;
    let pack = geo.pack_addr(newer);
    let pack_blocks = heads.into_iter().nth(newer).and_then(Result::ok).ok_or("no checkpoint")?.total;
    let ring = Ring::behind(dev, raw.block_count.get()).filter(|_| journal);
    let out = Layout {
        sb,
        pack,
        pack_blocks,
        places: BTreeMap::new(),
        groups: Vec::new(),
        nids: Vec::new(),
        dirs: Vec::new(),
        ring,
    };
    let mut decoder = Decoder { dev, out };
    decoder.tables()?;
    decoder.nodes()?;
    decoder.chain()?;
    decoder.journal()?;
    let mut out = decoder.out;
    out.groups = fields::groups(dev, &out)?;
    Ok(out)
}

impl Decoder<'_> {
    fn read(&self, addr: BlockAddr) -> Result<Block, String> {
        read(self.dev, addr)
    }

    fn put(&mut self, place: Place, addr: BlockAddr, at: usize) {
        self.out.places.entry(place).or_insert((addr, at));
    }

    fn tables(&mut self) -> Result<(), String> {
        let (geo, pack, total) = (self.out.sb.geo, self.out.pack, self.out.pack_blocks);
        let block = self.read(pack)?;
        let cp: &RawCheckpoint = block.view();
        let flags = cp.flags();
        (0..2).for_each(|copy| self.put(Place::Super(copy), BlockAddr(copy), 1024));
        self.put(Place::Checkpoint, pack, 0);
        self.put(Place::CheckpointEnd(0), pack, 0);
        self.put(Place::CheckpointEnd(1), pack.offset(total - 1), 0);
        let sums = cp.cp_pack_start_sum.get();
        (1 + geo.cp_payload..sums).for_each(|i| self.put(Place::Orphans(i - 1), pack.offset(i), 0));
        let start = pack.offset(sums);
        let compact = flags.contains(CpFlags::COMPACT_SUM);
        let (nat_journal, sit_journal) = if compact {
            ((start, 0), (start, JOURNAL_BYTES))
        } else {
            ((start, 3584), (start.offset(2), 3584))
        };
        self.put(Place::NatJournal, nat_journal.0, nat_journal.1);
        self.put(Place::SitJournal, sit_journal.0, sit_journal.1);
        if flags.contains(CpFlags::UMOUNT) {
            for (i, seg) in cp.cur_node_segno.iter().take(3).enumerate() {
                self.put(Place::Summary(seg.get()), pack.offset(total - 4 + i as u32), 0);
            }
        }
        if !compact {
            for (i, seg) in cp.cur_data_segno.iter().take(3).enumerate() {
                self.put(Place::Summary(seg.get()), start.offset(i as u32), 0);
            }
        }
        self.journals(nat_journal, sit_journal)?;
        let place = bitmap_place(&geo, flags);
        let second = |at: usize, b: u32| msb::test(block.0.get(at..).unwrap_or_default(), b as usize);
        for seg in 0..geo.segment_count_main {
            let addr = geo.sit_addr(seg / 55, second(place.sit, seg / 55));
            self.put(Place::Sit(seg), addr, seg as usize % 55 * SIT_ENTRY);
            self.put(Place::Summary(seg), geo.ssa_addr(SegNo(seg)), 0);
        }
        // Ids are given out in ascending order: the first blocks have them all.
        for nid in 0..(2 * 455).min(geo.max_nid()) {
            let (b, i) = nat_index(Nid(nid));
            self.put(Place::Nat(nid), geo.nat_addr(b, second(place.nat, b)), i * NAT_ENTRY);
        }
        Ok(())
    }

    fn journals(&mut self, nat: (BlockAddr, usize), sit: (BlockAddr, usize)) -> Result<(), String> {
        let part = |block: &Block, at: usize| block.0.get(at..at + JOURNAL_BYTES).map(<[u8]>::to_vec);
        let bytes = part(&self.read(nat.0)?, nat.1).ok_or("no NAT journal")?;
        let journal = RawNatJournal::ref_from_bytes(&bytes).map_err(|e| e.to_string())?;
        for (i, e) in journal.entries.iter().take(journal.count.get().into()).enumerate() {
            self.put(Place::Nat(e.nid.get()), nat.0, nat.1 + 2 + i * (4 + NAT_ENTRY) + 4);
        }
        let bytes = part(&self.read(sit.0)?, sit.1).ok_or("no SIT journal")?;
        let journal = RawSitJournal::ref_from_bytes(&bytes).map_err(|e| e.to_string())?;
        for (i, e) in journal.entries.iter().take(journal.count.get().into()).enumerate() {
            self.put(Place::Sit(e.segno.get()), sit.0, sit.1 + 2 + i * (4 + SIT_ENTRY) + 4);
        }
        Ok(())
    }

    fn nodes(&mut self) -> Result<(), String> {
        for nid in 3..2 * 455 {
            let Some((addr, at)) = self.out.places.get(&Place::Nat(nid)).copied() else { break };
            let block = self.read(addr)?;
            let entry = block.0.get(at..).and_then(|b| RawNatEntry::read_from_prefix(b).ok());
            let Some((entry, _)) = entry.filter(|(e, _)| self.out.sb.geo.in_main(e.addr())) else { continue };
            self.put(Place::Node(nid), entry.addr(), 0);
            self.out.nids.push(nid);
            self.data_of(nid, &self.read(entry.addr())?)?;
        }
        Ok(())
    }

    /// Places of the first blocks that hang from an inode.
    fn data_of(&mut self, nid: u32, block: &Block) -> Result<(), String> {
        let footer = block.view::<RawNode>().footer;
        if kind_of_offset(footer.node_offset()) != Some(NodeKind::Inode) {
            return Ok(());
        }
        let inode = block.view::<RawInode>();
        let layout = inode.layout(self.out.sb.features).map_err(|e| e.to_string())?;
        if inode.is_dir() {
            self.out.dirs.push(nid);
        }
        if inode.inline().intersects(segno_format::inode::Inline::DATA | segno_format::inode::Inline::DENTRY)
        {
            return Ok(());
        }
        for i in 0..layout.slots.min(64) {
            let addr = inode.slot(&layout, i);
            if self.out.sb.geo.in_main(addr) {
                self.put(Place::Data(nid, i), addr, 0);
            }
        }
        Ok(())
    }

    fn journal(&mut self) -> Result<(), String> {
        if let Some(ring) = &self.out.ring {
            let places = ring.places(self.dev).map_err(|e| e.to_string())?;
            places.into_iter().for_each(|(place, addr)| self.put(place, BlockAddr(addr), 0));
        }
        Ok(())
    }

    fn chain(&mut self) -> Result<(), String> {
        let block = self.read(self.out.pack)?;
        let cp: &RawCheckpoint = block.view();
        let warm = 1;
        let seg = SegNo(cp.cur_node_segno.get(warm).map_or(0, |s| s.get()));
        let off = cp.cur_node_blkoff.get(warm).map_or(0, |o| o.get());
        let mut addr = self.out.sb.geo.seg_start(seg).offset(off.into());
        for i in 0..CHAIN_MAX {
            if !self.out.sb.geo.in_main(addr) {
                break;
            }
            let footer = self.read(addr)?.view::<RawNode>().footer;
            if footer.cp_ver.get() as u32 != cp.checkpoint_ver.get() as u32 {
                break;
            }
            self.put(Place::Chain(i), addr, 0);
            addr = BlockAddr(footer.next_blkaddr.get());
        }
        Ok(())
    }
}

impl Layout {
    pub fn geo(&self) -> &Geometry {
        &self.sb.geo
    }

    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.places.keys().copied()
    }

    /// The block of a structure, and where in it.
    pub fn block(&self, dev: &dyn BlockDevice, place: Place) -> Result<(Block, usize), String> {
        let (addr, at) =
            self.places.get(&place).copied().ok_or_else(|| format!("no {place} in this volume"))?;
        Ok((read(dev, addr)?, at))
    }

    pub fn inode_layout(&self, inode: &RawInode) -> Result<InodeLayout, String> {
        inode.layout(self.sb.features).map_err(|e| e.to_string())
    }

    /// Applies the edits, and repairs the checksums if requested.
    pub fn apply(&self, dev: &MemDevice, edits: &[Edit], seal: bool) -> Result<(), String> {
        for e in edits {
            let (addr, at) =
                self.places.get(&e.place).copied().ok_or_else(|| format!("no {} in this volume", e.place))?;
            let value = match e.value {
                Value::Raw(v) => v,
                Value::AddrOf(p) => {
                    self.places.get(&p).ok_or_else(|| format!("no {p} in this volume"))?.0.0.into()
                }
                Value::End => self.sb.geo.main_end().into(),
                Value::MaxNid => self.sb.geo.max_nid().into(),
            };
            let at = at + usize::from(e.offset);
            let mut ends = vec![addr];
            if e.place == Place::Checkpoint {
                ends.push(self.pack.offset(self.pack_blocks - 1));
            }
            for addr in ends {
                let mut block = read(dev, addr)?;
                let field = block
                    .0
                    .get_mut(at..at + usize::from(e.len))
                    .ok_or_else(|| format!("{e}: past the block"))?;
                field.iter_mut().zip(value.to_le_bytes()).for_each(|(b, v)| *b = v);
                dev.write(addr.0.into(), &[&block]).map_err(|e| e.to_string())?;
            }
        }
        if seal { self.seal(dev, edits) } else { Ok(()) }
    }

    /// Repairs the checksums of changed structures, and the stamp of the chain.
    fn seal(&self, dev: &MemDevice, edits: &[Edit]) -> Result<(), String> {
        let changed: BTreeSet<BlockAddr> =
            edits.iter().filter_map(|e| self.places.get(&e.place)).map(|p| p.0).collect();
        let put =
            |addr: BlockAddr, block: &Block| dev.write(addr.0.into(), &[block]).map_err(|e| e.to_string());
        for copy in [BlockAddr(0), BlockAddr(1)] {
            let mut block = read(dev, copy)?;
            let mut sb = RawSuperblock::from_block(&block.0);
            sb.seal();
            sb.store(&mut block.0);
            put(copy, &block)?;
        }
        for (&place, &(addr, _)) in &self.places {
            let is_node = matches!(place, Place::Node(_) | Place::Chain(_));
            if is_node && changed.contains(&addr) {
                let mut block = read(dev, addr)?;
                seal_checksum(&mut block, self.sb.features, self.sb.inode_checksum_seed());
                put(addr, &block)?;
            }
        }
        let ends = [self.pack, self.pack.offset(self.pack_blocks - 1)];
        if ends.iter().any(|e| changed.contains(e)) {
            self.seal_pack(dev, ends)?;
        }
        if let Some(ring) = &self.ring
            && edits.iter().any(|e| matches!(e.place, Place::Journal(_)))
        {
            ring.seal(dev).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn seal_pack(&self, dev: &MemDevice, ends: [BlockAddr; 2]) -> Result<(), String> {
        let mut stamp = 0;
        for addr in ends {
            let mut block = read(dev, addr)?;
            let offset = block.view::<RawCheckpoint>().checksum_offset.get();
            if offset > 4092 {
                return Ok(());
            }
            let crc = RawCheckpoint::seal(&mut block);
            let cp: &RawCheckpoint = block.view();
            let high = if cp.flags().contains(CpFlags::CRC_RECOVERY) { u64::from(crc) << 32 } else { 0 };
            stamp = cp.checkpoint_ver.get() | high;
            dev.write(addr.0.into(), &[&block]).map_err(|e| e.to_string())?;
        }
        for (_, &(addr, _)) in self.places.iter().filter(|(p, _)| matches!(p, Place::Chain(_))) {
            let mut block = read(dev, addr)?;
            block.view_mut::<RawNode>().footer.cp_ver.set(stamp);
            seal_checksum(&mut block, self.sb.features, self.sb.inode_checksum_seed());
            dev.write(addr.0.into(), &[&block]).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}
