//! Paths inside a volume that is not mounted, and messages about them.
use crate::show;
use anyhow::{Context, Result, anyhow, ensure};
use segno::{Exclude, Volume};
use std::collections::HashSet;
use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The options that leave out parts of a copied tree.
#[derive(clap::Args)]
pub struct ExcludeOptions {
    /// Leave out this path below the source, and everything below it
    #[arg(long, value_name = "PATH")]
    exclude_path: Vec<PathBuf>,
    /// Leave out paths below the source in which this regular expression matches, and everything below them
    #[arg(long, value_name = "REGEX", value_parser = Exclude::regex)]
    exclude_regex: Vec<Exclude>,
}

impl ExcludeOptions {
    pub fn chosen(&self) -> Vec<Exclude> {
        let paths = self.exclude_path.iter().map(|path| Exclude::path(path));
        paths.chain(self.exclude_regex.iter().cloned()).collect()
    }
}

/// The cause of a failure alone, for messages that name the operation themselves.
pub fn reason<T>(result: segno::Result<T>) -> Result<T> {
    result.map_err(|e| e.source().map_or_else(|| anyhow!("{e}"), |why| anyhow!("{why}")))
}

/// The reason and its causes, for messages that name the operation themselves.
pub fn cause(e: &segno::Error) -> anyhow::Error {
    let sources = std::iter::successors(e.source(), |&e| e.source());
    let mut chain: Vec<String> = sources.map(ToString::to_string).collect();
    let innermost = chain.pop().unwrap_or_else(|| e.to_string());
    chain.into_iter().rev().fold(anyhow!(innermost), anyhow::Error::context)
}

/// The inode number of `#INO`; a name that begins so needs a slash before it.
pub fn inode_number(path: &Path) -> Option<u32> {
    path.to_str()?.strip_prefix('#')?.parse().ok()
}

/// Names the path as one of the volume.
pub fn on_volume<T>(path: &Path, result: segno::Result<T>) -> Result<T> {
    reason(result).with_context(|| format!("{} on the volume", show::path(path)))
}

/// Whether a path by its end, `/` or `.`, can only be that of a directory.
pub fn names_a_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || ends_with_dot(path)
}

/// Whether the last name is `.`, which [`Path::components`] leaves out.
pub fn ends_with_dot(path: &Path) -> bool {
    path.as_os_str().as_bytes().rsplit(|&byte| byte == b'/').next() == Some(b".")
}

/// Paths of new files: inside the destination if it is a directory, which is required for several files.
/// `is_dir` returns whether the first one is a directory, as only a directory may have a new path with a
/// slash at the end.
pub fn places<'a>(
    volume: &Volume,
    path: &Path,
    is_dir: bool,
    names: impl ExactSizeIterator<Item = &'a Path>,
) -> Result<Vec<PathBuf>> {
    ensure!(
        names.len() == 1 || on_volume(path, volume.metadata(path))?.is_dir(),
        "{} on the volume is not a directory: several files need one",
        show::path(path)
    );
    names.map(|name| place_for(volume, path, is_dir, name)).collect()
}

/// Refuses several sources of one name: a later one would replace an earlier one.
pub fn refuse_equal(names: impl Iterator<Item = impl AsRef<Path>>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names.map(|name| name.as_ref().to_owned()) {
        ensure!(
            !seen.contains(&name),
            "several sources have the name {}: copy them one by one",
            show::path(&name)
        );
        seen.insert(name);
    }
    Ok(())
}

/// The path of a new file: the destination, or inside it under the name of the source if it is a directory.
fn place_for(volume: &Volume, path: &Path, is_dir: bool, source: &Path) -> Result<PathBuf> {
    if volume.metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(path.join(source));
    }
    let dir = path.parent().unwrap_or(Path::new(""));
    let parent = on_volume(dir, volume.metadata(dir))?;
    ensure!(parent.is_dir(), "{} on the volume is not a directory", show::path(dir));
    let fits = if is_dir { !ends_with_dot(path) } else { !names_a_directory(path) };
    ensure!(fits, "{} on the volume is not a directory", show::path(path));
    // Without a slash at the end.
    Ok(path.components().collect())
}
