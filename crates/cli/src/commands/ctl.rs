//! `segno ctl`: settings of a live mount.
use crate::completion::{Completing, assignments};
use crate::document::Schema;
use crate::exit::usage;
use crate::image;
use crate::mount::options::help;
use crate::out::stdout;
use anyhow::{Result, anyhow};
use clap::builder::StringValueParser;
use rustix::fs::{XattrFlags, setxattr};
use rustix::io::Errno;
use segno_fuse::{CONTEXTS_XATTR, GC_XATTR, LOOKUP_XATTR, SHUTDOWN_XATTR, trusted_name};
use serde_json::{Map, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A setting of a live mount.
pub struct Setting {
    pub name: &'static str,
    /// Its values, as help texts show them.
    pub values: &'static str,
    /// For `segno ctl --help` and docs/mount-options.md, without a period.
    pub help: &'static str,
    /// The extended attribute that carries it.
    attribute: &'static str,
}

pub const SETTINGS: [Setting; 4] = [
    Setting {
        name: "writeback.contexts",
        values: "auto|N",
        help: "number of files that are written back in parallel; reads as the setting, the number in force and the \
               reason that limits it",
        attribute: CONTEXTS_XATTR,
    },
    Setting {
        name: "fsync.lookup",
        values: "list|global|shadow",
        help: "how fsync finds dirty nodes: in the file's list, in one list of all files as the kernel does, or in the \
               list while counting what global would visit",
        attribute: LOOKUP_XATTR,
    },
    Setting {
        name: "gc",
        values: "normal|urgent|off|now",
        help: "background cleaning: one section every few seconds while the mount is idle and its free space \
               scattered; every section worth it, idle or not; none. now: every section worth it, before the command \
               returns. Reads as the mode and the number of sections emptied since mount",
        attribute: GC_XATTR,
    },
    Setting {
        name: "shutdown",
        values: "0|1|2",
        help: "for crash tests, on a mount with -o shutdown: stops the volume until it is mounted again. 0: after \
               everything is written, 1: after names and attributes are, 2: at once, as if the power failed",
        attribute: SHUTDOWN_XATTR,
    },
];

fn settings_help() -> String {
    let rows = SETTINGS.iter().map(|s| help::entry(&format!("{}={}", s.name, s.values), s.help));
    format!("Settings:\n{}", rows.collect::<String>())
}

/// Words that shells complete.
fn words() -> Vec<String> {
    SETTINGS.iter().flat_map(|s| [vec![s.name.to_owned()], assignments(s.name, s.values)].concat()).collect()
}

/// Show or change settings of a mount
///
/// All users may read them. A change needs CAP_SYS_ADMIN, or is by the user of a server that is not root's.
#[derive(clap::Args)]
#[command(after_help = settings_help())]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Any file or directory of the mount
    dir: PathBuf,
    /// Shows a setting, or changes it; without any, all are shown
    #[arg(value_name = "NAME[=VALUE]", value_parser = Completing(StringValueParser::new(), words), hide_possible_values = true)]
    settings: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut shown = Map::new();
    let mut show = |name: &str, attribute: &str| -> Result<()> {
        let value = read(&args.dir, attribute)?;
        if args.json {
            shown.insert(name.to_owned(), value.into());
        } else {
            writeln!(stdout(), "{name}={value}")?;
        }
        Ok(())
    };
    if args.settings.is_empty() {
        SETTINGS.iter().try_for_each(|s| show(s.name, s.attribute))?;
    }
    for word in &args.settings {
        let (name, value) = word.split_once('=').map_or((&**word, None), |(n, v)| (n, Some(v)));
        let Some(Setting { attribute, .. }) = SETTINGS.iter().find(|s| s.name == name) else {
            return Err(usage(anyhow!("there is no setting {name}; `segno ctl --help` lists them")));
        };
        if (name, value) == ("gc", Some("now")) {
            clean_all(&args.dir, attribute)?;
        } else if let Some(value) = value {
            write(&args.dir, attribute, value, word)?;
        }
        show(name, attribute)?;
    }
    if args.json {
        Schema("segno.ctl", 1).print(stdout(), &json!({ "settings": shown }))?;
    }
    Ok(())
}

/// A few sections per request, so that the command can be interrupted and no request takes long.
fn clean_all(dir: &Path, attribute: &str) -> Result<()> {
    loop {
        let before = read(dir, attribute)?;
        write(dir, attribute, "now", "gc=now")?;
        if read(dir, attribute)? == before {
            return Ok(());
        }
    }
}

/// Sets the attribute that `word` changes, under the name that is for this caller.
fn write(dir: &Path, attribute: &str, value: &str, word: &str) -> Result<()> {
    // Another file system would store an attribute of root's.
    read(dir, attribute)?;
    let trusted = trusted_name(attribute);
    let is_for_us = image::answer(dir, &trusted).is_ok();
    let name = if is_for_us { trusted.as_str() } else { attribute };
    let set = setxattr(dir, name, value.as_bytes(), XattrFlags::empty());
    let is_stop = attribute == SHUTDOWN_XATTR && ["0", "1", "2"].contains(&value);
    let set = match set {
        // Nothing is left to write.
        Err(Errno::ROFS) if is_stop => segno_fuse::shut_down_read_only(dir),
        set => set,
    };
    set.map_err(|e| match e {
        Errno::OPNOTSUPP => anyhow!("{word}: mount {} with -o shutdown to permit this", dir.display()),
        e => explain(e, dir, word),
    })
}

fn read(dir: &Path, attribute: &str) -> Result<String> {
    let answer = image::answer(dir, attribute).map_err(|e| explain(e, dir, attribute))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn explain(e: Errno, dir: &Path, what: &str) -> anyhow::Error {
    match e {
        Errno::INVAL => {
            anyhow!("{what}: not a value of this setting, see `segno ctl --help`; nothing was changed")
        }
        Errno::PERM => {
            anyhow!(
                "{what}: this needs CAP_SYS_ADMIN or, if the server of {} is not root's, the user of the server; \
                 nothing was changed",
                dir.display()
            )
        }
        e => image::unanswered(e, dir, || format!("cannot set or read {what} of {}", dir.display())),
    }
}
