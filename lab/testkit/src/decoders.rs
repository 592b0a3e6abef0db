//! The two decoders of a volume's tables, that of `check` and that of `layout`, held against each other.
use segno_check::Decoded;
use segno_device::{BlockDevice, ReadError};
use segno_format::sit::LogType;
use segno_format::summary::Journal;
use segno_format::{Nid, SegNo};
use segno_layout::{Nat, Pack, Sit, Summaries, superblock_in_force};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use zerocopy::{Immutable, IntoBytes};

/// Counts of the structures on which both decoders agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Same {
    /// Segments of the main area.
    pub segments: usize,
    /// Nids in use.
    pub nids: usize,
    /// Inodes without a name.
    pub orphans: usize,
}

/// Decodes the tables of a volume, damaged or not, with both. `None` if `check` cannot decode them; an error
/// names the first difference.
pub fn compare(device: &dyn BlockDevice) -> Result<Option<Same>, String> {
    let Ok(Some(check)) = segno_check::decode(device) else { return Ok(None) };
    let unread = |e: ReadError| e.to_string();
    let sb = superblock_in_force(device).map_err(unread)?.map_err(|e| format!("layout: {e}"))?;
    let geo = sb.geo;
    let pack = Pack::in_force(device, &geo).map_err(unread)?.map_err(|e| format!("layout: {e}"))?;
    same("superblock", check.superblock.as_bytes(), sb.raw.as_bytes())?;
    same("number of the pack", check.pack, pack.index)?;
    same("blocks of the pack", check.blocks.as_bytes(), pack.blocks.as_bytes())?;
    same("checksum of the pack", check.crc, pack.crc)?;
    let copies = |blocks: u32, second: &dyn Fn(u32) -> bool| (0..blocks).map(second).collect::<Vec<_>>();
    same("copies of SIT blocks", &check.sit_copies, &copies(geo.sit_blocks(), &|b| pack.sit_copy(b)))?;
    same("copies of NAT blocks", &check.nat_copies, &copies(geo.nat_blocks(), &|b| pack.nat_copy(b)))?;
    let summaries = Summaries::load(&pack);
    compare_summaries(&check, &pack, &summaries)?;
    compare_sit(&check, &Sit::load(device, &geo, &pack, &summaries).map_err(unread)?)?;
    compare_nat(&check, &Nat::load(device, &geo, &pack, &summaries).map_err(unread)?)?;
    let listed = pack.orphans().filter_map(Result::ok).flatten();
    let orphans: BTreeSet<u32> = listed.filter(|ino| geo.nid_ok(*ino)).map(|ino| ino.0).collect();
    same("inodes without a name", &check.orphans, &orphans)?;
    let (segments, nids) = (check.segments.len(), check.nids.len());
    Ok(Some(Same { segments, nids, orphans: orphans.len() }))
}

fn same<T: PartialEq + Debug>(what: &str, check: T, layout: T) -> Result<(), String> {
    if check == layout {
        return Ok(());
    }
    Err(format!("{what}: check decodes {check:?}, layout {layout:?}"))
}

fn compare_summaries(check: &Decoded, pack: &Pack, layout: &Summaries) -> Result<(), String> {
    let (nat, sit) = (&check.nat_journal, &check.sit_journal);
    compare_journal("NAT journal", nat.count.get(), &nat.entries, &layout.nat)?;
    compare_journal("SIT journal", sit.count.get(), &sit.entries, &layout.sit)?;
    // Of a log whose entries end with the pack, layout has those before, and check none.
    let whole = layout.check(pack).is_ok();
    for (log, check) in LogType::ALL.into_iter().zip(&check.summaries).filter(|(_, s)| whole || s.is_some()) {
        let (check, layout) = (check.as_deref().map(|s| s.entries), layout.of(log).map(|s| s.entries));
        let [check, layout] = [&check, &layout].map(|e| e.as_ref().map(IntoBytes::as_bytes));
        same(&format!("summary of log {log:?}"), check, layout)?;
    }
    Ok(())
}

fn compare_journal<E: IntoBytes + Immutable>(
    what: &str,
    count: u16,
    entries: &[E],
    layout: &Journal<E>,
) -> Result<(), String> {
    let bytes = |used: Option<&[E]>| used.map(|entries| entries.as_bytes().to_vec());
    let check = (count, bytes(entries.get(..count.into())));
    same(what, check, (layout.count, bytes(layout.used())))
}

fn compare_sit(check: &Decoded, layout: &Sit) -> Result<(), String> {
    for (seg, (log, map)) in (0..).map(SegNo).zip(&check.segments) {
        let stored = layout.get(seg).ok_or_else(|| format!("layout has no SIT entry of segment {seg}"))?;
        if (log, map) != (&layout.stored_log(seg), &stored.valid_map) {
            same(
                &format!("SIT entry of segment {seg}"),
                (*log, *map),
                (layout.stored_log(seg), stored.valid_map),
            )?;
        }
    }
    Ok(())
}

fn compare_nat(check: &Decoded, layout: &Nat) -> Result<(), String> {
    let layout: BTreeMap<Nid, _> = layout.in_use().collect();
    let nids: BTreeSet<&Nid> = check.nids.keys().chain(layout.keys()).collect();
    for nid in nids {
        if check.nids.get(nid) != layout.get(nid) {
            same(&format!("NAT entry of {nid}"), check.nids.get(nid), layout.get(nid))?;
        }
    }
    Ok(())
}
