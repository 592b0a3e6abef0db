//! Metadata that an extraction could not store on the host: one JSON object a line for each path.
use super::escape::{escaped_path, unescaped};
use super::{Line, lines, read};
use crate::Result;
use crate::tree::{Index, Inode, Kind, Tree, joined};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use segno_engine::Time;
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A line. Names are escaped as in `fs_config`, so that all bytes can be in them.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    path: String,
    /// Where the host has it, if its name cannot be stored there.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// The first name of a device, if this is a further one: the host may have neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    mode: u16,
    uid: u32,
    gid: u32,
    mtime: (i64, u32),
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Values in base 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    xattrs: BTreeMap<String, String>,
    /// As FS_IOC_GETFLAGS has them.
    #[serde(default, skip_serializing_if = "is_zero")]
    flags: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    projid: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Record {
    /// The line of a name, with the first name of the inode if this is another one.
    pub(crate) fn of(inode: &Inode, path: &[u8], host: Option<&[u8]>, first: Option<&[u8]>) -> Self {
        let xattrs = inode.xattrs.iter().map(|(name, value)| (escaped_path(name), STANDARD.encode(value)));
        Self {
            path: escaped_path(path),
            host: host.map(escaped_path),
            link: first.map(escaped_path),
            kind: inode.kind.file_type().name().to_owned(),
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            mtime: (inode.time.secs, inode.time.nsec),
            device: match inode.kind {
                Kind::Special { kind: FileType::CharDevice | FileType::BlockDevice, numbers } => {
                    Some(numbers)
                }
                _ => None,
            },
            target: match &inode.kind {
                Kind::Symlink(target) => Some(escaped_path(target)),
                _ => None,
            },
            xattrs: xattrs.collect(),
            flags: inode.flags.bits(),
            projid: inode.projid,
        }
    }

    /// An inode of this kind, if the manifest alone describes it.
    fn inode(&self) -> Option<Kind> {
        use FileType::{BlockDevice, CharDevice, Fifo, Socket, Symlink};
        let mut kinds = [CharDevice, BlockDevice, Fifo, Socket, Symlink].into_iter();
        match kinds.find(|kind| kind.name() == self.kind)? {
            Symlink => Some(Kind::Symlink(unescaped(self.target.as_ref()?.as_bytes()).into())),
            kind => Some(Kind::Special { kind, numbers: self.device.unwrap_or_default() }),
        }
    }
}

/// Gives every listed path what the manifest has of it; paths that only the manifest has are made.
pub(crate) fn apply(tree: &mut Tree, file: &Path) -> Result<()> {
    let bytes = read(file)?;
    let mut records = Vec::new();
    for line in lines(file, &bytes) {
        let record: Record = serde_json::from_slice(line.text).map_err(|e| line.error(e.to_string()))?;
        records.push((line, record));
    }
    // Directories before their entries, so that their names are right when those are looked up; further names
    // at the end.
    records.sort_by_key(|(_, r)| (r.link.is_some(), r.path.matches('/').count()));
    for (line, record) in &records {
        one(tree, line, record)?;
    }
    *tree = std::mem::take(tree).in_order()?;
    Ok(())
}

fn one(tree: &mut Tree, line: &Line<'_>, record: &Record) -> Result<()> {
    let path = unescaped(record.path.as_bytes());
    let (dir, name) = split(&path);
    let stored = record.host.as_ref().map(|h| unescaped(h.as_bytes()));
    let missing = || line.error(format!("/{} is not in the source", record.path));
    let found = match &stored {
        Some(host) => tree.find(&joined(dir, split(host).1)),
        None => tree.find(&path),
    };
    let first = record.link.as_ref().and_then(|first| tree.find(&unescaped(first.as_bytes())));
    if found.is_none() && first.is_some_and(|i| tree.is_dir(i)) {
        return Err(line.error(format!("/{} would be a further name of a directory", record.path)));
    }
    let index = match (found.or(first), record.inode()) {
        (Some(index), kind) => {
            if let Some(kind) = kind.filter(|_| !tree.is_dir(index)) {
                tree.get_mut(index)?.kind = kind;
            }
            index
        }
        (None, Some(kind)) => tree.add(Inode::new(kind, 0, Time::default())),
        (None, None) => return Err(missing()),
    };
    if found.is_none() || stored.is_some() {
        let parent = tree.find(dir).ok_or_else(missing)?;
        if let (Some(host), Kind::Directory(names)) = (&stored, &mut tree.get_mut(parent)?.kind) {
            names.remove(split(host).1);
        }
        tree.link(parent, name, index).map_err(|e| line.error(e.to_string()))?;
    }
    set(tree, line, record, index)
}

fn set(tree: &mut Tree, line: &Line<'_>, record: &Record, index: Index) -> Result<()> {
    let inode = tree.get_mut(index)?;
    let kind = inode.kind.file_type().name();
    if kind != record.kind {
        return Err(line.error(format!("/{} is a {kind} in the source, not a {}", record.path, record.kind)));
    }
    (inode.mode, inode.uid, inode.gid) = (record.mode & 0o7777, record.uid, record.gid);
    inode.time = Time { secs: record.mtime.0, nsec: record.mtime.1 };
    inode.flags = InodeFlags::from_bits_retain(record.flags);
    inode.projid = record.projid;
    inode.xattrs.clear();
    for (name, value) in &record.xattrs {
        let value = STANDARD.decode(value).map_err(|e| line.error(format!("{name}: {e}")))?;
        inode.xattrs.insert(unescaped(name.as_bytes()), value);
    }
    Ok(())
}

/// Directory and name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (b"", path),
    }
}
