//! `segno dump`: structures of a volume, also of one that is damaged.
use crate::completion::Completing;
use crate::document::Schema;
use crate::exit::usage;
use crate::image;
use crate::out::stdout;
use crate::storage::DeviceOption;
use anyhow::Result;
use clap::builder::OsStringValueParser;
use segno_device::{DeviceError, open_storage, open_volume};
use segno_dump::{Image, What};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// Show an on-disk structure
///
/// WHAT is one of sb [1|2], cp [1|2], nat [A..B], sit [A..B], ssa [A..B], node NID, inode INO, path PATH,
/// dentry PATH|INO, xattr PATH|INO, orphans, quota, chain, journal, block ADDR, segment N, owner ADDR. Ranges
/// end before B. Each structure is read without the others, so that damaged volumes can be shown; an error is
/// printed next to the field that is wrong.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// All versions of a node or inode that are on the device, newest first
    #[arg(long)]
    versions: bool,
    /// Removed names of a directory too
    #[arg(long)]
    cleared: bool,
    #[command(flatten)]
    devices: DeviceOption,
    /// Image file or block device; of a volume of several devices, the first alone if the others are not named
    image: PathBuf,
    /// Structure and selector
    #[arg(required = true, num_args = 1..=2, value_parser = Completing(OsStringValueParser::new(), structures), hide_possible_values = true)]
    what: Vec<OsString>,
}

fn structures() -> Vec<String> {
    What::names().map(str::to_owned).collect()
}

pub fn run(args: &Args) -> Result<()> {
    let what = What::parse(&args.what, args.versions, args.cleared).map_err(usage)?;
    let (paths, options) = (args.devices.of(&args.image)?, image::READ_ONLY);
    let device = match (image::open_damaged(&paths, options, open_volume), paths.first()) {
        (Err(e @ (DeviceError::Member { .. } | DeviceError::NotNamed { .. })), Some(first)) => {
            image::note_incomplete(e);
            open_storage(first, options)
        }
        (opened, _) => opened,
    };
    let device = device.map_err(image::explain)?;
    image::note_unsupported(&*device);
    let shown = Image::open(&device, &what)?.show(&what)?;
    let mut out = stdout();
    if args.json {
        Schema("segno.dump", 1).print(&mut out, &named(shown))?;
    } else {
        segno_dump::print(&mut out, &shown)?;
    }
    Ok(())
}

/// The fields of a document: the fields of one structure, or `entries` for several structures.
fn named(shown: Value) -> Value {
    if shown.is_array() { json!({ "entries": shown }) } else { shown }
}
