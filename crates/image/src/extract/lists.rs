//! Files that list the metadata of all paths.
use super::host::StoredAs;
use super::names_of;
use crate::meta::manifest::Record;
use crate::meta::{CAPABILITY, LABEL, capability_bits, escaped_path};
use crate::tree::{Index, Tree, joined};
use crate::{Error, Result};
use segno_format::dentry::FileType;
use std::collections::HashMap;

/// Canned `fs_config`.
pub(super) fn fs_config(tree: &Tree, mount_point: &str) -> Result<String> {
    let mut out = String::new();
    for found in names_of(tree)? {
        let inode = tree.get(found.index)?;
        let path = escaped_path(&joined(mount_point.trim_matches('/').as_bytes(), &found.path));
        let path = if path.is_empty() { "/".to_owned() } else { path };
        out += &format!("{path} {} {} {:04o}", inode.uid, inode.gid, inode.mode);
        if let Some(bits) = inode.xattrs.get(CAPABILITY).and_then(|value| capability_bits(value)) {
            out += &format!(" capabilities={bits:#x}");
        }
        out.push('\n');
    }
    Ok(out)
}

/// SELinux contexts, with an expression for each path that matches only this path.
pub(super) fn file_contexts(tree: &Tree, mount_point: &str) -> Result<String> {
    let mut out = String::new();
    for found in names_of(tree)? {
        let label = tree.get(found.index)?.xattrs.get(LABEL);
        let label = label.map(|l| l.strip_suffix(b"\0").unwrap_or(l));
        let label = label.map_or_else(|| "<<none>>".into(), |l| String::from_utf8_lossy(l));
        let path = pattern(&joined(mount_point.trim_matches('/').as_bytes(), &found.path));
        out += &format!("/{path} {label}\n");
    }
    Ok(out)
}

/// The expression for exactly these bytes.
fn pattern(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/_-,@%=~:;&'!".contains(&byte) {
            text.push(byte.into());
        } else if byte.is_ascii_graphic() {
            text.extend(['\\', byte.into()]);
        } else {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

/// The manifest: one line for each inode, at its first path, and for each further name of a device.
pub(super) fn manifest(tree: &Tree, stored_as: &StoredAs) -> Result<String> {
    let mut out = String::new();
    let hosts: HashMap<&[u8], &[u8]> = stored_as.iter().map(|(path, host)| (&path[..], &host[..])).collect();
    let mut seen: HashMap<Index, Vec<u8>> = HashMap::new();
    for found in names_of(tree)? {
        let host = hosts.get(&found.path[..]).copied();
        let inode = tree.get(found.index)?;
        let is_device = matches!(inode.kind.file_type(), FileType::CharDevice | FileType::BlockDevice);
        let first = seen.get(&found.index).map(|path| &path[..]);
        if first.is_some() && host.is_none() && !is_device {
            continue;
        }
        let record = Record::of(inode, &found.path, host, first.filter(|_| is_device));
        out += &serde_json::to_string(&record).map_err(|_| Error::Invariant("a record is JSON"))?;
        out.push('\n');
        seen.entry(found.index).or_insert(found.path);
    }
    Ok(out)
}
