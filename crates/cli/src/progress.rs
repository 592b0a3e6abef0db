//! A progress line on standard error, if that is a terminal.
use segno_format::size;
use segno_format::text;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);

pub struct Progress {
    watched: bool,
    last: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { watched: io::stderr().is_terminal(), last: None }
    }
}

impl Progress {
    /// Shows the line, unless it was shown a moment ago.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        if !self.watched || self.last.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        self.put(&format!("\r\x1b[K{}", text::line(line().as_bytes())));
    }

    /// Shows how many files and bytes were copied, and the last one's path.
    pub fn show_files(&mut self, files: u64, bytes: u64, path: impl FnOnce() -> String) {
        self.show(|| format!("{files} files, {}  {}", size::human(bytes), path()));
    }

    fn put(&mut self, text: &str) {
        let mut err = io::stderr().lock();
        // A terminal that went away is no reason to stop working.
        self.watched = err.write_all(text.as_bytes()).and_then(|()| err.flush()).is_ok();
    }
}

impl Drop for Progress {
    /// Clears the line.
    fn drop(&mut self) {
        if self.watched && self.last.is_some() {
            self.put("\r\x1b[K");
        }
    }
}
