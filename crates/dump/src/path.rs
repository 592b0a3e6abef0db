//! Paths, by the names in directories.
use crate::select::FileName;
use crate::{DumpError, Image};
use segno_format::{Ino, text};
use segno_rescue::dir;
use std::collections::HashSet;

/// Directories above a file.
const DEPTH: usize = 256;

impl Image<'_> {
    /// Inode number of a file. Symbolic links are not followed.
    pub(crate) fn ino(&self, name: &FileName) -> Result<u32, DumpError> {
        let path = match name {
            FileName::Ino(ino) => return Ok(*ino),
            FileName::Path(path) => path,
        };
        let mut at = Ino::ROOT.0;
        let shown = text::name(path);
        for part in path.split(|&b| b == b'/').filter(|p| !p.is_empty() && *p != b".") {
            let dir = self.directory(at, &format!("{shown}: "))?;
            let mut found = None;
            dir::names(&self.volume, &dir, &mut HashSet::new(), |n| {
                if !n.removed && n.name == part {
                    found = found.or(Some(n.ino));
                }
            });
            at = found.ok_or_else(|| {
                let part = text::name(part);
                DumpError::NotFound(format!("{shown}: no name {part} in directory inode {at}"))
            })?;
        }
        Ok(at)
    }

    /// The path that inodes store, from the root down; `None` where one cannot be read.
    pub(crate) fn path_of(&self, ino: u32) -> Option<Vec<u8>> {
        let (mut at, mut parts) = (ino, Vec::new());
        while at != Ino::ROOT.0 && parts.len() < DEPTH {
            let file = self.file(at).ok()?;
            parts.push(file.raw().name().to_vec());
            at = file.raw().i_pino.get();
        }
        parts.push(Vec::new());
        parts.reverse();
        Some(parts.join(&b'/'))
    }
}
