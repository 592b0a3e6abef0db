//! The operations of both sides, and the turn of a volume.

use anyhow::Result;

use super::job::Job;

/// One of the two file systems that the volumes pass between.
pub trait Side {
    fn name(&self) -> &'static str;

    /// Makes the file system.
    fn format(&self, job: &Job) -> Result<()>;

    /// Mounts each volume, runs its script, unmounts. One result for each job.
    fn visit(&self, turns: &[Turn<'_>]) -> Vec<Result<()>>;

    /// Mounts each volume, runs its script, and loses power when every script has kept `promises` of them.
    fn cut(&self, turns: &[Turn<'_>], promises: &Promises) -> Vec<Result<()>>;
}

/// A volume and the script to run while it is mounted.
pub struct Turn<'a> {
    pub job: &'a Job,
    /// Names the files of this turn in the job's folder.
    pub label: String,
    /// Shell script; `$DIR` is where the volume is mounted, `$OUT` the job's folder, `$XTASK` this program, and
    /// `$READ_ONLY` is not empty where nothing can be changed.
    pub script: String,
}

/// When the power is cut.
pub struct Promises {
    /// File in the job's folder that gets a line for each promise.
    pub log: &'static str,
    pub lines: usize,
    /// How long after that.
    pub delay: std::time::Duration,
}
