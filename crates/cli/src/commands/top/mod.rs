//! `segno top`: the counters of a mount, live.
mod figures;
mod view;

use crate::counters::CounterSnapshot;
use crate::{salvage, show};
use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGTERM};
use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use view::State;

/// Show the counters of a mount, live
///
/// Keys: s sorts the counters by group, change or name; p stops and resumes; ? explains the figures; arrows and page keys
/// scroll; q ends. The figures are those of `segno stats`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds between two readings of the counters
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    delay: u64,
    /// Any file or directory of the mount
    dir: PathBuf,
}

/// The effect of a key or of the clock.
enum Next {
    Draw,
    Look,
    End,
}

pub fn run(args: &Args) -> Result<()> {
    let first = CounterSnapshot::read(&args.dir)?;
    if !stdin().is_terminal() || !stdout().is_terminal() {
        bail!("top needs a terminal; `segno stats --watch 1 {}` prints the same figures", args.dir.display());
    }
    let told = salvage::set_by([SIGTERM, SIGHUP])?;
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let shown = show(&mut terminal, args, first, &told);
    let restored = ratatui::try_restore();
    shown?;
    restored.context("cannot restore the terminal: `reset` does")
}

fn show(
    terminal: &mut DefaultTerminal,
    args: &Args,
    first: CounterSnapshot,
    told: &AtomicBool,
) -> Result<()> {
    let mut state = State::new(show::path(&args.dir), first);
    let delay = Duration::from_secs(args.delay);
    loop {
        terminal.draw(|frame| view::draw(frame, &mut state)).context("cannot write to the terminal")?;
        match wait(&mut state, delay, told)? {
            Next::Draw => {}
            Next::Look => state.advance(CounterSnapshot::read(&args.dir)?),
            Next::End => return Ok(()),
        }
    }
}

/// Waits for a key, a new size, or until it is time to look again.
fn wait(state: &mut State, delay: Duration, told: &AtomicBool) -> Result<Next> {
    let left = delay.saturating_sub(state.age());
    let ready = event::poll(left).context("cannot read the terminal")?;
    if told.load(Ordering::Relaxed) {
        return Ok(Next::End);
    }
    if !ready {
        state.looked();
        return Ok(if state.paused { Next::Draw } else { Next::Look });
    }
    match event::read().context("cannot read the terminal")? {
        Event::Key(key) if key.kind == KeyEventKind::Press => Ok(pressed(state, key)),
        _ => Ok(Next::Draw),
    }
}

fn pressed(state: &mut State, key: KeyEvent) -> Next {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Next::End,
        KeyCode::Esc if state.explains => state.explains = false,
        KeyCode::Char('q') | KeyCode::Esc => return Next::End,
        KeyCode::Char('p' | ' ') => state.paused = !state.paused,
        KeyCode::Char('s') => state.order = state.order.next(),
        KeyCode::Char('?' | 'h') => state.explains = !state.explains,
        KeyCode::Down => state.scroll = state.scroll.saturating_add(1),
        KeyCode::Up => state.scroll = state.scroll.saturating_sub(1),
        KeyCode::PageDown => state.scroll = state.scroll.saturating_add(10),
        KeyCode::PageUp => state.scroll = state.scroll.saturating_sub(10),
        KeyCode::Home => state.scroll = 0,
        _ => {}
    }
    Next::Draw
}
