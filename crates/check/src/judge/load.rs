//! Loading a volume, with the checks that everything else depends on; `None` if too little is left to
//! continue.
use crate::evidence::{Pack, Reader, Volume, superblock as copies};
use crate::judge::{checkpoint, superblock};
use crate::report::Sink;
use crate::{CheckError, Pass, Progress};
use segno_device::BlockDevice;

pub(crate) fn volume<'a>(
    device: &'a dyn BlockDevice,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Volume<'a>>, CheckError> {
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
    let volume = Volume::load(reader, sb, pack, sink)?;
    progress(Progress::start(Pass::Nat));
    Ok(Some(volume))
}
