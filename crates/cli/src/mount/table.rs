//! The mounts of this process, from /proc/self/mountinfo.
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File system types of Segno's mounts.
const FSTYPES: [&str; 2] = ["fuse.segno", BLOCK];
/// Mounts whose source is a block device, possibly a stand-in for an image.
const BLOCK: &str = "fuseblk.segno";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub dir: PathBuf,
    pub fstype: String,
    /// For Segno's mounts: the image.
    pub source: PathBuf,
    pub read_only: bool,
}

/// All mounts, oldest first.
pub fn read() -> Result<Vec<Mount>> {
    read_from(Path::new("/proc/self/mountinfo"))
}

fn read_from(path: &Path) -> Result<Vec<Mount>> {
    let table = match std::fs::read(path) {
        Ok(table) => table,
        // In a root directory without /proc nothing tells of mounts; the claim on a block device still does.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            return Err(e).with_context(|| format!("cannot read the mount table {}", path.display()));
        }
    };
    let mut mounts = parse(&table);
    for mount in mounts.iter_mut().filter(|m| m.fstype == BLOCK) {
        if let Some(image) = segno_fuse::image_behind(&mount.source) {
            mount.source = image;
        }
    }
    Ok(mounts)
}

impl Mount {
    /// Whether it is one of Segno's mounts.
    pub fn is_ours(&self) -> bool {
        FSTYPES.contains(&self.fstype.as_str())
    }
}

/// Where Segno has mounted an image.
pub fn mounted_from(image: &Path) -> Option<PathBuf> {
    let image = image.canonicalize().ok()?;
    read().ok()?.into_iter().rev().find(|m| m.is_ours() && m.source == image).map(|m| m.dir)
}

/// Mounts of an image or block device, by Segno or by the kernel, which locks no image file.
pub fn mounts_of(image: &Path) -> Result<Vec<Mount>> {
    let image = image.canonicalize().with_context(|| format!("cannot open {}", image.display()))?;
    let is_source = |mount: &Mount| {
        let name = mount.source.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let backing = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        mount.source == image
            || mount.source.canonicalize().is_ok_and(|source| source == image)
            || backing.is_ok_and(|b| Path::new(b.trim_end()) == image)
    };
    Ok(read()?.into_iter().filter(is_source).collect())
}

/// Checks that the server of a mount responds. stat(2) may be answered from the kernel's cache.
pub fn probe(dir: &Path) -> rustix::io::Result<()> {
    rustix::fs::statfs(dir).map(|_| ())
}

fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

/// `id parent dev root DIR options [optional …] - FSTYPE SOURCE super-options`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let dir = unescape(fields.nth(4)?);
    let options = fields.next()?;
    let mut rest = fields.skip_while(|f| *f != b"-").skip(1);
    let fstype = String::from_utf8_lossy(rest.next()?).into_owned();
    let source = unescape(rest.next()?);
    let read_only = options.split(|&b| b == b',').any(|o| o == b"ro");
    Some(Mount { dir, fstype, source, read_only })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\'
            && let Some((digits, tail)) = after.split_at_checked(3)
            && let Some(decoded) = octal(digits)
        {
            out.push(decoded);
            rest = tail;
        } else {
            out.push(byte);
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0u8, |n, d| match d {
        b'0'..=b'7' => n.checked_mul(8)?.checked_add(d - b'0'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_proc_nothing_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_from(&dir.path().join("mountinfo")).unwrap(), []);
        assert!(read_from(dir.path()).is_err(), "a table that cannot be read is not an empty one");
    }

    #[test]
    fn mounts_are_read() {
        let table = b"22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            90 28 0:44 / /mnt/my\\040disk ro,relatime shared:50 master:1 - fuse.segno /srv/a\\134b.img ro,user_id=0\n";
        let found = parse(table);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1],
            Mount {
                dir: "/mnt/my disk".into(),
                fstype: FSTYPES[0].into(),
                source: "/srv/a\\b.img".into(),
                read_only: true
            }
        );
        assert_eq!((found[0].fstype.as_str(), found[0].read_only), ("sysfs", false));
    }
}
