//! `segno chmod`: permissions in an image.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::mode::ModeChange;
use crate::path::on_volume;
use segno::SetMetadata;
use std::path::PathBuf;

/// Change permissions in an image
#[derive(clap::Args)]
pub struct Args {
    /// Include everything below directories, but for symbolic links
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Permissions as for chmod(1): octal as 644, or symbolic as u+x,go=r. Without a letter before it, an operator has the effect that it
    /// has with the umask 022
    #[arg(allow_hyphen_values = true)]
    mode: ModeChange,
    /// Paths on the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        let volume = files.volume;
        files.each_below(&self.paths, self.recursive, |path, found, is_operand| {
            let found = match (found.is_symlink(), is_operand) {
                (false, _) => *found,
                (true, true) => on_volume(path, volume.metadata(path))?,
                (true, false) => return Ok(()),
            };
            let mode = self.mode.apply(found.mode(), found.is_dir());
            on_volume(path, volume.set_metadata(path, &SetMetadata::new().mode(mode)))
        })
    }
}
