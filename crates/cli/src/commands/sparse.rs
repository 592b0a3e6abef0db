//! `segno sparse`: Android sparse images.
use crate::document::Schema;
use crate::new_file::NewFile;
use crate::{image, out, tag};
use anyhow::{Context, Result};
use segno_device::{Use, hold};
use segno_format::size;
use segno_host::copy_mode;
use segno_sparse::{Checksum, DEFAULT_BLOCK_SIZE, pack, unpack};
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Convert images to the Android sparse format and back
///
/// All other commands read sparse images as they are.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Make a sparse image, as img2simg does
    Pack {
        /// Replace an existing file
        #[arg(short, long)]
        force: bool,
        /// Bytes of a block
        #[arg(long, value_name = "BYTES", value_parser = block_size, default_value_t = DEFAULT_BLOCK_SIZE)]
        block_size: u32,
        /// Report as JSON
        #[arg(long)]
        json: bool,
        /// Raw image
        input: PathBuf,
        /// Sparse image
        output: PathBuf,
    },
    /// Make a raw image, as simg2img does
    Unpack {
        /// Replace an existing file
        #[arg(short, long)]
        force: bool,
        /// Refuse an image with a checksum that does not match; libsparse stores wrong ones for images with gaps
        #[arg(long)]
        strict: bool,
        /// Report as JSON
        #[arg(long)]
        json: bool,
        /// Sparse image, or the parts of a split one in order
        #[arg(required = true, num_args = 1.., value_name = "INPUT")]
        inputs: Vec<PathBuf>,
        /// Raw image
        output: PathBuf,
    },
}

pub fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Pack { force, block_size, json, input, output } => {
            let input = &tag::resolve(input)?;
            let new = NewFile::create(output, *force, copy_mode([input]))?;
            let _held = image::patiently(|| hold(input, Use::Read)).map_err(image::explain)?;
            let raw = open(input)?;
            let bytes = pack(&raw, new.file().try_clone()?, *block_size)
                .with_context(|| format!("packing {}", input.display()))?;
            finish(new, output, bytes, *json)
        }
        Action::Unpack { force, strict, json, inputs, output } => {
            let new = NewFile::create(output, *force, copy_mode(inputs))?;
            let parts = inputs.iter().map(|p| open(p)).collect::<Result<Vec<_>>>()?;
            let checksum = if *strict { Checksum::Require } else { Checksum::Report };
            let names = || inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
            let wrong =
                unpack(&parts, new.file(), checksum).with_context(|| format!("unpacking {}", names()))?;
            for mismatch in wrong {
                eprintln!("segno: warning: {}: {mismatch}", names());
            }
            let bytes = new.file().metadata()?.len();
            finish(new, output, bytes, *json)
        }
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

fn finish(new: NewFile, output: &Path, image_bytes: u64, as_json: bool) -> Result<()> {
    let file_bytes = new.file().metadata()?.len();
    new.finish()?;
    let (image, file) = (size::human(image_bytes), size::human(file_bytes));
    let words = format!("{}: {file}, image of {image}", output.display());
    Ok(out::report(
        as_json,
        Schema("segno.sparse", 1),
        &json!({ "image_bytes": image_bytes, "file_bytes": file_bytes }),
        words,
    )?)
}

fn block_size(text: &str) -> Result<u32, String> {
    let bytes = size::parse(text)?;
    let fits = u32::try_from(bytes).ok().filter(|b| *b > 0 && b.is_multiple_of(4) && *b <= 1 << 30);
    fits.ok_or_else(|| format!("{text} is not a multiple of 4 up to 1G"))
}
