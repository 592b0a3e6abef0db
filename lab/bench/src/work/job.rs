//! Descriptions of workloads, as in the files of `jobs/`.
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One workload. Exactly one of its kinds is given.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub name: String,
    pub threads: usize,
    /// Duration; unused by kinds with a fixed amount of work.
    pub seconds: Option<f64>,
    pub flow: Option<Flow>,
    pub data: Option<Data>,
    pub metadata: Option<Metadata>,
    pub sqlite: Option<Sqlite>,
}

/// Steps on files of one directory, repeated by each thread.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub files: u32,
    /// Share of the files that exist initially.
    pub present: f64,
    /// Mean size of a file, and of appends; sizes vary between half and one and a half of it.
    pub size: u64,
    pub append: u64,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Removes a file.
    Delete,
    /// Creates and opens a missing file.
    Create,
    /// Writes a whole file.
    Fill,
    Append,
    Fsync,
    Close,
    /// Opens an existing unused file.
    Open,
    /// Reads the whole file.
    Read,
    Stat,
    /// Appends to the thread's own log.
    Log,
}

/// Blocks of one file for each thread, or of one for all.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Bytes of a file.
    pub size: u64,
    pub block: usize,
    pub random: bool,
    pub shared: bool,
    pub read_percent: u64,
    /// Writes between two syncs; 0 never syncs.
    pub fsync_every: u64,
}

/// A number of operations of each kind by each thread in its own directory.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    pub each: u32,
    pub steps: Vec<MetaStep>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum MetaStep {
    Mkdir,
    Rmdir,
    Create,
    Unlink,
    List,
    #[serde(rename = "create-4k")]
    Create4k,
    #[serde(rename = "copy-4k")]
    Copy4k,
    #[serde(rename = "unlink-4k")]
    Unlink4k,
}

/// Single-row transactions through the program `sqlite3`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sqlite {
    pub transactions: u32,
    pub journals: Vec<String>,
}

/// The jobs that come with the program.
pub const BUILT_IN: [(&str, &str); 8] = [
    ("varmail", include_str!("../../jobs/varmail.toml")),
    ("fileserver", include_str!("../../jobs/fileserver.toml")),
    ("webserver", include_str!("../../jobs/webserver.toml")),
    ("webproxy", include_str!("../../jobs/webproxy.toml")),
    ("oltp", include_str!("../../jobs/oltp.toml")),
    ("fsync32", include_str!("../../jobs/fsync32.toml")),
    ("metadata", include_str!("../../jobs/metadata.toml")),
    ("sqlite", include_str!("../../jobs/sqlite.toml")),
];

impl Job {
    /// A job by its name, or from a file.
    pub fn named(name: &str) -> Result<Self> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
            return Self::parse(text).with_context(|| format!("the job {name}"));
        }
        let known = BUILT_IN.map(|(n, _)| n).join(", ");
        let text = std::fs::read_to_string(Path::new(name))
            .with_context(|| format!("{name} is no file, and none of the jobs {known}"))?;
        Self::parse(&text).with_context(|| name.to_owned())
    }

    pub fn parse(text: &str) -> Result<Self> {
        let job: Self = toml::from_str(text)?;
        let kinds = [job.flow.is_some(), job.data.is_some(), job.metadata.is_some(), job.sqlite.is_some()];
        ensure!(
            kinds.iter().filter(|k| **k).count() == 1,
            "one of flow, data, metadata and sqlite is needed"
        );
        ensure!(job.threads >= 1, "threads must be 1 or more");
        let timed = job.flow.is_some() || job.data.is_some();
        ensure!(!timed || job.seconds.is_some_and(|s| s > 0.0), "seconds must say how long it runs");
        if let Some(f) = &job.flow {
            f.check()?;
        }
        if let Some(d) = &job.data {
            ensure!(d.block > 0 && d.size >= d.block as u64, "size must hold at least one block");
        }
        Ok(job)
    }
}

impl Flow {
    /// Checks the order of steps: a file is opened before use and closed at the end.
    fn check(&self) -> Result<()> {
        ensure!((0.0..=1.0).contains(&self.present), "present is a share from 0 to 1");
        let mut open = false;
        for step in &self.steps {
            match step {
                Step::Create | Step::Open if open => bail!("{step:?} while a file is open"),
                Step::Create | Step::Open => open = true,
                Step::Fill | Step::Append | Step::Fsync | Step::Close | Step::Read if !open => {
                    bail!("{step:?} without an open file")
                }
                Step::Close => open = false,
                _ => {}
            }
        }
        ensure!(!open && !self.steps.is_empty(), "the steps must end with every file closed");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_jobs_are_valid() {
        for (name, _) in BUILT_IN {
            assert_eq!(Job::named(name).unwrap().name, name);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let flow = "files = 1\npresent = 1.0\nsize = 1\nappend = 1\n";
        for (text, why) in [
            ("name = 'a'\nthreads = 1\n", "one of"),
            ("name = 'a'\nthreads = 1\nspeed = 3\n", "speed"),
            (
                &format!("name = 'a'\nthreads = 1\nseconds = 1\n[flow]\n{flow}steps = ['read']"),
                "without an open",
            ),
            (&format!("name = 'a'\nthreads = 1\nseconds = 1\n[flow]\n{flow}steps = ['open']"), "closed"),
            (&format!("name = 'a'\nthreads = 1\n[flow]\n{flow}steps = ['stat']"), "seconds"),
        ] {
            let e = format!("{:#}", Job::parse(text).unwrap_err());
            assert!(e.contains(why), "{e}");
        }
        assert!(format!("{:#}", Job::named("no-such-job").unwrap_err()).contains("varmail"));
    }
}
