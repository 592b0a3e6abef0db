//! Android's canned `fs_config`: owner, mode and capabilities of each path.
use super::escape::unescaped;
use super::{Line, MountPoint, lines, missing, read};
use crate::Result;
use crate::options::Metadata;
use crate::tree::{Tree, joined};
use std::collections::HashMap;

/// The attribute that holds capabilities.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";
/// Revision 2, effective.
const CAPABILITY_MAGIC: u32 = 0x0200_0001;

/// The properties in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Config {
    uid: u32,
    gid: u32,
    mode: u16,
    capabilities: u64,
}

/// Applies all files; every path must be in one of them, unless there is a default.
pub(super) fn apply(
    tree: &mut Tree,
    metadata: &Metadata,
    mount: &MountPoint,
    notes: &mut Vec<String>,
) -> Result<()> {
    if metadata.fs_config.is_empty() {
        return Ok(());
    }
    let mut table = HashMap::new();
    for file in &metadata.fs_config {
        let bytes = read(file)?;
        for line in lines(file, &bytes) {
            let (path, config) = parse(&line)?;
            // The last line of a path wins.
            table.insert(path, (config, false));
        }
    }
    let mut unlisted = Vec::new();
    for index in 0..tree.inodes.len() {
        let path = tree.path(index);
        let found = keys(&path, mount).into_iter().find_map(|key| {
            let (config, used) = table.get_mut(&key)?;
            *used = true;
            Some(*config)
        });
        let inode = tree.get_mut(index)?;
        let config = found.or_else(|| {
            let (uid, gid, dir, file) = metadata.fs_config_default?;
            let mode = if inode.kind.is_dir() { dir } else { file };
            Some(Config { uid, gid, mode, capabilities: 0 })
        });
        let Some(config) = config else {
            unlisted.push(index);
            continue;
        };
        (inode.uid, inode.gid, inode.mode) = (config.uid, config.gid, config.mode);
        if config.capabilities != 0 {
            inode.xattrs.insert(CAPABILITY.to_vec(), capability(config.capabilities));
        }
    }
    let unused = table.values().filter(|(_, used)| !used).count();
    if unused > 0 {
        notes.push(format!("{unused} lines of fs_config are for paths that do not exist"));
    }
    missing("the owner", tree, &unlisted, &metadata.fs_config)
}

/// The paths under which a line may list an inode: with the mount point as first component, or without.
fn keys(path: &[u8], mount: &MountPoint) -> Vec<Vec<u8>> {
    let with = joined(mount.0.as_bytes(), path);
    if mount.0.is_empty() { vec![with] } else { vec![with, path.to_vec()] }
}

fn parse(line: &Line<'_>) -> Result<(Vec<u8>, Config)> {
    let text = std::str::from_utf8(line.text)
        .map_err(|_| line.error("it is not UTF-8: write other bytes as \\ooo"))?;
    // The path of the root is empty in lines of Android's generator.
    let (path, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut fields = rest.split_ascii_whitespace();
    let mut number = |what: &str, radix: u32| {
        let text = fields.next().ok_or_else(|| line.error(format!("the {what} is missing")))?;
        u32::from_str_radix(text, radix).map_err(|e| {
            // The words of a path with blanks come first.
            let hint = if what == "user" { "; a blank in a path is written \\040" } else { "" };
            line.error(format!("{what} {text:?}: {e}{hint}"))
        })
    };
    let (uid, gid, mode) = (number("user", 10)?, number("group", 10)?, number("mode", 8)?);
    let mut capabilities = 0;
    for field in fields {
        if let Some(text) = field.strip_prefix("capabilities=") {
            capabilities =
                c_number(text).ok_or_else(|| line.error(format!("capabilities {text:?} are no number")))?;
        }
    }
    let path = unescaped(path.as_bytes());
    let path = path.strip_prefix(b"/").unwrap_or(&path);
    let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
    Ok((path, Config { uid, gid, mode: (mode & 0o7777) as u16, capabilities }))
}

/// A number in the notation of C.
fn c_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// The value of the attribute for a set of permitted capabilities.
pub(super) fn capability(bits: u64) -> Vec<u8> {
    let [low, high] = [bits as u32, (bits >> 32) as u32];
    [CAPABILITY_MAGIC, low, 0, high, 0].iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// The capability set of an attribute's value, if `fs_config` can express it.
pub(crate) fn capability_bits(value: &[u8]) -> Option<u64> {
    let (words, rest) = value.as_chunks::<4>();
    match words.iter().map(|w| u32::from_le_bytes(*w)).collect::<Vec<_>>()[..] {
        [CAPABILITY_MAGIC, low, 0, high, 0] if rest.is_empty() => {
            Some(u64::from(high) << 32 | u64::from(low))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn one(text: &str) -> Result<(Vec<u8>, Config)> {
        parse(&Line { file: Path::new("config"), number: 7, text: text.as_bytes() })
    }

    #[test]
    fn lines_of_android() {
        let config = |uid, gid, mode, capabilities| Config { uid, gid, mode, capabilities };
        let cases = [
            ("vendor/bin/sh 0 2000 0755", "vendor/bin/sh", config(0, 2000, 0o755, 0)),
            (" 0 0 755", "", config(0, 0, 0o755, 0)),
            ("/ 0 0 100755", "", config(0, 0, 0o755, 0)),
            ("/vendor/ 0 0 755 selabel=u:object_r:x:s0", "vendor", config(0, 0, 0o755, 0)),
            ("a\\040b 70000 4294967295 4711", "a b", config(70_000, u32::MAX, 0o4711, 0)),
            ("x 0 0 750 capabilities=0x1400", "x", config(0, 0, 0o750, 0x1400)),
            ("x 0 0 750 capabilities=0 target", "x", config(0, 0, 0o750, 0)),
        ];
        for (text, path, config) in cases {
            assert_eq!(one(text).unwrap(), (path.as_bytes().to_vec(), config), "{text}");
        }
        for (text, why) in [
            ("x 0 0", "the mode is missing"),
            ("x a 0 755", "user \"a\""),
            ("a b 0 0 755", "; a blank in a path is written \\040"),
            ("x 0 0 789", "mode \"789\""),
            ("x 0 0 755 capabilities=many", "capabilities \"many\""),
            ("x 5000000000 0 755", "user \"5000000000\""),
        ] {
            let said = one(text).unwrap_err().to_string();
            assert!(said.starts_with("config:7: ") && said.contains(why), "{said}");
        }
    }

    #[test]
    fn capabilities_are_those_of_linux() {
        let value = capability(0x3_0000_1400);
        assert_eq!(value, [1, 0, 0, 2, 0, 0x14, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(capability_bits(&value), Some(0x3_0000_1400));
        assert_eq!(capability_bits(&value[..12]), None);
    }
}
