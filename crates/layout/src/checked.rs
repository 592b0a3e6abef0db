//! Consistency checks of a checkpoint block, made before a mount uses it and again before it is written.
use crate::Pack;
use alloc::vec::Vec;
use segno_format::checkpoint::{CHECKSUM_OFFSET_MIN, CpFlags, RawCheckpoint};
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Corrupt, Geometry, Structure};

/// Blocks of a pack after the position of its summaries: six log summaries and the second checkpoint block.
const AFTER_START_SUM: u32 = 7;

/// Checks a checkpoint block against the geometry.
pub fn check_checkpoint(cp: &RawCheckpoint, geo: &Geometry, start: BlockAddr) -> Result<(), Corrupt> {
    let judge = Judge { cp, geo, start };
    judge.counts()?;
    judge.positions()?;
    judge.places()
}

/// Checks that a checkpoint block can follow `old`: the constants of the volume are unchanged, and the
/// version is one higher.
pub fn check_follows(cp: &RawCheckpoint, old: &RawCheckpoint, start: BlockAddr) -> Result<(), Corrupt> {
    let constants = |cp: &RawCheckpoint| {
        [
            ("user_block_count", cp.user_block_count.get()),
            ("rsvd_segment_count", cp.rsvd_segment_count.get().into()),
            ("overprov_segment_count", cp.overprov_segment_count.get().into()),
            ("checksum_offset", cp.checksum_offset.get().into()),
            ("large_nat_bitmap", cp.flags().contains(CpFlags::LARGE_NAT_BITMAP).into()),
        ]
    };
    let next = ("checkpoint_ver", cp.checkpoint_ver.get());
    let expected = ("checkpoint_ver", old.checkpoint_ver.get().wrapping_add(1));
    let all = constants(cp).into_iter().zip(constants(old)).chain([(next, expected)]);
    for ((why, found), (_, expected)) in all {
        if found != expected {
            return Err(Corrupt::block(Structure::Checkpoint, start.0.into(), why, found, expected));
        }
    }
    Ok(())
}

struct Judge<'a> {
    cp: &'a RawCheckpoint,
    geo: &'a Geometry,
    start: BlockAddr,
}

impl Judge<'_> {
    fn fail(
        &self,
        why: &'static str,
        found: impl Into<u64>,
        expected: impl Into<u64>,
    ) -> Result<(), Corrupt> {
        let at = self.start.0.into();
        Err(Corrupt::block(Structure::Checkpoint, at, why, found.into(), expected.into()))
    }

    fn counts(&self) -> Result<(), Corrupt> {
        let &Self { cp, geo, .. } = self;
        // A read-only image has no reserve.
        let ro_image = !geo.has_ssa;
        let (rsvd, ovp) = (cp.rsvd_segment_count.get(), cp.overprov_segment_count.get());
        let meta = 2 + geo.segment_count_sit + geo.segment_count_nat + geo.segment_count_ssa;
        if meta.saturating_add(rsvd) >= geo.segment_count {
            return self.fail("reserved segments", rsvd, geo.segment_count);
        }
        if !ro_image && (rsvd == 0 || ovp == 0) {
            return self.fail("reserved or overprovision segments are 0", rsvd, 1u32);
        }
        let user = cp.user_block_count.get();
        let room = geo.main_blocks() + if ro_image { u64::from(BLOCKS_PER_SEG) } else { 0 };
        if user == 0 || user >= room {
            return self.fail("user_block_count", user, room);
        }
        if cp.valid_block_count.get() > user {
            return self.fail("valid_block_count", cp.valid_block_count.get(), user);
        }
        if cp.valid_node_count.get() > geo.max_nid().saturating_sub(3) {
            return self.fail("valid_node_count", cp.valid_node_count.get(), geo.max_nid());
        }
        Ok(())
    }

    fn positions(&self) -> Result<(), Corrupt> {
        let logs: Vec<_> = Pack::logs(self.geo).iter().map(|&log| self.cp.position(log)).collect();
        for (i, p) in logs.iter().enumerate() {
            let segments = self.geo.segment_count_main;
            if p.seg.0 >= segments {
                return self.fail("segment of a log", p.seg.0, segments);
            }
            if u32::from(p.blkoff) >= BLOCKS_PER_SEG {
                return self.fail("offset of a log", p.blkoff, BLOCKS_PER_SEG);
            }
            if logs.iter().take(i).any(|other| other.seg == p.seg) {
                return self.fail("two logs in one segment", p.seg.0, 0u32);
            }
            if p.alloc_type > 1 {
                return self.fail("alloc_type", p.alloc_type, 1u32);
            }
        }
        Ok(())
    }

    fn places(&self) -> Result<(), Corrupt> {
        let &Self { cp, geo, .. } = self;
        let sizes = [
            ("sit_ver_bitmap_bytesize", cp.sit_ver_bitmap_bytesize.get(), geo.sit_bitmap_bytes()),
            ("nat_ver_bitmap_bytesize", cp.nat_ver_bitmap_bytesize.get(), geo.nat_bitmap_bytes()),
        ];
        for (why, found, expected) in sizes {
            if found as usize != expected {
                return self.fail(why, found, expected as u64);
            }
        }
        let (sum, first) = (cp.cp_pack_start_sum.get(), geo.cp_payload.saturating_add(1));
        if sum < first || sum > BLOCKS_PER_SEG - AFTER_START_SUM {
            return self.fail("cp_pack_start_sum", sum, first);
        }
        let offset = cp.checksum_offset.get();
        if cp.flags().contains(CpFlags::LARGE_NAT_BITMAP) && offset != CHECKSUM_OFFSET_MIN {
            return self.fail("checksum offset of the large_nat_bitmap layout", offset, CHECKSUM_OFFSET_MIN);
        }
        if cp.flags().contains(CpFlags::ERROR) {
            return self.fail("the volume stopped on an error; run a check first", cp.ckpt_flags.get(), 0u32);
        }
        Ok(())
    }
}
