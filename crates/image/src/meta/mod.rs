//! Metadata from other files than the source. Later ones win: device tables, `fs_config`, `file_contexts`,
//! rules, manifest.
mod device_table;
mod escape;
mod file_contexts;
mod fs_config;
pub(crate) mod manifest;
mod rules;

use crate::options::BuildOptions;
use crate::tree::{Index, Tree, joined};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

pub(crate) use escape::escaped_path;
pub(crate) use file_contexts::LABEL;
pub(crate) use fs_config::{CAPABILITY, capability_bits};

/// Paths that an error lists.
const SHOWN: usize = 20;

/// Applies all of it; returns what the caller should know.
pub(crate) fn apply(tree: &mut Tree, options: &BuildOptions) -> Result<Vec<String>> {
    let metadata = &options.metadata;
    let mount = MountPoint::new(&metadata.mount_point);
    let mut notes = Vec::new();
    for path in &metadata.device_tables {
        device_table::apply(tree, path, options)?;
        // Device tables add names.
        *tree = std::mem::take(tree).in_order()?;
    }
    fs_config::apply(tree, metadata, &mount, &mut notes)?;
    file_contexts::apply(tree, metadata, &mount, &mut notes)?;
    for path in &metadata.rules {
        rules::apply(tree, path, options)?;
    }
    if let Some(path) = &metadata.manifest {
        manifest::apply(tree, path)?;
    }
    Ok(notes)
}

/// Where the volume will be mounted: the prefix of paths in Android's files. `system` and `/` are the root of
/// the device.
struct MountPoint(String);

impl MountPoint {
    fn new(text: &str) -> Self {
        Self(text.trim_matches('/').to_owned())
    }

    /// The absolute path of an inode.
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        [b"/", &joined(self.0.as_bytes(), path)[..]].concat()
    }
}

/// A line of a file, counted from 1.
struct Line<'a> {
    file: &'a Path,
    number: usize,
    text: &'a [u8],
}

impl Line<'_> {
    fn error(&self, why: impl Into<String>) -> Error {
        Error::Line { path: self.file.to_owned(), line: self.number, why: why.into() }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::host("read", path, e))
}

/// All lines but empty ones and comments.
fn rows<'a>(file: &'a Path, bytes: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
    lines(file, bytes).filter(|line| !line.text.trim_ascii_start().starts_with(b"#"))
}

/// All lines but empty ones.
fn lines<'a>(file: &'a Path, bytes: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
    (1..).zip(bytes.split(|&b| b == b'\n')).filter_map(move |(number, text)| {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        (!text.trim_ascii().is_empty()).then_some(Line { file, number, text })
    })
}

/// An error that lists the first paths missing in the files.
fn missing(what: &'static str, tree: &Tree, paths: &[Index], files: &[PathBuf]) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let list = paths.iter().take(SHOWN).map(|&i| format!("/{}", escaped_path(&tree.path(i)))).collect();
    let files: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    // The root may be listed by its own rules.
    let none_is_listed = tree.inodes.len() > 2 && paths.len() + 1 >= tree.inodes.len();
    let hint = if none_is_listed {
        ". No path is listed: those of the file begin with another prefix, which -t names"
    } else {
        ""
    };
    Err(Error::Missing { what, count: paths.len(), file: files.join(", "), list, hint })
}
