//! The order in which the data of files is placed.
use crate::tree::{Index, Kind, Tree};
use crate::{Error, Result};
use std::collections::HashSet;
use std::path::Path;

/// Regular files: first the ones listed in a file, one path a line, then the rest in the order of the tree.
pub(crate) fn of_data(tree: &Tree, list: Option<&Path>) -> Result<Vec<Index>> {
    let is_file = |index: &Index| matches!(tree.inodes.get(*index).map(|i| &i.kind), Some(Kind::File(_)));
    let mut first = Vec::new();
    if let Some(path) = list {
        let text = std::fs::read(path).map_err(|e| Error::host("read", path, e))?;
        let mut listed = HashSet::new();
        // Paths that do not exist are not an error, because such lists are recorded once and used for a long
        // time.
        for index in text.split(|&b| b == b'\n').filter_map(|line| tree.find(line)).filter(is_file) {
            if listed.insert(index) {
                first.push(index);
            }
        }
        first.extend((0..tree.inodes.len()).filter(|i| is_file(i) && !listed.contains(i)));
    } else {
        first.extend((0..tree.inodes.len()).filter(is_file));
    }
    Ok(first)
}
