//! The superblock copies against the format, the device and each other.
use crate::CheckError;
use crate::report::{Kind, Sink};
use segno_format::superblock::{RawSuperblock, Superblock};
use segno_format::{Corrupt, Features, Structure};

/// The only encoding there is.
const ENCODING_UTF8_12_1: u16 = 1;

/// The copy that a mount of a device of so many blocks would use: the first valid one, if the volume is supported. Copies that contradict
/// each other are damage.
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
    check_encoding(&sb, sink);
    check_records(&sb, sink);
    Ok(check_size(blocks, &sb, sink).then_some(sb))
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

fn check_encoding(sb: &Superblock, sink: &mut Sink) {
    let encoding = sb.raw.s_encoding.get();
    if sb.features.contains(Features::CASEFOLD) && encoding != ENCODING_UTF8_12_1 {
        let why = "s_encoding of a volume with casefold";
        let (found, expected) = (encoding.into(), ENCODING_UTF8_12_1.into());
        sink.add(Kind::Superblock, Corrupt::block(Structure::Superblock, 0, why, found, expected));
    }
}

fn check_records(sb: &Superblock, sink: &mut Sink) {
    // Reason 0 is a shutdown that somebody asked for.
    let stops = sb.raw.s_stop_reason.iter().skip(1).filter(|&&n| n != 0).count();
    if stops != 0 {
        let e =
            Corrupt::block(Structure::Superblock, 0, "reasons the file system stopped for", stops as u64, 0);
        sink.add(Kind::ErrorRecord, e);
    }
    let errors = segno_format::bits::popcount(&sb.raw.s_errors);
    if errors != 0 {
        let e = Corrupt::block(Structure::Superblock, 0, "kinds of corruption seen", errors.into(), 0);
        sink.add(Kind::ErrorRecord, e);
    }
}

fn check_size(have: u64, sb: &Superblock, sink: &mut Sink) -> bool {
    let need = u64::from(sb.geo.main_end());
    if have < need {
        let e = Corrupt::block(Structure::Superblock, 0, "blocks on the device", have, need);
        sink.add(Kind::DeviceTooSmall, e);
    }
    have >= need
}
