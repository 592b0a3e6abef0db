//! Repair: the plan, and writing it.
use super::{Args, judge, replay};
use anyhow::{Context, Result, bail, ensure};
use segno_check::{CheckError, Report};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_repair::{Overlay, Pending, Plan, PlanOptions, RepairError, Undo};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// A plan, or why there is none.
pub type Planned = Result<Plan, String>;

/// Plans the repair of a volume with this report.
pub fn plan(args: &Args, device: &Arc<dyn BlockDevice>, report: &Report) -> Result<Planned> {
    let options = PlanOptions { restore_names: !args.unattended() };
    // The planner finds the chain itself.
    let waits = report.summary.roll_forward.fsynced == 0 && replay::is_pending(device, report)?;
    let pending = if waits { Pending::Journal } else { Pending::Chain };
    let mut replay = |overlay: Arc<Overlay>| replay::replay(overlay).map_err(|e| e.to_string());
    let planned = segno_repair::plan(device, pending, &mut replay, options);
    match planned {
        Ok(plan) => Ok(Ok(plan)),
        Err(RepairError::Refused(why)) => Ok(Err(why)),
        Err(RepairError::Check(e @ CheckError::Io { .. })) => Err(judge::unreadable(args, e.into())),
        Err(e) => Err(e.into()),
    }
}

/// Writes the plan: to the volume, or to a copy of it.
pub fn write(args: &Args, device: &Arc<dyn BlockDevice>, plan: &Plan) -> Result<()> {
    let target = match &args.to {
        Some(copy) => copied(args, copy)?,
        None => device.clone(),
    };
    if let Some(path) = &args.undo {
        let undo = Undo::of(plan, &*target).context("reading what will be overwritten")?;
        let context = || format!("cannot write {}, so nothing was repaired", path.display());
        let file = File::create_new(path).with_context(context)?;
        let mut out = BufWriter::new(&file);
        undo.save(&mut out)
            .and_then(|()| out.flush())
            .and_then(|()| file.sync_all())
            .with_context(context)?;
    }
    plan.apply(&*target).context("writing the repair; the volume is as it was, or repaired")
}

/// A copy of the image, to be repaired in place of it.
pub fn copied(args: &Args, copy: &Path) -> Result<Arc<dyn BlockDevice>> {
    let [image] = args.image.as_slice() else { bail!("--to takes volumes on one device") };
    ensure!(!copy.exists(), "{} exists already; name a new file", copy.display());
    std::fs::copy(image, copy)
        .with_context(|| format!("cannot copy {} to {}", image.display(), copy.display()))?;
    Ok(Arc::new(FileDevice::open(copy, OpenOptions::default())?))
}

/// Puts back what an earlier repair has overwritten.
pub fn undo(args: &Args, path: &Path) -> Result<()> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let undo = Undo::load(&mut BufReader::new(file)).with_context(context)?;
    let device = judge::open(args, false)?;
    undo.put_back(&*device).with_context(|| format!("putting back the blocks of {}", args.name()))
}
