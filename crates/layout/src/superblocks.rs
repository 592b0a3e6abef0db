//! Both copies of the superblock.
use crate::Reader;
use crate::reader::left_out;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES, Superblock};
use segno_format::{Block, BlockAddr, Corrupt, Structure, Unsupported};

/// Units at which the second block of a volume can be.
const SECOND_UNITS: [u32; 5] = [1, 2, 4, 8, 16];

/// Both copies of the superblock; an invalid one with its damage.
pub struct Superblocks {
    /// Their blocks; `None` if the source omits one.
    pub blocks: [Option<Block>; 2],
    /// As parsed.
    pub parsed: [Result<Superblock, Corrupt>; 2],
}

/// Why neither copy of the superblock can be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoSuperblock {
    /// A copy describes a volume of an unsupported kind.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// Both are damaged; the damage of the first is shown.
    #[error("{}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Damaged(Box<[Corrupt; 2]>),
}

impl Superblocks {
    /// Reads both of a volume with blocks of 4096 bytes.
    pub fn load<R: Reader + ?Sized>(reader: &R) -> Result<Self, R::Error> {
        let [first, second] = SUPERBLOCK_COPIES;
        let blocks = [reader.read_block(first)?, reader.read_block(second)?];
        let [block0, block1] = &blocks;
        let parsed = [parse(block0.as_ref(), first), parse(block1.as_ref(), second)];
        Ok(Self { blocks, parsed })
    }

    /// Reads both of a volume with blocks of any size; `blocks` has their units. The second copy is in the
    /// second block, whose place follows from the first copy; if that is invalid, each possible place is
    /// tried.
    pub fn load_any_block_size<R: Reader + ?Sized>(reader: &R) -> Result<Self, R::Error> {
        let read = |unit: u32| {
            let (at, block) = (BlockAddr(unit), reader.read_block(BlockAddr(unit))?);
            let parsed = block.as_ref().ok_or_else(|| left_out(Structure::Superblock, at));
            let parsed = parsed.and_then(|block| raw(block).parse_any_block_size(unit.into()));
            Ok((block, parsed.and_then(|sb| in_its_place(sb, unit))))
        };
        let (block0, first) = read(0)?;
        let [mut place, others @ ..] = SECOND_UNITS;
        let mut others = others.iter();
        if let Ok(sb) = &first {
            (place, others) = (sb.geo.units(), [].iter());
        }
        let (mut block1, mut second) = read(place)?;
        while let (Err(_), Some(&place)) = (&second, others.next()) {
            (block1, second) = read(place)?;
        }
        Ok(Self { blocks: [block0, block1], parsed: [first, second] })
    }

    /// The stored copies; `None` if the source omits the block.
    #[must_use]
    pub fn raw(&self) -> [Option<RawSuperblock>; 2] {
        self.blocks.each_ref().map(|block| block.as_ref().map(raw))
    }

    /// The copy that a mount uses: the first valid one.
    #[must_use]
    pub fn in_force(&self) -> Option<&Superblock> {
        self.parsed.iter().find_map(|p| p.as_ref().ok())
    }

    /// Both, if they are valid and describe different volumes.
    #[must_use]
    pub fn contradicting(&self) -> Option<[&Superblock; 2]> {
        let [Ok(first), Ok(second)] = &self.parsed else { return None };
        let same = first.geo == second.geo
            && first.features == second.features
            && first.raw.qf_ino == second.raw.qf_ino
            && first.raw.uuid == second.raw.uuid
            && first.devices == second.devices;
        (!same).then_some([first, second])
    }

    /// The writes, in order, after which both copies are `wanted`. An invalid copy comes first, as the other
    /// may be the only valid one until then; of two valid ones the second comes first.
    #[must_use]
    pub fn update(&self, wanted: &RawSuperblock) -> Vec<(BlockAddr, Block)> {
        let mut out = Vec::new();
        for ((copy, old), parsed) in SUPERBLOCK_COPIES.into_iter().zip(&self.blocks).zip(&self.parsed).rev() {
            let mut new = old.clone().unwrap_or_else(Block::zeroed);
            wanted.store(&mut new.0);
            if old.as_ref().is_none_or(|old| old.0 != new.0) {
                out.push((parsed.is_ok(), (copy, new)));
            }
        }
        out.sort_by_key(|(is_valid, _)| *is_valid);
        out.into_iter().map(|(_, write)| write).collect()
    }
}

/// The superblock that a mount uses: the first valid copy. The second is read only if it is needed.
pub fn superblock_in_force<R: Reader + ?Sized>(
    reader: &R,
) -> Result<Result<Superblock, NoSuperblock>, R::Error> {
    let [first, second] = SUPERBLOCK_COPIES;
    let block0 = reader.read_block(first)?;
    let damage0 = match parse(block0.as_ref(), first) {
        Ok(sb) => return Ok(Ok(sb)),
        Err(e) => e,
    };
    let block1 = reader.read_block(second)?;
    let damage1 = match parse(block1.as_ref(), second) {
        Ok(sb) => return Ok(Ok(sb)),
        Err(e) => e,
    };
    let other = [block0, block1].iter().flatten().find_map(|block| raw(block).other_block_size());
    let damaged = || NoSuperblock::Damaged(Box::new([damage0, damage1]));
    Ok(Err(other.map_or_else(damaged, NoSuperblock::Unsupported)))
}

/// Rejects a second copy that was found at a place other than the one it describes.
fn in_its_place(sb: Superblock, unit: u32) -> Result<Superblock, Corrupt> {
    let expected = sb.geo.units();
    if unit == 0 || unit == expected {
        return Ok(sb);
    }
    Err(Corrupt::block(
        Structure::Superblock,
        unit.into(),
        "place of the second copy",
        unit.into(),
        expected.into(),
    ))
}

fn raw(block: &Block) -> RawSuperblock {
    RawSuperblock::from_block(&block.0)
}

fn parse(block: Option<&Block>, at: BlockAddr) -> Result<Superblock, Corrupt> {
    let block = block.ok_or_else(|| left_out(Structure::Superblock, at))?;
    raw(block).parse(at.0.into())
}
