//! The tables of a volume as of its checkpoint.
use crate::CheckError;
use crate::evidence::{Nat, Pack, PackSummaries, Reader, Sit, orphan};
use crate::report::Sink;
use segno_format::Geometry;
use segno_format::superblock::Superblock;

/// A volume as of its checkpoint.
pub(crate) struct Volume<'a> {
    pub reader: Reader<'a>,
    /// The superblock in force.
    pub sb: Superblock,
    pub geo: Geometry,
    /// The pack in force.
    pub pack: Pack,
    pub summaries: PackSummaries,
    /// The journal included.
    pub sit: Sit,
    /// The journal included.
    pub nat: Nat<'a>,
    /// Inodes without a name.
    pub orphans: Vec<u32>,
}

impl<'a> Volume<'a> {
    pub(crate) fn load(
        reader: Reader<'a>,
        sb: Superblock,
        pack: Pack,
        sink: &mut Sink,
    ) -> Result<Self, CheckError> {
        let geo = sb.geo;
        let summaries = PackSummaries::load(&pack, &geo, sink);
        let orphans = orphan::load(&pack, &geo, sink);
        let sit = Sit::load(&reader, &geo, &pack, &summaries.sit_journal, sink)?;
        let nat = Nat::new(reader, &geo, &pack, &summaries.nat_journal, sink);
        Ok(Self { reader, sb, geo, pack, summaries, sit, nat, orphans })
    }
}
