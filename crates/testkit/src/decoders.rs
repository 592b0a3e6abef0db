//! The two decoders of a volume's tables, that of `check` and that of `layout`, held against each other.
use segno_check::tables as judged;
use segno_device::BlockDevice;
use segno_format::nat::RawNatEntry;
use segno_format::sit::LogType;
use segno_format::superblock::Superblock;
use segno_format::{BLOCKS_PER_SEG, Geometry, Nid, SegNo};
use segno_layout::{Nat, Pack, Sit, Summaries, readable_pack};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use zerocopy::IntoBytes;

/// What both decoders found to be the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Same {
    /// Segments of the main area.
    pub segments: u32,
    /// Nids in use.
    pub nids: usize,
    /// Inodes without a name.
    pub orphans: usize,
}

/// Decodes the tables of a volume, damaged or not, with both. `None` if both say that too little is left; an error names the first
/// difference.
pub fn compare(device: &dyn BlockDevice) -> Result<Option<Same>, String> {
    let theirs = judged::Volume::open(device).map_err(|e| e.to_string())?;
    let ours = readable_pack(device).map_err(|e| e.to_string())?;
    let (theirs, (sb, pack)) = match (theirs, ours) {
        (None, None) => return Ok(None),
        (Some(theirs), Some(ours)) => (theirs, ours),
        (theirs, _) => return Err(format!("only one finds tables; check finds some: {}", theirs.is_some())),
    };
    let both = Both { theirs, geo: sb.geo, pack };
    both.pack(&sb)?;
    let summaries = both.summaries()?;
    both.sit(&Sit::load(device, &both.geo, &both.pack, &summaries).map_err(|e| e.to_string())?)?;
    let nids = both.nat(&Nat::load(device, &both.geo, &both.pack, &summaries).map_err(|e| e.to_string())?)?;
    let orphans = both.orphans()?;
    let Geometry { segment_count_main: segments, .. } = both.geo;
    Ok(Some(Same { segments, nids, orphans }))
}

struct Both<'a> {
    theirs: judged::Volume<'a>,
    geo: Geometry,
    pack: Pack,
}

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, check: T, layout: T) -> Result<(), String> {
    if check == layout {
        return Ok(());
    }
    Err(format!("{}: check decodes {check:?}, layout {layout:?}", what()))
}

impl Both<'_> {
    fn pack(&self, sb: &Superblock) -> Result<(), String> {
        let (check, layout) = (&self.theirs.pack, &self.pack);
        same(|| "superblock".into(), self.theirs.sb.raw.as_bytes(), sb.raw.as_bytes())?;
        same(|| "number of the pack".into(), check.index, layout.index)?;
        same(|| "blocks of the pack".into(), check.blocks.as_bytes(), layout.blocks.as_bytes())?;
        same(|| "checksum of the pack".into(), check.crc, layout.crc)?;
        for b in 0..self.geo.sit_blocks() {
            same(|| format!("copy of SIT block {b}"), check.sit_copy(b), layout.sit_copy(b))?;
        }
        for b in 0..self.geo.nat_blocks() {
            same(|| format!("copy of NAT block {b}"), check.nat_copy(b), layout.nat_copy(b))?;
        }
        Ok(())
    }

    fn summaries(&self) -> Result<Summaries, String> {
        let (check, layout) = (&self.theirs.summaries, Summaries::load(&self.pack));
        same(|| "NAT journal".into(), check.nat_journal.as_bytes(), layout.nat.as_bytes())?;
        same(|| "SIT journal".into(), check.sit_journal.as_bytes(), layout.sit.as_bytes())?;
        // Of a log whose entries end with the pack, layout has those before, and check none.
        let whole = layout.check(&self.pack).is_ok();
        for log in LogType::ALL.into_iter().filter(|log| whole || check.of(*log).is_some()) {
            let entries = [check.of(log), layout.of(log)].map(|s| s.map(|s| s.entries));
            let [check, layout] = entries.each_ref().map(|e| e.as_ref().map(IntoBytes::as_bytes));
            same(|| format!("summary of log {log:?}"), check, layout)?;
        }
        Ok(layout)
    }

    fn sit(&self, layout: &Sit) -> Result<(), String> {
        let check = &self.theirs.sit;
        for seg in (0..self.geo.segment_count_main).map(SegNo) {
            let what = |what: &str| format!("{what} of segment {seg}");
            same(|| what("valid blocks"), check.count(seg), layout.count(seg))?;
            same(|| what("type"), check.log_type(seg), layout.stored_log(seg))?;
            if check.count(seg) == 0 {
                continue;
            }
            let map = |is_valid: &dyn Fn(u32) -> bool| (0..BLOCKS_PER_SEG).map(is_valid).collect::<Vec<_>>();
            let maps = (map(&|off| check.is_valid(seg, off)), map(&|off| layout.has(seg, off)));
            same(|| what("map"), maps.0, maps.1)?;
        }
        Ok(())
    }

    fn nat(&self, layout: &Nat) -> Result<usize, String> {
        let check: BTreeMap<Nid, RawNatEntry> = self.theirs.nat.in_use().collect();
        let layout: BTreeMap<Nid, RawNatEntry> = layout.in_use().collect();
        let nids: BTreeSet<Nid> = check.keys().chain(layout.keys()).copied().collect();
        for nid in &nids {
            same(|| format!("NAT entry of {nid}"), check.get(nid), layout.get(nid))?;
        }
        Ok(nids.len())
    }

    fn orphans(&self) -> Result<usize, String> {
        let check: BTreeSet<u32> = self.theirs.orphans.iter().copied().collect();
        let listed = self.pack.orphans().filter_map(Result::ok).flatten();
        let layout = listed.filter(|ino| self.geo.nid_ok(*ino)).map(|ino| ino.0).collect();
        let count = check.len();
        same(|| "inodes without a name".into(), check, layout)?;
        Ok(count)
    }
}
