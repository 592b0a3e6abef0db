//! The report in words.
use super::Judged;
use anyhow::Result;
use segno::Severity;
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
        let left = if s.clean_unmount { "after a clean unmount" } else { "not after a clean unmount" };
        writeln!(out, "checkpoint {:#x} in pack {}, {left}", s.checkpoint_ver, s.pack)?;
    }
    if let Some(e) = &judged.mount_error {
        writeln!(out, "error: what a crash left cannot be replayed: {e}")?;
    } else if judged.replayed {
        writeln!(out, "with what a crash left to replay, which the next mount does")?;
    } else if s.roll_forward.fsynced > 0 {
        writeln!(out, "{} fsynced nodes wait for the next mount to recover them", s.roll_forward.fsynced)?;
    }
    match (report.complete, report.errors) {
        (false, _) => writeln!(out, "the volume is too damaged to look further")?,
        (true, 0) if judged.mount_error.is_none() => writeln!(out, "clean")?,
        (true, n) => writeln!(out, "{n} error(s), {} warning(s)", report.warnings)?,
    }
    Ok(())
}
