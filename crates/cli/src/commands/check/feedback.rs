//! Progress: a line on a terminal, or what fsck(8) reads from its checkers with `-C FD`.
use crate::progress::Progress;
use segno_check::{Pass, Progress as Step};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(200);

/// The path of a descriptor of this process.
pub fn path(fd: i32) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}

pub struct Feedback {
    line: Progress,
    /// The descriptor of `-C`, and the name of the device that its lines end with.
    fd: Option<(File, String)>,
    last: Option<Instant>,
    /// Start of the pass that runs, for the estimate.
    pass: Option<(Pass, Instant)>,
}

impl Feedback {
    /// Descriptor 0 selects the progress line on a terminal, which is always shown. A descriptor that is not
    /// open is ignored: progress is no reason to fail.
    pub fn new(fd: Option<i32>, image: String) -> Self {
        let open = |fd: i32| File::options().write(true).open(path(fd)).ok();
        let fd = fd.filter(|&fd| fd > 0).and_then(open).map(|file| (file, image));
        Self { line: Progress::default(), fd, last: None, pass: None }
    }

    pub fn show(&mut self, step: Step) {
        if self.pass.is_none_or(|(pass, _)| pass != step.pass) {
            self.pass = Some((step.pass, Instant::now()));
        }
        let (number, doing) = described(step.pass);
        let left = self.pass.and_then(|(_, start)| estimate(step, start.elapsed()));
        self.line.show(|| match (step.total, left) {
            (0, _) => format!("{doing} …"),
            (total, None) => format!("{doing} {} of {total}", step.done),
            (total, Some(s)) => format!("{doing} {} of {total}, about {s} s left", step.done),
        });
        self.report(number, step);
    }

    /// One line `PASS DONE TOTAL DEVICE`.
    fn report(&mut self, number: usize, step: Step) {
        let Some((file, image)) = &mut self.fd else { return };
        if step.done != 0 && self.last.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        if writeln!(file, "{number} {} {} {image}", step.done, step.total.max(1)).is_err() {
            self.fd = None;
        }
    }
}

/// Seconds left in a pass, once a part of it is done.
fn estimate(step: Step, spent: Duration) -> Option<u64> {
    let left = step.total.checked_sub(step.done)?;
    (step.done > 0 && spent >= Duration::from_secs(1)).then(|| {
        let ms = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
        ms.saturating_mul(left) / step.done / 1000
    })
}

/// The number of a pass, and the structures that it reads.
fn described(pass: Pass) -> (usize, &'static str) {
    match pass {
        Pass::Superblock => (1, "superblock"),
        Pass::Checkpoint => (2, "checkpoint"),
        Pass::Sit => (3, "segment information table"),
        Pass::Nat => (4, "node address table"),
        Pass::Nodes => (5, "nodes"),
        Pass::Walk => (6, "files and directories"),
        Pass::Totals => (7, "totals"),
    }
}
