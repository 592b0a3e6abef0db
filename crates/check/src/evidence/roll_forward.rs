//! The roll-forward chain, written by fsyncs after the checkpoint: followed and counted, not replayed.
use crate::CheckError;
use crate::evidence::{Bitmap, Volume};
use crate::report::{Kind, RollForward, Sink};
use segno_format::checkpoint::CpFlags;
use segno_format::node::{RawNode, RawNodeFooter};
use segno_format::sit::LogType;
use segno_format::{Corrupt, Structure};

pub(crate) fn find(volume: &Volume<'_>, sink: &mut Sink) -> Result<RollForward, CheckError> {
    let mut out = RollForward::default();
    let position = volume.pack.cp().position(LogType::WarmNode);
    if !volume.geo.has_ssa || position.seg.0 >= volume.geo.segment_count_main {
        return Ok(out);
    }
    let mut addr = volume.geo.seg_start(position.seg).offset(position.blkoff.into());
    let mut seen = Bitmap::new(volume.geo.main_blocks());
    while volume.geo.in_main(addr) {
        let block = volume.reader.block(addr)?;
        let footer = block.view::<RawNode>().footer;
        if !is_recoverable(volume, &footer) {
            break;
        }
        if !seen.insert((addr.0 - volume.geo.main_blkaddr).into()) {
            let why = "the chain runs in a circle after this many nodes";
            sink.add(
                Kind::RollForward,
                Corrupt::block(Structure::RollForward, addr.0.into(), why, out.nodes, 0),
            );
            break;
        }
        out.nodes = out.nodes.saturating_add(1);
        out.fsynced = out.fsynced.saturating_add(footer.is_fsync().into());
        addr = segno_format::BlockAddr(footer.next_blkaddr.get());
    }
    Ok(out)
}

/// Whether a node was written after this very checkpoint.
fn is_recoverable(volume: &Volume<'_>, footer: &RawNodeFooter) -> bool {
    let pack = &volume.pack;
    let (version, stored) = (pack.cp().checkpoint_ver.get(), footer.cp_ver.get());
    if pack.flags.contains(CpFlags::NOCRC_RECOVERY) {
        return version as u32 == stored as u32;
    }
    let crc = if pack.flags.contains(CpFlags::CRC_RECOVERY) { u64::from(pack.crc) << 32 } else { 0 };
    stored == version | crc
}
