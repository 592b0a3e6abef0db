//! The two ends of a checkpoint pack, and which of two packs is in force.
use crate::checkpoint::{RawCheckpoint, newer_pack};
use crate::{Block, BlockAddr, Corrupt, Structure};

/// The first block of a committed pack.
#[derive(Clone)]
pub struct PackHead {
    /// Its first 4096 bytes.
    pub block: Block,
    /// Its checksum.
    pub crc: u32,
    /// Blocks of the pack, both ends included.
    pub total: u32,
}

impl PackHead {
    /// Reads both ends of the pack at `start`. The outer error is that of `read`; the inner one is the reason why the pack does not count.
    ///
    /// A pack counts if both ends are valid and have one version and one checksum. Linux compares versions alone. But a recovery that
    /// was interrupted and repeated writes a pack of the same version over the first one, so after a cut one version may have two
    /// contents.
    pub fn read<B: AsRef<[u8]>, E>(
        start: BlockAddr,
        mut read: impl FnMut(BlockAddr) -> Result<B, E>,
    ) -> Result<Result<Self, Corrupt>, E> {
        let head = match Self::of_first(read(start)?.as_ref(), start) {
            Ok(head) => head,
            Err(e) => return Ok(Err(e)),
        };
        let end = start.offset(head.total.saturating_sub(1));
        let last = read(end)?;
        Ok(head.check_end(last.as_ref(), end).map(|()| head))
    }

    fn of_first(bytes: &[u8], start: BlockAddr) -> Result<Self, Corrupt> {
        let crc = RawCheckpoint::verify(bytes, start.0.into())?;
        let block = Block::first_of(bytes);
        let total = block.view::<RawCheckpoint>().total_blocks(start.0.into())?;
        Ok(Self { block, crc, total })
    }

    fn check_end(&self, last: &[u8], at: BlockAddr) -> Result<(), Corrupt> {
        let differs = |why, found, expected| {
            Err(Corrupt::block(Structure::Checkpoint, at.0.into(), why, found, expected))
        };
        let crc = RawCheckpoint::verify(last, at.0.into())?;
        let version = Block::first_of(last).view::<RawCheckpoint>().checkpoint_ver.get();
        if version != self.version() {
            return differs("version at the end of the pack", version, self.version());
        }
        if crc != self.crc {
            return differs("checksum at the end of the pack", crc.into(), self.crc.into());
        }
        Ok(())
    }

    /// The checkpoint block.
    #[must_use]
    pub fn cp(&self) -> &RawCheckpoint {
        self.block.view()
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.cp().checkpoint_ver.get()
    }
}

/// Index of the pack that a mount uses; `None` if neither counts.
#[must_use]
pub fn in_force<E>(packs: &[Result<PackHead, E>; 2]) -> Option<usize> {
    let [first, second] = packs.each_ref().map(|p| p.as_ref().ok().map(PackHead::version));
    newer_pack(first, second)
}

/// Whether the pack in force is that of the format, and no other checkpoint was written since: a format gives the other one version 0.
#[must_use]
pub fn is_first<E>(packs: &[Result<PackHead, E>; 2]) -> bool {
    let other = in_force(packs).and_then(|index| packs.get(1 - index));
    matches!(other, Some(Ok(head)) if head.version() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::CHECKSUM_OFFSET_MAX;

    const START: BlockAddr = BlockAddr(1000);
    const TOTAL: u32 = 8;

    fn end(version: u64, elapsed: u64) -> Block {
        let mut block = Block::zeroed();
        let cp = block.view_mut::<RawCheckpoint>();
        cp.checksum_offset.set(CHECKSUM_OFFSET_MAX);
        cp.checkpoint_ver.set(version);
        cp.elapsed_time.set(elapsed);
        cp.cp_pack_total_block_count.set(TOTAL);
        RawCheckpoint::seal(&mut block);
        block
    }

    fn broken(mut block: Block) -> Block {
        block.0[20] ^= 1;
        block
    }

    fn read(first: &Block, last: &Block) -> Result<PackHead, Corrupt> {
        let block = |at: BlockAddr| match at.0 - START.0 {
            0 => Ok(first.clone()),
            7 => Ok(last.clone()),
            other => Err(other),
        };
        PackHead::read(START, block).unwrap()
    }

    #[test]
    fn a_pack_counts_if_its_ends_are_of_one_checkpoint() {
        let head = read(&end(7, 1), &end(7, 1)).ok().unwrap();
        assert_eq!((head.version(), head.total, head.crc), (7, TOTAL, end(7, 1).u32_at(4092)));
        for (name, first, last, why, at) in [
            ("torn", end(8, 1), end(7, 1), "version at the end of the pack", 1007),
            ("of one version", end(8, 1), end(8, 2), "checksum at the end of the pack", 1007),
            ("first broken", broken(end(8, 1)), end(8, 1), "checksum", 1000),
            ("last broken", end(8, 1), broken(end(8, 1)), "checksum", 1007),
            ("never written", Block::zeroed(), Block::zeroed(), "checksum offset", 1000),
        ] {
            let damage = read(&first, &last).err().unwrap();
            assert_eq!((damage.why, damage.at), (why, at), "{name}");
        }
    }

    #[test]
    fn a_read_error_is_not_a_verdict() {
        let error = PackHead::read(START, |at| if at == START { Ok(end(7, 1)) } else { Err("no luck") });
        assert_eq!(error.err(), Some("no luck"));
    }

    #[test]
    fn the_newer_of_two_packs_that_count_is_in_force() {
        let whole = |version| read(&end(version, 1), &end(version, 1));
        let (torn, gone) =
            (|version| read(&end(version, 1), &end(version, 2)), || read(&Block::zeroed(), &Block::zeroed()));
        for (packs, expected) in [
            ([whole(7), whole(8)], Some(1)),
            ([whole(8), whole(7)], Some(0)),
            ([whole(8), whole(8)], Some(0)),
            ([torn(8), whole(7)], Some(1)),
            ([torn(8), whole(8)], Some(1)),
            ([whole(7), torn(8)], Some(0)),
            ([torn(8), gone()], None),
        ] {
            assert_eq!(in_force(&packs), expected);
        }
    }

    #[test]
    fn the_first_checkpoint_has_a_pack_of_version_0_beside_it() {
        let whole = |version| read(&end(version, 1), &end(version, 1));
        let torn = |version| read(&end(version, 1), &end(version, 2));
        for (packs, expected) in [
            ([whole(7), whole(0)], true),
            ([whole(0), whole(7)], true),
            ([whole(7), whole(8)], false),
            ([whole(7), torn(0)], false),
            ([torn(7), whole(0)], false),
            ([torn(7), torn(0)], false),
        ] {
            assert_eq!(is_first(&packs), expected);
        }
    }
}
