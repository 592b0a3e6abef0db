//! `segno ctl`: settings of a live mount.
use crate::exit::Outcome;
use anyhow::{Result, anyhow, bail};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use segno_fuse::{CONTEXTS_XATTR, GC_XATTR, LOOKUP_XATTR, SHUTDOWN_XATTR};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Settings and the attributes that carry them.
const SETTINGS: [(&str, &str); 4] = [
    ("writeback.contexts", CONTEXTS_XATTR),
    ("fsync.lookup", LOOKUP_XATTR),
    ("gc", GC_XATTR),
    ("shutdown", SHUTDOWN_XATTR),
];

#[derive(clap::Args)]
#[command(after_help = "\
Settings:
  writeback.contexts=auto|N  how many files are written back side by side; reads as the setting, the number in force and
                             what keeps it from being larger
  fsync.lookup=list|global|shadow  how fsync finds dirty nodes: in the file's list, among all as the kernel does, or in the
                             list while counting what the other would look at
  gc=normal|urgent|off|now   cleaning in the background: one section every few seconds while the mount is idle and its space
                             scattered; whatever is worth it, idle or not; none. now: whatever is worth it, before the
                             command ends. Reads as the mode and the sections emptied since mount
  shutdown=0|1|2             for crash tests: stops the volume until it is mounted again. 0: everything is written first,
                             1: names and attributes are, 2: nothing is, as if the power failed")]
pub struct Args {
    /// Any file or directory of the mount
    dir: PathBuf,
    /// Shows a setting, or changes it
    #[arg(required = true, value_name = "NAME[=VALUE]")]
    settings: Vec<String>,
}

pub fn run(args: &Args) -> Outcome {
    let mut out = stdout().lock();
    for word in &args.settings {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let Some((_, attribute)) = SETTINGS.iter().find(|(n, _)| *n == name) else {
            bail!("there is no setting {name}; `segno ctl --help` lists them");
        };
        if (name, value) == ("gc", Some("now")) {
            clean_all(&args.dir, attribute)?;
        } else if let Some(value) = value {
            setxattr(&args.dir, *attribute, value.as_bytes(), XattrFlags::empty())
                .map_err(|e| explain(e, &args.dir, word))?;
        }
        writeln!(out, "{name}={}", read(&args.dir, attribute)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A few sections at a time, so that the command can be stopped and no request takes long.
fn clean_all(dir: &Path, attribute: &str) -> Result<()> {
    loop {
        let before = read(dir, attribute)?;
        setxattr(dir, attribute, b"now", XattrFlags::empty()).map_err(|e| explain(e, dir, "gc=now"))?;
        if read(dir, attribute)? == before {
            return Ok(());
        }
    }
}

fn read(dir: &Path, attribute: &str) -> Result<String> {
    let mut buffer = [0; 256];
    let n = getxattr(dir, attribute, &mut buffer).map_err(|e| explain(e, dir, attribute))?;
    Ok(String::from_utf8_lossy(buffer.get(..n).unwrap_or_default()).into_owned())
}

fn explain(e: Errno, dir: &Path, what: &str) -> anyhow::Error {
    match e {
        Errno::OPNOTSUPP | Errno::NODATA => anyhow!("{} is not on a mount of segno", dir.display()),
        Errno::INVAL => {
            anyhow!("{what}: not a value of this setting, see `segno ctl --help`; nothing was changed")
        }
        Errno::PERM => {
            anyhow!("{what}: only root and the user who mounted {} change settings", dir.display())
        }
        e => anyhow!(e).context(format!("cannot set or read {what} of {}", dir.display())),
    }
}
