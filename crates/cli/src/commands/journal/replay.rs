//! `segno journal replay`.
use super::found::Found;
use super::info::Waiting;
use super::{ReplayArgs, Target};
use crate::document::Schema;
use crate::image;
use crate::out::stdout;
use anyhow::{Context, Result, bail, ensure};
use segno_engine::options::JournalMode;
use segno_engine::{MountOptions, Volume};
use segno_format::size;
use segno_journal::{Journal, Opened, Stale};
use std::io::Write;
use std::sync::atomic::Ordering;

pub fn run(args: &ReplayArgs) -> Result<()> {
    let ReplayArgs { target: args, force } = args;
    let found = Found::open(&args.of, false)?;
    if let (true, Some(Opened::Stale(Stale::DamagedGroup { .. }))) = (force, found.state()?) {
        Journal::give_up_damage(found.area.clone(), &found.checkpoint, &*found.device)
            .context("cannot give up what is damaged")?;
    }
    let waiting = match found.state()? {
        None => bail!("there is no journal {}", found.describe()),
        Some(Opened::Stale(why)) if why.is_damage() => {
            return Err(segno_engine::Error::JournalAhead(why).into());
        }
        Some(Opened::Stale(why @ Stale::OtherVolume)) => bail!("the journal has no effect: {why}"),
        Some(Opened::Stale(why)) => {
            bail!("the journal has no effect: {why}; `segno journal discard` erases it")
        }
        Some(Opened::Usable(replay)) => Waiting::of(&replay)?,
    };
    // Without changes, a mount that was cut off may have left its mark.
    if waiting.groups > 0 || found.guarded || found.external {
        recover(args, &found, waiting.groups > 0)?;
    }
    let mut out = stdout();
    if args.json {
        Schema("segno.journal-replay", 1).print(&mut out, &waiting)?;
    } else if waiting.groups == 0 {
        writeln!(out, "nothing to replay")?;
    } else {
        writeln!(
            out,
            "replayed {} epochs: {} records of {} inodes, {}",
            waiting.epochs,
            waiting.records,
            waiting.inodes,
            size::human(waiting.bytes)
        )?;
    }
    Ok(())
}

/// A mount recovers; the unmount leaves volume and journal clean.
fn recover(args: &Target, found: &Found, has_changes: bool) -> Result<()> {
    let external = found.file.is_some().then(|| JournalMode::External(found.area.clone()));
    let journal = external.unwrap_or(JournalMode::Auto);
    let options =
        MountOptions { journal, background: false, observer: image::observer(), ..MountOptions::default() };
    let volume =
        Volume::mount(found.device.clone(), options).with_context(|| image::cannot_read(&args.of.image))?;
    let replayed = volume.stats().journal_replayed.load(Ordering::Relaxed);
    ensure!(replayed > 0 || !has_changes, "the journal was not replayed");
    volume.unmount().with_context(|| format!("closing {}", args.of.image.display()))
}
