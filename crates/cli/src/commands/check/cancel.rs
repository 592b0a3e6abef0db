//! Ctrl-C: before the first write the program ends at once, after it only once the volume is whole.
use crate::exit::fsck;
use anyhow::{Context, Result};
use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// How far the program is.
#[derive(Debug, Default)]
pub enum Phase {
    /// Nothing was written.
    #[default]
    Reading,
    /// Nothing but this file, which is removed.
    Making(PathBuf),
    /// The volume.
    Writing,
}

/// The effect of a signal.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    End(Option<PathBuf>),
    Finish,
}

/// Ends the program on a signal.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    phase: Arc<Mutex<Phase>>,
    watches: Arc<AtomicBool>,
}

impl Cancel {
    /// Starts the thread that waits for signals, once. Until then a signal ends the program as it ends any other.
    pub fn watch(&self) -> Result<()> {
        if self.watches.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot handle signals")?;
        let shared = self.clone();
        thread::spawn(move || signals.forever().for_each(|_| shared.obey()));
        Ok(())
    }

    pub fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Holds the lock to the end, so that no write begins meanwhile.
    fn obey(&self) {
        let phase = self.phase.lock();
        match verdict(&phase) {
            Verdict::Finish => {
                eprintln!("segno: the volume is being written: the program ends when that is done");
            }
            Verdict::End(made) => {
                // An incomplete copy is no volume.
                let _gone = made.map(std::fs::remove_file);
                eprintln!("segno: cancelled; nothing was changed");
                exit(fsck::CANCELLED.into());
            }
        }
    }
}

fn verdict(phase: &Phase) -> Verdict {
    match phase {
        Phase::Reading => Verdict::End(None),
        Phase::Making(file) => Verdict::End(Some(file.clone())),
        Phase::Writing => Verdict::Finish,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_never_interrupts_writes() {
        assert_eq!(verdict(&Phase::default()), Verdict::End(None));
        assert_eq!(verdict(&Phase::Making("copy".into())), Verdict::End(Some("copy".into())));
        assert_eq!(verdict(&Phase::Writing), Verdict::Finish);
    }
}
