//! Processes that work on the mount. One of them prints a number for each change that was acknowledged to it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a program may take to notice that its file system is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes, and the last number that was printed.
pub struct Worker {
    talker: Child,
    reader: JoinHandle<()>,
    last: Arc<AtomicU64>,
    /// Ended with the worker.
    others: Vec<Child>,
}

impl Worker {
    /// Starts a command whose lines of output are the numbers of acknowledged changes.
    pub fn start(command: &mut Command, others: Vec<Child>) -> Result<Self> {
        let mut talker = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let lines = BufReader::new(talker.stdout.take().context("no output to read")?).lines();
        let last = Arc::<AtomicU64>::default();
        let newest = last.clone();
        let reader = spawn(move || {
            for number in lines.map_while(Result::ok).filter_map(|l| l.trim().parse().ok()) {
                newest.fetch_max(number, Ordering::Relaxed);
            }
        });
        Ok(Self { talker, reader, last, others })
    }

    /// The last thing that was acknowledged until now.
    pub fn acknowledged(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Waits for the end, when the mount fails. Returns the last acknowledged number.
    pub fn end(mut self) -> Result<u64> {
        let begun = Instant::now();
        while self.talker.try_wait().context("waiting for the work")?.is_none() {
            if begun.elapsed() > PATIENCE {
                end_group(&self.talker).context("ending the work")?;
            }
            sleep(Duration::from_millis(20));
        }
        for other in &mut self.others {
            end_with_children(other)?;
        }
        match self.reader.join() {
            Ok(()) => Ok(self.last.load(Ordering::Relaxed)),
            Err(_) => bail!("the reader of acknowledgements failed"),
        }
    }
}

/// Ends a process and its descendants: git reads a directory that fails for ever, and holds the output open.
fn end_group(leader: &Child) -> Result<()> {
    Ok(kill_process_group(Pid::from_child(leader), Signal::KILL)?)
}

/// Ends a process and those it started.
fn end_with_children(child: &mut Child) -> Result<()> {
    let below = children(child.id());
    child.kill().context("ending a program")?;
    child.wait().context("waiting for a program")?;
    for pid in below {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}

fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|p| p.parse().ok()).collect()
}
