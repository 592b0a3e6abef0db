//! The tables of the volume as of its checkpoint. Loading them is the first half of the check.
use crate::nat::Nat;
use crate::orphan;
use crate::pack::Pack;
use crate::reader::Reader;
use crate::report::{CheckOptions, Sink};
use crate::sit::Sit;
use crate::summary::PackSummaries;
use crate::{CheckError, Pass, Progress, checkpoint, nat_bits, superblock};
use segno_device::BlockDevice;
use segno_format::Geometry;
use segno_format::superblock::Superblock;
use std::ops::Deref;

/// For those who do not judge.
const NO_PROBLEMS: CheckOptions = CheckOptions { max_problems: 0, data: false };

/// What a volume has besides the NAT, as of its checkpoint.
pub struct Tables<'a> {
    /// Its device.
    pub reader: Reader<'a>,
    /// The superblock in force.
    pub sb: Superblock,
    /// Its geometry.
    pub geo: Geometry,
    /// The pack in force.
    pub pack: Pack,
    /// Summaries and journals of that pack.
    pub summaries: PackSummaries,
    /// The SIT, its journal included.
    pub sit: Sit,
    /// Inodes without a name.
    pub orphans: Vec<u32>,
}

/// All tables of a volume as of its checkpoint.
pub struct Volume<'a> {
    tables: Tables<'a>,
    /// The NAT, its journal included.
    pub nat: Nat,
}

impl<'a> Deref for Volume<'a> {
    type Target = Tables<'a>;

    fn deref(&self) -> &Tables<'a> {
        &self.tables
    }
}

impl<'a> Tables<'a> {
    /// Loads and checks the tables; `None` when too little is left to go on with.
    pub(crate) fn load(
        device: &'a dyn BlockDevice,
        sink: &mut Sink,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Self>, CheckError> {
        let reader = Reader::new(device);
        progress(Progress::start(Pass::Superblock));
        let Some(sb) = superblock::load(&reader, sink)? else { return Ok(None) };
        let geo = sb.geo;

        progress(Progress::start(Pass::Checkpoint));
        let Some(pack) = Pack::load(&reader, &geo, sink)? else { return Ok(None) };
        if !checkpoint::check(&pack, &sb, sink) {
            return Ok(None);
        }
        progress(Progress::start(Pass::Sit));
        Self::of_pack(reader, sb, pack, sink).map(Some)
    }

    fn of_pack(reader: Reader<'a>, sb: Superblock, pack: Pack, sink: &mut Sink) -> Result<Self, CheckError> {
        let geo = sb.geo;
        let summaries = PackSummaries::load(&pack, &geo, sink);
        let orphans = orphan::load(&pack, &geo, sink);
        let sit = Sit::load(&reader, &geo, &pack, &summaries.sit_journal, sink)?;
        Ok(Self { reader, sb, geo, pack, summaries, sit, orphans })
    }
}

impl<'a> Volume<'a> {
    /// Loads the tables without judging them: those of the older pack, or by the second superblock, if what a mount would
    /// use cannot be; `None` when too little is left.
    pub fn open(device: &'a dyn BlockDevice) -> Result<Option<Self>, CheckError> {
        let (mut sink, reader) = (Sink::new(&NO_PROBLEMS), Reader::new(device));
        for sb in superblock::valid(&reader)? {
            let newest = Pack::load(&reader, &sb.geo, &mut sink)?;
            let Some(index) = newest.as_ref().map(|pack| pack.index) else { continue };
            let older = Pack::load_one(&reader, &sb.geo, 1 - index.min(1))?;
            let readable = |pack: &Pack| checkpoint::is_readable(pack, &sb);
            if let Some(pack) = [newest, older].into_iter().flatten().find(readable) {
                let tables = Tables::of_pack(reader, sb, pack, &mut sink)?;
                return Self::with_nat(tables, &mut sink).map(Some);
            }
        }
        Ok(None)
    }

    /// Loads and checks the tables; `None` when too little is left to go on with.
    pub(crate) fn load(
        device: &'a dyn BlockDevice,
        sink: &mut Sink,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Self>, CheckError> {
        let Some(tables) = Tables::load(device, sink, progress)? else { return Ok(None) };
        progress(Progress::start(Pass::Nat));
        Self::with_nat(tables, sink).map(Some)
    }

    fn with_nat(tables: Tables<'a>, sink: &mut Sink) -> Result<Self, CheckError> {
        let Tables { reader, geo, pack, summaries, .. } = &tables;
        let nat = Nat::load(reader, geo, pack, &summaries.nat_journal, sink)?;
        nat_bits::check(reader, geo, pack, &nat.stored_in_use, sink)?;
        Ok(Self { tables, nat })
    }
}
