//! Copies a directory of the host into a new image: `copy_tree SOURCE IMAGE`.
use segno::{Device, Dir, FormatOptions, OpenOptions, SetMetadata, Volume};
use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [source, image] = args.as_slice() else { return Err("usage: copy_tree SOURCE IMAGE".into()) };
    let device = Device::create(image, 1 << 30)?;
    segno::format(&device, &FormatOptions::default())?;
    let volume = Volume::open(&device)?;
    let copied = copy(source, &volume, Path::new("/"))?;
    volume.close()?;
    println!("{copied} names in {}", image.display());
    Ok(())
}

/// Copies what is in a directory; returns the number of names.
fn copy(source: &Path, into: &Dir, at: &Path) -> Result<u64, Box<dyn Error>> {
    let mut copied = 0;
    for entry in fs::read_dir(source)? {
        let (from, to) = {
            let entry = entry?;
            (entry.path(), at.join(entry.file_name()))
        };
        let meta = from.symlink_metadata()?;
        if meta.is_dir() {
            into.create_dir(&to)?;
            copied += copy(&from, into, &to)?;
        } else if meta.is_symlink() {
            into.symlink(fs::read_link(&from)?, &to)?;
        } else if meta.is_file() {
            let mut file = into.open_file_with(&to, &OpenOptions::new().write(true).create_new(true))?;
            std::io::copy(&mut fs::File::open(&from)?, &mut file)?;
        } else {
            eprintln!("{} is left out", from.display());
            continue;
        }
        let change = SetMetadata::new().owner(meta.uid(), meta.gid()).modified(meta.modified()?);
        let change = if meta.is_symlink() { change } else { change.mode(meta.mode()) };
        into.set_symlink_metadata(&to, &change)?;
        copied += 1;
    }
    Ok(copied)
}
