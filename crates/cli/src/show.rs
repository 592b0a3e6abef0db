//! Formatting of attributes: modes, times, device numbers, names.
use segno::{FileType, InodeFlags, Metadata, Time};
use segno_clean::guard::Guarded;
use segno_dump::put_name;
use segno_format::text;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The number of nodes up to which cleaning always finds space.
pub fn guarded(guarded: Guarded) -> String {
    match guarded {
        Guarded::All => "guarded up to any number of nodes".into(),
        Guarded::UpTo(nodes) => format!("guarded up to {nodes} nodes"),
        Guarded::Never => "not guarded".into(),
    }
}

/// A mode as ls(1) shows it.
pub fn mode(mode: u32, kind: FileType) -> String {
    let letter = match kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Symlink => 'l',
        FileType::Unknown => '?',
    };
    let mut out = String::from(letter);
    for (shift, special, with_x, without_x) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => with_x,
            (true, false) => without_x,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// Names of the file flags, as far as they have one.
pub fn flags(flags: InodeFlags) -> Vec<String> {
    flags.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect()
}

/// A path for people, on one line.
pub fn path(path: &Path) -> String {
    text::name(path.as_os_str().as_bytes())
}

/// Puts names under a key, and their bytes under `KEY_bytes` if any is not UTF-8.
pub fn put_names(object: &mut Map<String, Value>, key: &str, names: &[OsString]) {
    let (text, hex): (Vec<_>, Vec<_>) = names.iter().map(|name| text::field(name.as_bytes())).unzip();
    object.insert(key.into(), json!(text));
    if hex.iter().any(Option::is_some) {
        object.insert(format!("{key}_bytes"), json!(hex));
    }
}

/// Paths under their keys.
pub fn paths(paths: &[(&str, &Path)]) -> Map<String, Value> {
    let mut object = Map::new();
    paths.iter().for_each(|(key, path)| put_name(&mut object, key, path.as_os_str().as_bytes()));
    object
}

/// All attributes, with the names of stat(2).
pub fn attr_json(m: &Metadata) -> Value {
    let time = |t: Time| json!({ "sec": t.secs, "nsec": t.nsec });
    let (major, minor) = m.device_number();
    json!({
        "ino": m.ino(),
        "generation": m.generation(),
        "type": m.file_type().name(),
        "mode": format!("{:o}", m.mode()),
        "nlink": m.nlink(),
        "uid": m.uid(),
        "gid": m.gid(),
        "rdev": [major, minor],
        "size": m.len(),
        "blocks": m.blocks(),
        "atime": time(m.accessed()),
        "mtime": time(m.modified()),
        "ctime": time(m.changed()),
        "crtime": m.created().map(time),
        "flags": flags(m.flags()),
        "projid": m.project(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_ls() {
        for (bits, of, text) in [
            (0o644, FileType::Regular, "-rw-r--r--"),
            (0o1777, FileType::Directory, "drwxrwxrwt"),
            (0o4755, FileType::Regular, "-rwsr-xr-x"),
            (0o6644, FileType::Regular, "-rwSr-Sr--"),
            (0o777, FileType::Symlink, "lrwxrwxrwx"),
        ] {
            assert_eq!(mode(bits, of), text);
        }
    }
}
