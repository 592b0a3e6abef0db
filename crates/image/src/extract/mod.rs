//! Takes the tree out of a volume: into a directory, or as a tar archive.
mod host;
mod lists;
mod names;
mod tar;

use crate::source::{OpenImage, volume};
use crate::tree::{Index, Kind, ROOT, Tree, joined};
use crate::{Error, Result};
use segno_device::Location;
use segno_host::{LeftOut, Preserve, copy_mode, write_file};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where an extraction puts things.
pub enum Target<'a> {
    /// A directory that does not exist or is empty.
    Directory(&'a Path),
    /// A tar archive.
    Tar(&'a mut dyn Write),
}

/// The part of the tree to extract, the properties of its files, and the lists to write.
#[derive(Clone, Debug, Default)]
pub struct ExtractOptions {
    /// Path on the volume: this and everything below it is extracted.
    pub path: PathBuf,
    /// Prefix of paths in `fs_config` and `file_contexts`.
    pub mount_point: String,
    /// Owners, modes and capabilities, as Android's canned `fs_config`.
    pub fs_config: Option<PathBuf>,
    /// SELinux labels of all paths.
    pub file_contexts: Option<PathBuf>,
    /// All metadata, for a build.
    pub manifest: Option<PathBuf>,
    /// The external journal of the volume.
    pub journal: Option<PathBuf>,
    /// Devices of the volume after the first, in order.
    pub devices: Vec<PathBuf>,
    /// Properties that files in a directory get though they are a matter of trust; archives and lists have all.
    pub preserve: Preserve,
}

/// The result of an extraction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Files, directories and others, each inode once.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Names that the host cannot store, and their substitutes.
    pub renamed: Vec<(PathBuf, PathBuf)>,
    /// Files with metadata that the target does not have: a manifest has it.
    pub incomplete: u64,
    /// Properties that files in a directory did not get, as [`ExtractOptions::preserve`] does not have them.
    pub left_out: LeftOut,
    /// Remarks on the volume, for example that it was recovered in memory.
    pub notes: Vec<String>,
}

/// Extracts the volume on an image that was opened with the same options. Nothing is opened but the target
/// and the files that the options name.
pub fn extract(
    image: OpenImage,
    target: Target<'_>,
    options: &ExtractOptions,
    progress: &mut dyn FnMut(crate::Progress<'_>),
) -> Result<Extracted> {
    for list in [&options.fs_config, &options.file_contexts, &options.manifest].into_iter().flatten() {
        image.refuse_target(list)?;
    }
    let mode = copy_mode([Location::of(&image.path).file()]);
    let mut tree = volume::read(image, &|_| false)?;
    let notes = std::mem::take(&mut tree.notes);
    let root = root(&tree, &options.path)?;
    // Inodes not below the root of the extraction lose their names.
    let tree = tree.in_order_below(root)?;
    let (extracted, stored_as) = match target {
        Target::Directory(dir) => host::write(&tree, dir, options.preserve, progress)?,
        Target::Tar(out) => (tar::write(&tree, out, progress)?, Vec::new()),
    };
    let file = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String>| match path {
        Some(path) => {
            let text = text()?;
            write_file(path, mode, text.as_bytes()).map_err(|e| Error::host("write", path, e))
        }
        None => Ok(()),
    };
    file(&options.fs_config, &|| lists::fs_config(&tree, &options.mount_point))?;
    file(&options.file_contexts, &|| lists::file_contexts(&tree, &options.mount_point))?;
    file(&options.manifest, &|| lists::manifest(&tree, &stored_as))?;
    Ok(Extracted { notes, ..extracted })
}

/// The directory at a path.
fn root(tree: &Tree, path: &Path) -> Result<Index> {
    use std::os::unix::ffi::OsStrExt;
    let found = tree.find(path.as_os_str().as_bytes());
    let index = found.ok_or_else(|| Error::entry(path.to_owned(), "the volume has no such path"))?;
    if !tree.get(index)?.kind.is_dir() {
        return Err(Error::entry(path.to_owned(), "it is no directory; `segno get` copies single files"));
    }
    Ok(index)
}

/// A name of the tree: path and inode.
struct Found {
    path: Vec<u8>,
    index: Index,
}

/// All names, each directory before what it contains, and by the bytes of names within it.
fn names_of(tree: &Tree) -> Result<Vec<Found>> {
    let mut all = Vec::with_capacity(tree.inodes.len());
    let mut rest = vec![Found { path: Vec::new(), index: ROOT }];
    while let Some(found) = rest.pop() {
        if let Kind::Directory(names) = &tree.get(found.index)?.kind {
            for (name, &index) in names.iter().rev() {
                rest.push(Found { path: joined(&found.path, name), index });
            }
        }
        all.push(found);
    }
    Ok(all)
}
