//! `segno-lab mount-ceiling`: the file system with the least that FUSE needs.
use crate::exit::Outcome;
use segno_bench::ceiling::Ceiling;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Mount a file system that does no more than FUSE needs, to see how fast a server could be at most
///
/// Names are in memory, contents in the image of a volume, whose own contents are overwritten. Stays in the foreground. The next mount of the
/// image has the same files.
#[derive(clap::Args)]
pub struct Args {
    /// Mount options, as for `segno mount`; options of the volume have no effect
    #[arg(short, long, value_name = "OPTION,…")]
    options: Vec<String>,
    /// Image that `segno mkfs` has made
    image: PathBuf,
    /// Directory to mount at
    dir: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let open = |device| Ceiling::open(device).map(Arc::new);
    let ready = |transport: String| println!("mounted at {}, {transport}", args.dir.display());
    segno_cli::mount_file_system(&args.image, &args.dir, &args.options, open, ready)?.save()?;
    Ok(ExitCode::SUCCESS)
}
