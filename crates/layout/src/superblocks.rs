//! Both copies of the superblock.
use crate::Reader;
use crate::reader::left_out;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Corrupt, Structure};

/// Both copies of the superblock, each with its verdict.
pub struct Superblocks {
    /// As stored; `None` where the source leaves the block out.
    pub raw: [Option<RawSuperblock>; 2],
    /// As parsed.
    pub parsed: [Result<Superblock, Corrupt>; 2],
}

impl Superblocks {
    /// Reads both.
    pub fn load<R: Reader + ?Sized>(reader: &R) -> Result<Self, R::Error> {
        let [first, second] = SUPERBLOCK_COPIES;
        let read = |at| Ok(reader.read_block(at)?.map(|b| RawSuperblock::from_block(&b.0)));
        let raw = [read(first)?, read(second)?];
        let parse = |raw: Option<RawSuperblock>, at| {
            raw.ok_or_else(|| left_out(Structure::Superblock, at)).and_then(|sb| sb.parse(at.0.into()))
        };
        let [raw0, raw1] = raw;
        Ok(Self { raw, parsed: [parse(raw0, first), parse(raw1, second)] })
    }

    /// The copy that a mount uses: the first valid one.
    #[must_use]
    pub fn in_force(&self) -> Option<&Superblock> {
        self.parsed.iter().find_map(|p| p.as_ref().ok())
    }
}
