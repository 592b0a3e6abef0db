//! Repair: the plan, and writing it.
use super::Args;
use super::cancel::{Cancel, Phase};
use super::judge;
use crate::image;
use crate::new_file::NewFile;
use crate::path::cause;
use anyhow::{Context, Result};
use segno::{Checker, Judged, RepairPlan as Plan, RepairUndo as Undo};
use segno_device::{BlockDevice, FileDevice};
use segno_format::{BLOCK_SIZE, Block};
use segno_repair::RepairError;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// Blocks that are copied at once.
const RUN: usize = 256;

/// A repair plan, or the reason why the volume cannot be repaired.
pub type Planned = Result<Plan, String>;

/// Plans the repair of a volume.
pub fn plan(args: &Args, checker: &Checker, judged: &Judged) -> Result<Planned> {
    match checker.plan_repair(judged, !args.unattended()) {
        Ok(plan) => Ok(Ok(plan)),
        Err(e) if judge::is_failure(&e) => Err(judge::unreadable(args, &e)),
        Err(e) => match e.source().and_then(|e| e.downcast_ref()) {
            Some(RepairError::Refused(why)) => Ok(Err(why.clone())),
            _ => Err(cause(&e)),
        },
    }
}

/// Writes the plan: to the volume, or to a copy of it.
pub fn write(args: &Args, device: &Arc<dyn BlockDevice>, plan: &Plan, cancel: &Cancel) -> Result<()> {
    let copy = args.to.as_deref().map(|copy| copied(args, &**device, copy, cancel)).transpose()?;
    let target = copy.as_ref().map_or(device, |copy| &copy.device);
    if let Some(path) = &args.undo {
        let undo = Undo::of(plan, &**target).context("reading what will be overwritten")?;
        let context = || format!("cannot write {}, so nothing was repaired", path.display());
        let new = File::options().write(true).create_new(true).mode(image::copy_mode(&args.image)).open(path);
        let file = new.with_context(context)?;
        cancel.enter(Phase::Making(path.clone()));
        let mut out = BufWriter::new(&file);
        let saved = undo.save(&mut out).and_then(|()| out.flush()).and_then(|()| file.sync_all());
        if saved.is_err() {
            // The error of the write is the one to report.
            let _gone = std::fs::remove_file(path);
        }
        saved.with_context(context)?;
    }
    cancel.enter(Phase::Writing);
    plan.apply(&**target).context("writing the repair; the volume is as it was, or repaired")?;
    copy.map_or(Ok(()), |copy| copy.new.finish())
}

/// A copy of the image that gets its name when it is repaired.
pub struct Copied {
    pub device: Arc<dyn BlockDevice>,
    pub new: NewFile,
}

/// A copy of the image, to be repaired in place of it. Zeros become holes.
pub fn copied(args: &Args, from: &dyn BlockDevice, copy: &Path, cancel: &Cancel) -> Result<Copied> {
    let bytes = from.block_count().saturating_mul(BLOCK_SIZE as u64);
    let new = NewFile::create_new(copy, image::copy_mode(&args.image))?;
    let device = new.device(bytes)?;
    cancel.enter(Phase::Making(new.temporary().to_owned()));
    copy_blocks(from, &device)
        .with_context(|| format!("cannot copy the volume to {}, so nothing was repaired", copy.display()))?;
    Ok(Copied { device: Arc::new(device), new })
}

fn copy_blocks(from: &dyn BlockDevice, to: &FileDevice) -> std::io::Result<()> {
    let mut blocks = vec![Block::zeroed(); RUN];
    let mut next = from.next_data(0);
    while next < from.block_count() {
        let at = next;
        let count = RUN.min(usize::try_from(from.block_count() - at).unwrap_or(RUN));
        let run = blocks.get_mut(..count).unwrap_or_default();
        from.read(at, run)?;
        for (addr, block) in (at..).zip(run.iter()).filter(|(_, block)| !block.is_zero()) {
            to.write(addr, &[block])?;
        }
        next = from.next_data(at + count as u64);
    }
    to.flush()
}

/// Puts back what an earlier repair has overwritten.
pub fn undo(args: &Args, path: &Path, cancel: &Cancel) -> Result<()> {
    let context = || format!("cannot read {}", path.display());
    let open = || Ok((File::open(path).with_context(context)?, judge::open(args, false)?.device));
    let (file, device) = args.confinement().opened(args.first(), open)?;
    cancel.watch()?;
    let undo = Undo::load(&mut BufReader::new(file)).with_context(context)?;
    cancel.enter(Phase::Writing);
    undo.put_back(&*device).with_context(|| format!("putting back the blocks of {}", args.name()))
}
