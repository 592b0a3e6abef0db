//! `segno label`: the label of a volume that is not mounted.
use crate::document::Schema;
use crate::exit::{Outcome, WithCode};
use crate::f2fs_tools::Call;
use crate::out;
use crate::path::reason;
use crate::storage::ImageArgs;
use anyhow::{Context, Result, anyhow};
use segno_format::text;
use serde_json::json;

/// Show or change the label of a volume
///
/// Changing it opens the volume, which recovers what a crash left. On a mount the ioctl FS_IOC_SETFSLABEL does it.
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

/// f2fslabel.
pub fn as_tool(call: &Call) -> Outcome {
    let usage = |why: &str| WithCode(call.tool.usage, anyhow!("f2fslabel: {why}"));
    match call.operands.len() {
        0 => Err(usage("no device is named").into()),
        1 | 2 => {
            let words =
                ["segno", "label", "--"].map(Into::into).into_iter().chain(call.operands.iter().cloned());
            crate::run_words(words.collect())
        }
        _ => Err(usage("more than a device and a label is named").into()),
    }
}
