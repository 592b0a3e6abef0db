//! New files with content of another one: their permissions and their directory.
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
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

/// Writes a file with these permissions; an existing one is emptied, and keeps its own.
pub fn write_file(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create(true).truncate(true).mode(mode).open(path)?.write_all(bytes)
}

/// The directory that a path names a file in; of a name alone it is the working directory.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn mode_of(source: &Path) -> u32 {
    match source.metadata() {
        Ok(meta) if meta.is_file() || meta.file_type().is_block_device() => meta.mode() & ANY | OWN,
        Ok(_) => ANY,
        Err(_) => OWN,
    }
}
