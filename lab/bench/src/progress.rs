//! Progress on standard error: a line that is updated in place on a terminal, otherwise a line every few seconds.
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const ON_TERMINAL: Duration = Duration::from_millis(100);
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Progress of a run.
pub struct Progress {
    terminal: bool,
    begun: Instant,
    shown: Option<Instant>,
    steps: usize,
    done: usize,
}

impl Progress {
    /// A run with a number of steps of about equal length; 0 if unknown.
    pub fn new(steps: usize) -> Self {
        Self { terminal: io::stderr().is_terminal(), begun: Instant::now(), shown: None, steps, done: 0 }
    }

    /// Starts the next step.
    pub fn step(&mut self, what: &str) {
        let line = self.line(what);
        self.done += 1;
        self.put(&line);
    }

    /// Details of the current step; rate-limited.
    pub fn detail(&mut self, what: impl FnOnce() -> String) {
        let pause = if self.terminal { ON_TERMINAL } else { ELSEWHERE };
        if self.shown.is_none_or(|at| at.elapsed() >= pause) {
            let line = what();
            self.put(&line);
        }
    }

    fn line(&self, what: &str) -> String {
        let spent = self.begun.elapsed();
        if self.steps == 0 {
            return format!("{}: {what}", clock(spent));
        }
        let left = match self.done {
            0 => String::new(),
            done => {
                let left = spent.div_f64(done as f64).mul_f64(self.steps.saturating_sub(done) as f64);
                format!(", about {} to go", clock(left))
            }
        };
        format!("{}: {} of {}{left}: {what}", clock(spent), self.done + 1, self.steps.max(self.done + 1))
    }

    fn put(&mut self, line: &str) {
        self.shown = Some(Instant::now());
        let mut err = io::stderr().lock();
        // A closed standard error does not stop the run.
        let _unseen = if self.terminal { write!(err, "\r\x1b[K{line}") } else { writeln!(err, "{line}") };
        let _unseen = err.flush();
    }
}

impl Drop for Progress {
    /// Leaves a clean line behind.
    fn drop(&mut self) {
        if self.terminal && self.shown.is_some() {
            let _unseen = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn clock(d: Duration) -> String {
    format!("{}:{:02}", d.as_secs() / 60, d.as_secs() % 60)
}
