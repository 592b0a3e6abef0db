//! The superblock copies against the format, the device and each other.
use crate::CheckError;
use crate::report::{Kind, Rules, Sink};
use segno_format::superblock::{RawSuperblock, Superblock};
use segno_format::{Corrupt, Features, Structure, Unit};

/// The only encoding there is.
const ENCODING_UTF8_12_1: u16 = 1;

/// The copy that a mount of a device of `blocks` blocks would use: the first valid one, if the volume is
/// supported. Copies that contradict each other are damage.
pub(crate) fn in_force(
    raw: &[RawSuperblock; 2],
    blocks: u64,
    sink: &mut Sink,
) -> Result<Option<Superblock>, CheckError> {
    let mut good = Vec::with_capacity(raw.len());
    for (copy, sb) in (0..).zip(raw) {
        match sb.parse(copy) {
            Ok(sb) => good.push(sb),
            Err(e) => sink.add(Kind::Superblock, e),
        }
    }
    let is_contradicted = match good.as_slice() {
        [] => raw.iter().find_map(RawSuperblock::other_block_size).map_or(Ok(false), Err)?,
        [first, second] => !is_same(first, second, sink),
        _ => false,
    };
    let Some(sb) = good.into_iter().next() else { return Ok(None) };
    if !is_contradicted {
        sb.check_support()?;
    }
    Ok(check_fields(blocks, &sb, sink).then_some(sb))
}

/// Whether both describe one volume.
fn is_same(first: &Superblock, second: &Superblock, sink: &mut Sink) -> bool {
    let differs = |why| Corrupt::block(Structure::Superblock, 1, why, 1, 0);
    let same_volume = first.geo == second.geo
        && first.features == second.features
        && first.raw.uuid == second.raw.uuid
        && first.raw.qf_ino == second.raw.qf_ino
        && first.devices == second.devices;
    if !same_volume {
        sink.add(Kind::SuperblockCopies, differs("describes another volume than block 0"));
    } else if zerocopy::IntoBytes::as_bytes(&first.raw) != zerocopy::IntoBytes::as_bytes(&second.raw) {
        sink.add(Kind::SuperblockStale, differs("differs from the copy in block 0"));
    }
    same_volume
}

/// Checks the fields of a parsed superblock. Returns whether the device, which has `have` blocks, is large
/// enough.
fn check_fields(have: u64, sb: &Superblock, sink: &mut Sink) -> bool {
    let mut rules = Rules::new(Kind::Superblock, Structure::Superblock, Unit::Block, 0u64);
    let encoding = sb.raw.s_encoding.get();
    let known = !sb.features.contains(Features::CASEFOLD) || encoding == ENCODING_UTF8_12_1;
    rules.require(known, "s_encoding of a volume with casefold", encoding, ENCODING_UTF8_12_1);
    // Reason 0 is a shutdown on request.
    let stops = sb.raw.s_stop_reason.iter().skip(1).filter(|&&n| n != 0).count();
    rules.of(Kind::ErrorRecord).equal("reasons the file system stopped for", stops as u64, 0u64);
    rules.equal("kinds of corruption seen", segno_format::bits::popcount(&sb.raw.s_errors), 0u64);
    let need = sb.geo.main_end();
    let fits = have >= need.into();
    rules.of(Kind::DeviceTooSmall).require(fits, "blocks on the device", have, need);
    sink.add_broken(None, rules);
    fits
}
