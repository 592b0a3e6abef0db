//! The permissions of a new file with content of another one.
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// As of any new file.
const ANY: u32 = 0o666;
/// The owner writes the file and opens it again.
const OWN: u32 = 0o600;

/// The mode to create a file with that has content of these sources: the permissions that all images, devices and archives among
/// them have. A directory and a stream do not restrict it. A source unknown to the host, as a volume on an object store, restricts it
/// to the owner. The umask applies.
#[must_use]
pub fn copy_mode<P: AsRef<Path>>(sources: impl IntoIterator<Item = P>) -> u32 {
    sources.into_iter().fold(ANY, |mode, source| mode & mode_of(source.as_ref()))
}

fn mode_of(source: &Path) -> u32 {
    match source.metadata() {
        Ok(meta) if meta.is_file() || meta.file_type().is_block_device() => meta.mode() & ANY | OWN,
        Ok(_) => ANY,
        Err(_) => OWN,
    }
}
