//! The check that examines one thing after the other and reports the errors.
use crate::evidence::roll_forward;
use crate::judge::{curseg, load, nat, nat_bits, totals, walk};
use crate::report::{Report, Sink, Summary};
use crate::{CheckError, CheckOptions, Progress};
use segno_device::BlockDevice;

pub(crate) fn run(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let mut sink = Sink::new(opts);
    let Some(mut volume) = load::volume(device, &mut sink, progress)? else {
        return Ok(sink.into_report(Summary::default(), false));
    };
    volume.nat.read_all()?;
    nat_bits::check(&volume, &volume.nat.scan(|_, _| {})?, &mut sink)?;
    curseg::check(&volume, &mut sink);
    let nodes = nat::check_places(&volume, &mut sink)?;
    let roll_forward = roll_forward::find(&volume, &mut sink)?;
    let found = walk::explain(&volume, &nodes, opts.data, &mut sink, progress)?;
    let summary = totals::finish(&volume, found, roll_forward, &mut sink, progress)?;
    Ok(sink.into_report(summary, true))
}
