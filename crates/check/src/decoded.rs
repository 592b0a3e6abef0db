//! The tables of a volume as this crate decodes them, as plain data, for comparison with another decoder.
use crate::evidence::Volume;
use crate::report::Sink;
use crate::{CheckError, CheckOptions, judge};
use segno_device::BlockDevice;
use segno_format::bits::msb;
use segno_format::nat::{RawNatEntry, RawNatJournal};
use segno_format::sit::{LogType, RawSitJournal, SIT_MAP_BYTES};
use segno_format::summary::RawSummaryBlock;
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCKS_PER_SEG, Block, Nid, SegNo};
use std::collections::{BTreeMap, BTreeSet};

/// The tables as of the checkpoint in force.
pub struct Decoded {
    /// The superblock in force.
    pub superblock: RawSuperblock,
    /// 0 or 1.
    pub pack: usize,
    /// All blocks of the pack.
    pub blocks: Vec<Block>,
    /// Checksum of the checkpoint block.
    pub crc: u32,
    /// Whether each SIT block is in its second copy.
    pub sit_copies: Vec<bool>,
    /// Whether each NAT block is in its second copy.
    pub nat_copies: Vec<bool>,
    /// The NAT journal as stored.
    pub nat_journal: RawNatJournal,
    /// The SIT journal as stored.
    pub sit_journal: RawSitJournal,
    /// Summaries of the logs; none where the pack ends before.
    pub summaries: [Option<Box<RawSummaryBlock>>; 6],
    /// Type of each segment, and the map of its valid blocks.
    pub segments: Vec<(Option<LogType>, [u8; SIT_MAP_BYTES])>,
    /// Entries of all nids in use from the root on.
    pub nids: BTreeMap<Nid, RawNatEntry>,
    /// Inodes without a name.
    pub orphans: BTreeSet<u32>,
}

/// Decodes the tables; `None` where [`check`](crate::check()) does not get as far.
pub fn decode(device: &dyn BlockDevice) -> Result<Option<Decoded>, CheckError> {
    let mut sink = Sink::new(&CheckOptions { max_problems: 0, data: false });
    judge::load::volume(device, &mut sink, &mut |_| {})?.map(|volume| plain(&volume)).transpose()
}

fn plain(volume: &Volume<'_>) -> Result<Decoded, CheckError> {
    let (pack, geo) = (&volume.pack, &volume.geo);
    let segment = |seg: SegNo| {
        let mut map = [0; SIT_MAP_BYTES];
        let valid = (0..BLOCKS_PER_SEG).filter(|off| volume.sit.is_valid(seg, *off));
        valid.for_each(|off| msb::put(&mut map, off as usize, true));
        (volume.sit.log_type(seg), map)
    };
    let mut nids = BTreeMap::new();
    volume.nat.scan(|nid, entry| _ = nids.insert(nid, entry))?;
    Ok(Decoded {
        superblock: volume.sb.raw,
        pack: pack.index,
        blocks: pack.blocks.clone(),
        crc: pack.crc,
        sit_copies: (0..geo.sit_blocks()).map(|b| pack.sit_copy(b)).collect(),
        nat_copies: (0..geo.nat_blocks()).map(|b| pack.nat_copy(b)).collect(),
        nat_journal: volume.summaries.nat_journal,
        sit_journal: volume.summaries.sit_journal,
        summaries: LogType::ALL.map(|log| volume.summaries.of(log).map(|summary| Box::new(*summary))),
        segments: geo.segments().map(segment).collect(),
        nids,
        orphans: volume.orphans.iter().copied().collect(),
    })
}
