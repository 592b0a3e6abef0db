//! `segno label`: the label of a volume that is not mounted.
use crate::document::Schema;
use crate::out;
use crate::path::reason;
use crate::storage::ImageArgs;
use anyhow::{Context, Result};
use segno_format::text;
use serde_json::json;

/// Show or change the label of a volume
///
/// Changing it opens the volume, which recovers changes left by a crash. On a mount the ioctl
/// FS_IOC_SETFSLABEL does it.
#[derive(clap::Args)]
pub struct Args {
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: ImageArgs,
    /// The new label, at most 512 UTF-16 units; an empty one removes it
    label: Option<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let volume = args.of.open(args.label.is_none())?.volume()?;
    if let Some(label) = &args.label {
        reason(volume.set_label(label))?;
    }
    let label = volume.label();
    reason(volume.close()).with_context(|| format!("closing {}", args.of.image.display()))?;
    Ok(out::report(
        args.json,
        Schema("segno.label", 1),
        &json!({ "label": label }),
        text::line(label.as_bytes()),
    )?)
}
