//! The report in words.
use super::{Args, Done};
use anyhow::Result;
use segno::{Judged, Severity};
use std::io::Write;

pub fn print(out: &mut impl Write, judged: &Judged) -> Result<()> {
    let report = &judged.report;
    for p in &report.problems {
        let severity = match p.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(out, "{severity}: {p}")?;
    }
    let listed = report.problems.len() as u64;
    let all = report.errors.saturating_add(report.warnings);
    if all > listed {
        writeln!(out, "… and {} more", all - listed)?;
    }
    let s = &report.summary;
    if report.complete && !judged.quick {
        writeln!(
            out,
            "{} files, {} directories, {} symlinks, {} others in {} nodes and {} data blocks; {} of {} segments free",
            s.files,
            s.dirs,
            s.symlinks,
            s.special_files,
            s.nodes,
            s.data_blocks,
            s.free_segments,
            s.main_segments
        )?;
    }
    if report.complete {
        // The check ran on the volume after the replay, which has a clean checkpoint.
        let unmount = match (judged.replayed, s.clean_unmount) {
            (true, _) => {
                "not after a clean unmount: what a crash left is included, and the next mount replays it"
            }
            (false, true) => "after a clean unmount",
            (false, false) => "not after a clean unmount",
        };
        writeln!(out, "checkpoint {:#x} in pack {}, {unmount}", s.checkpoint_ver, s.pack)?;
    }
    if let Some(why) = judged.lost_checkpoint() {
        writeln!(out, "error: something durable is lost: {why}")?;
    } else if let Some(e) = judged.replay_error() {
        writeln!(out, "error: what a crash left cannot be replayed: {e}")?;
    } else if !judged.replayed && s.roll_forward.fsynced > 0 {
        writeln!(out, "{} fsynced nodes wait for the next mount to recover them", s.roll_forward.fsynced)?;
    }
    if let Some(why) = judged.lost_changes() {
        writeln!(out, "error: the journal has no effect: {why}. The next mount begins a new one")?;
    }
    match (report.complete, report.errors) {
        (false, _) => writeln!(out, "the volume is too damaged to look further")?,
        (true, 0) if judged.is_clean() => writeln!(out, "clean")?,
        (true, n) => {
            let lost = [judged.lost_checkpoint(), judged.lost_changes()];
            let n = n.saturating_add(lost.iter().flatten().count() as u64);
            writeln!(out, "{n} error(s), {} warning(s)", report.warnings)?;
        }
    }
    if report.data_errors > 0 {
        writeln!(out, "a repair does not restore the content of clusters")?;
    }
    Ok(())
}

/// Prints which repairs were made, or would be.
pub fn print_done(out: &mut impl Write, done: &Done, args: &Args) -> Result<()> {
    let name = args.name();
    if done.replayed {
        writeln!(out, "what a crash left was replayed")?;
    }
    if let Some(copy) = args.to.as_ref().filter(|_| done.copied) {
        writeln!(out, "copied to {} unchanged: there is nothing to repair", copy.display())?;
    }
    if let Some(dir) = &done.stale_mount {
        writeln!(
            out,
            "restart the system, or unmount {}, before anything is written: the mount does not know of the change",
            dir.display()
        )?;
    }
    match &done.planned {
        None => {}
        Some(Err(why)) => writeln!(out, "not repaired, nothing was written: {why}")?,
        Some(Ok(plan)) => {
            for action in &plan.actions {
                writeln!(out, "{}: {action}", if action.loss { "loss" } else { "repair" })?;
            }
            let blocks = plan.addresses().count();
            match (done.repaired, plan.has_loss() && args.unattended()) {
                (true, _) => writeln!(out, "repaired, {blocks} blocks written")?,
                (false, true) => {
                    writeln!(out, "not repaired, as data would be lost: `segno check -y {name}` repairs it")?;
                }
                (false, false) => writeln!(out, "a repair would write {blocks} blocks")?,
            }
        }
    }
    Ok(())
}
