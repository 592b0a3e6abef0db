//! Loading tables, judged as far as a check needs to go on; `None` when too little is left for that.
use crate::evidence::{Pack, Reader, Tables, Volume, superblock as copies};
use crate::judge::{checkpoint, nat_bits, superblock};
use crate::report::Sink;
use crate::{CheckError, Pass, Progress};
use segno_device::BlockDevice;

/// All but the NAT.
pub(crate) fn tables<'a>(
    device: &'a dyn BlockDevice,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Tables<'a>>, CheckError> {
    let reader = Reader::new(device);
    progress(Progress::start(Pass::Superblock));
    let Some(sb) = superblock::in_force(&copies::load(&reader)?, reader.len(), sink)? else {
        return Ok(None);
    };

    progress(Progress::start(Pass::Checkpoint));
    let Some(pack) = Pack::load(&reader, &sb.geo, sink)? else { return Ok(None) };
    if !checkpoint::check(&pack, &sb, sink) {
        return Ok(None);
    }
    progress(Progress::start(Pass::Sit));
    Tables::load(reader, sb, pack, sink).map(Some)
}

pub(crate) fn volume<'a>(
    device: &'a dyn BlockDevice,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Volume<'a>>, CheckError> {
    let Some(tables) = tables(device, sink, progress)? else { return Ok(None) };
    progress(Progress::start(Pass::Nat));
    let volume = Volume::load(tables, sink)?;
    nat_bits::check(&volume, &volume.nat.stored_in_use, sink)?;
    Ok(Some(volume))
}
