//! One thing after the other, to say what is wrong.
use crate::evidence::{Volume, roll_forward};
use crate::judge::{curseg, load, nat, quota, totals, walk};
use crate::report::{Report, Sink, Summary};
use crate::{CheckError, CheckOptions, Pass, Progress};
use segno_device::BlockDevice;

pub(crate) fn run(
    device: &dyn BlockDevice,
    opts: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let mut sink = Sink::new(opts);
    let mut summary = Summary::default();
    let complete = match load::volume(device, &mut sink, progress)? {
        Some(volume) => {
            summary = check_loaded(&volume, opts, &mut sink, progress)?;
            true
        }
        None => false,
    };
    Ok(sink.into_report(summary, complete))
}

fn check_loaded(
    volume: &Volume<'_>,
    opts: &CheckOptions,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Summary, CheckError> {
    curseg::check(volume, sink);
    let nodes = nat::check_places(volume, sink);
    let roll_forward = roll_forward::find(volume, sink)?;
    let found = walk::explain(volume, &nodes, opts.data, sink, progress)?;
    progress(Progress::start(Pass::Totals));
    totals::check(volume, &found, sink);
    quota::check(volume, &found.usage, sink)?;
    Ok(totals::summary(volume, &found, roll_forward))
}
