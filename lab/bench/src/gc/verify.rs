//! The end of a run: checker, sums, placement, and every page read back.
use super::placement;
use super::rig::Rig;
use anyhow::{Context, Result, anyhow, bail, ensure};
use segno_engine::{MountOptions, Volume};
use segno_format::{BLOCK_SIZE, Block};
use std::sync::atomic::Ordering;

/// Runs a part of the experiment. A fault that the verifying device found explains whatever error came of it.
pub fn explained<R>(rig: &mut Rig, part: impl FnOnce(&mut Rig) -> Result<R>) -> Result<R> {
    let done = part(rig);
    match rig.dev.verifier.fault() {
        Some(fault) => bail!("{fault}"),
        None => done,
    }
}

/// Unmounts and checks the volume, then mounts it again and reads every page. Returns the number of violated zone rules.
pub fn verify(rig: &mut Rig) -> Result<u64> {
    explained(rig, |rig| Ok(rig.v.unmount()?))?;
    let report = segno_check::check(&*rig.dev.top, &segno_check::CheckOptions::default(), &mut |_| {})
        .map_err(|e| anyhow!("check: {e}"))?;
    if let Some(first) = report.problems.first() {
        bail!("the checker found {} problems, first: {first}", report.problems.len());
    }
    placement::check(rig).context("placement")?;
    check_sums(rig)?;
    explained(rig, read_back)?;
    Ok(rig.dev.zoned.counts().violations)
}

/// What the engine counted by class is what was written to the main area; the rest is metadata.
fn check_sums(rig: &Rig) -> Result<()> {
    let s = rig.v.stats();
    let [data, moved, nodes, dents] = [&s.data_blocks, &s.gc_data_blocks, &s.node_blocks, &s.dent_blocks]
        .map(|n| n.load(Ordering::Relaxed));
    let written = rig.dev.verifier.written();
    ensure!(data == written.user, "{data} user blocks counted, {} written", written.user);
    let main = data + moved + nodes + dents;
    ensure!(main == written.total(), "{main} blocks counted by class, {} written", written.total());
    Ok(())
}

fn read_back(rig: &mut Rig) -> Result<()> {
    let v =
        Volume::mount(rig.dev.top.clone(), MountOptions { background: false, ..MountOptions::default() })?;
    let (mut found, mut expected) = (Block::zeroed(), Block::zeroed());
    for page in (0..rig.versions.len() as u32).filter(|&page| rig.source.exists(page)) {
        let (ino, block) = rig.place_of(page);
        v.read(ino, block * BLOCK_SIZE as u64, &mut found.0).with_context(|| format!("page {page}"))?;
        rig.tag_of(page).fill(&mut expected.0);
        ensure!(found.0 == expected.0, "page {page} is not {:?}", rig.tag_of(page));
    }
    Ok(v.unmount()?)
}
