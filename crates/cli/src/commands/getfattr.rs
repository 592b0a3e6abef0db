//! `segno getfattr`: extended attributes of an image.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::files::{Failures, FileCommand, Files};
use crate::out::Elements;
use crate::path::on_volume;
use crate::{show, xattr_value};
use anyhow::{Result, anyhow};
use regex::bytes::Regex;
use segno_dump::put_name;
use serde_json::{Map, Value};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Show extended attributes of an image
///
/// Names are listed as getfattr(1) does, and of its text segno setfattr and setfattr(1) take each value.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Show values too
    #[arg(short, long)]
    dump: bool,
    /// Show this attribute
    #[arg(short, long)]
    name: Option<OsString>,
    /// Show attributes in whose names this regular expression matches; - stands for all
    #[arg(short, long, default_value = "^user\\.", value_parser = pattern, allow_hyphen_values = true)]
    r#match: Regex,
    /// Take symbolic links themselves
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Paths on the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

fn pattern(text: &str) -> Result<Regex, regex::Error> {
    Regex::new(if text == "-" { "" } else { text })
}

/// The path whose attributes are meant, which the library does not follow.
pub fn target(files: &Files<'_>, path: &Path, no_dereference: bool) -> Result<PathBuf> {
    if no_dereference { Ok(path.to_owned()) } else { on_volume(path, files.volume.canonicalize(path)) }
}

impl FileCommand for Args {
    fn changes(&self) -> bool {
        false
    }

    fn run(&self, files: &Files<'_>) -> Outcome {
        let mut out = Elements::begin(self.json, Schema("segno.getfattr", 1), "files")?;
        let mut failures = Failures::default();
        for path in files.paths(&self.paths) {
            match self.found(files, &path) {
                // Files without attributes are not named.
                Ok(found) if found.is_empty() => {}
                Ok(found) => out.push(|| json(&path, &found), || self.text(&path, &found))?,
                Err(e) => failures.note(Err(e)),
            }
        }
        out.finish()?;
        failures.outcome()
    }
}

type Found = Vec<(OsString, Vec<u8>)>;

impl Args {
    fn found(&self, files: &Files<'_>, path: &Path) -> Result<Found> {
        let at = target(files, path, self.no_dereference)?;
        let value = |name: &OsStr| on_volume(path, files.volume.xattr(&at, name));
        if let Some(name) = &self.name {
            let missing = || {
                anyhow!("{} on the volume has no attribute {}", show::path(path), show::path(name.as_ref()))
            };
            return Ok(vec![(name.clone(), value(name)?.ok_or_else(missing)?)]);
        }
        let mut names = on_volume(path, files.volume.list_xattrs(&at))?;
        names.retain(|name| self.r#match.is_match(name.as_bytes()));
        names.sort();
        names.into_iter().map(|name| value(&name).map(|value| (name, value.unwrap_or_default()))).collect()
    }

    fn text(&self, path: &Path, found: &Found) -> String {
        let shown = |name: &OsString| show::path(name.as_ref());
        let line = |(name, value): &(OsString, Vec<u8>)| match self.dump || self.name.is_some() {
            true => format!("{}={}\n", shown(name), xattr_value::encode(value)),
            false => shown(name) + "\n",
        };
        let path = path.strip_prefix("/").unwrap_or(path);
        format!("# file: {}\n{}\n", show::path(path), found.iter().map(line).collect::<String>())
    }
}

fn json(path: &Path, found: &Found) -> Value {
    let mut object = Map::new();
    put_name(&mut object, "path", path.as_os_str().as_bytes());
    let attribute = |(name, value): &(OsString, Vec<u8>)| {
        let mut object = Map::new();
        put_name(&mut object, "name", name.as_bytes());
        put_name(&mut object, "value", value);
        Value::Object(object)
    };
    object.insert("xattrs".into(), found.iter().map(attribute).collect());
    Value::Object(object)
}
