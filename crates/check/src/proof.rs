//! Whether anything is wrong at all, in little memory and little more than one read of the inodes.
//!
//! What the tables, the summaries, the inodes and the directories say about each other is added up in a [`Ledger`] instead of being
//! kept. If all of it agrees, nothing is wrong. If not, or if anything cannot be read, the check begins again
//! and looks at one thing after the other.
use crate::bitmap::Bitmap;
use crate::ledger::{Item, Ledger};
use crate::nat::{self, PagedNat};
use crate::report::{Report, Sink};
use crate::ssa::{AHEAD, Ssa};
use crate::volume::Tables;
use crate::{CheckError, CheckOptions, Pass, Progress, curseg, nat_bits, quota, roll_forward, totals, walk};
use segno_device::BlockDevice;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{RawNatEntry, nat_index};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Nid};
use std::collections::HashMap;

/// The report on a volume without errors; `None` if there may be some.
pub(crate) fn run(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Report>, CheckError> {
    let mut sink = Sink::new(opts);
    let Some(tables) = Tables::load(device, &mut sink, progress)? else { return Ok(None) };
    progress(Progress::start(Pass::Nat));
    let (nat, mut ledger) = (PagedNat::new(&tables, &mut sink), Ledger::new(tables.geo.has_ssa));
    // Twice what is read at once, so that neighbours are found to follow each other.
    let mut ssa = Ssa::new(&tables, 2 * AHEAD);
    let Some(census) = Census::take(&tables, &nat, &ssa, &mut ledger)? else { return Ok(None) };
    nat_bits::check(&tables.reader, &tables.geo, &tables.pack, &census.stored_in_use, &mut sink)?;
    curseg::check(&tables, &mut sink);
    nat::check_virtual(&nat, &mut sink);
    let roll_forward = roll_forward::find(&tables, &mut sink)?;
    if !sink.is_clean() || !add_summaries(&tables, &mut ssa, &census.places, &mut ledger)? {
        return Ok(None);
    }
    let found = walk::prove(&tables, &nat, &census, ledger, opts.data, &mut sink, progress)?;
    let Some(found) = found.filter(|_| !nat.failed()) else { return Ok(None) };
    progress(Progress::start(Pass::Totals));
    totals::check(&tables, &found, &mut sink);
    quota::check(&tables, &found.usage, &mut sink)?;
    let summary = totals::summary(&tables, &found, roll_forward);
    Ok(sink.is_clean().then(|| sink.into_report(summary, true)))
}

/// What one pass over the NAT says of all nodes.
pub(crate) struct Census {
    /// Their addresses, by block of the main area.
    pub places: Bitmap,
    /// Those of inodes.
    pub inodes: Bitmap,
    /// By NAT block, where one is not zero.
    versions: HashMap<u32, Box<[u8; NAT_PER_BLOCK as usize]>>,
    stored_in_use: Vec<u16>,
}

impl Census {
    /// `None` if an entry contradicts the SIT or another entry.
    fn take(
        tables: &Tables<'_>,
        nat: &PagedNat<'_>,
        ssa: &Ssa<'_>,
        ledger: &mut Ledger,
    ) -> Result<Option<Self>, CheckError> {
        let blocks = tables.geo.main_blocks();
        let mut census = Self {
            places: Bitmap::new(blocks),
            inodes: Bitmap::new(blocks),
            versions: HashMap::new(),
            stored_in_use: Vec::new(),
        };
        let mut fits = true;
        census.stored_in_use = nat.scan(|nid, entry| {
            fits = fits && census.add(tables, nid, &entry);
            ledger.expect(Item::node(nid, entry.owner().0, entry.addr()));
            if ssa.has_entry(entry.addr()) {
                ledger.expect(Item::node_block(entry.addr(), nid.0));
            }
        })?;
        Ok(fits.then_some(census))
    }

    fn add(&mut self, tables: &Tables<'_>, nid: Nid, entry: &RawNatEntry) -> bool {
        let Some((seg, off)) = tables.geo.seg_of(entry.addr()) else { return false };
        let block = u64::from(entry.addr().0 - tables.geo.main_blkaddr);
        if entry.owner() == nid {
            self.inodes.insert(block);
        }
        let (b, i) = nat_index(nid);
        if entry.version != 0
            && let Some(version) =
                self.versions.entry(b).or_insert_with(|| Box::new([0; NAT_PER_BLOCK as usize])).get_mut(i)
        {
            *version = entry.version;
        }
        tables.sit.is_valid(seg, off) && self.places.insert(block)
    }

    pub(crate) fn version(&self, nid: Nid) -> u8 {
        let (b, i) = nat_index(nid);
        self.versions.get(&b).and_then(|block| block.get(i)).copied().unwrap_or_default()
    }
}

/// Adds what the summaries say of all valid blocks; whether those of nodes and of data are where they should be.
fn add_summaries(
    tables: &Tables<'_>,
    ssa: &mut Ssa<'_>,
    places: &Bitmap,
    ledger: &mut Ledger,
) -> Result<bool, CheckError> {
    for (seg, _) in tables.sit.used() {
        for off in (0..BLOCKS_PER_SEG).filter(|&off| tables.sit.is_valid(seg, off)) {
            let block = u64::from(seg.0) * u64::from(BLOCKS_PER_SEG) + u64::from(off);
            let addr = BlockAddr(tables.geo.main_blkaddr.saturating_add(block as u32));
            let Some(stored) = ssa.entry(addr)? else { continue };
            let is_node = places.contains(block);
            if stored.is_node() != Some(is_node) {
                return Ok(false);
            }
            if is_node {
                ledger.find(Item::node_block(addr, stored.entry.nid.get()));
            } else {
                ledger.expect(Item::data_block(addr, stored.entry));
            }
        }
    }
    Ok(true)
}
