//! The mounts of a process, from its mountinfo. Device numbers and flags come from the kernel; the servers of FUSE
//! mounts choose types and sources.
use rustix::fs::makedev;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File system types of Segno's mounts.
const FSTYPES: [&str; 2] = ["fuse.segno", BLOCK];
/// Mounts whose source is a block device, possibly a stand-in for an image.
const BLOCK: &str = "fuseblk.segno";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub dir: PathBuf,
    /// Number of its block device; file systems without one have an anonymous number.
    pub device: u64,
    /// File system type.
    pub fstype: String,
    /// For Segno's mounts: the image, or its stand-in device.
    pub source: PathBuf,
    /// Whether this mount is read-only; the file system may have another one that is not.
    pub read_only: bool,
    /// Whether all mounts of the file system are.
    pub all_read_only: bool,
    /// Whether it shows users and groups by other numbers than the file system has.
    pub is_idmapped: bool,
    /// The user that a FUSE mount belongs to.
    pub user: Option<u32>,
}

impl Mount {
    /// All mounts, oldest first.
    pub fn all() -> io::Result<Vec<Self>> {
        Self::all_from(Path::new("/proc/self/mountinfo"))
    }

    /// All mounts in the mount namespace of a process, oldest first.
    pub fn all_of(process: u32) -> io::Result<Vec<Self>> {
        Self::all_from(Path::new(&format!("/proc/{process}/mountinfo")))
    }

    fn all_from(path: &Path) -> io::Result<Vec<Self>> {
        match std::fs::read(path) {
            Ok(table) => Ok(parse(&table)),
            // A root directory without /proc: a failed exclusive open of a block device still shows a mount.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Whether it has the type of Segno's mounts.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        FSTYPES.contains(&self.fstype.as_str())
    }

    /// Whether its source is a block device and its type that of Segno's mounts.
    #[must_use]
    pub fn is_our_block(&self) -> bool {
        self.fstype == BLOCK
    }
}

fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

/// `id parent dev root DIR options [optional …] - FSTYPE SOURCE super-options`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let device = device_number(fields.nth(2)?)?;
    let dir = unescape(fields.nth(1)?);
    let options = fields.next()?;
    let mut rest = fields.skip_while(|f| *f != b"-").skip(1);
    let fstype = String::from_utf8_lossy(rest.next()?).into_owned();
    let source = unescape(rest.next()?);
    let of_super = rest.next().unwrap_or_default();
    let has = |options: &[u8], name: &[u8]| options.split(|&b| b == b',').any(|o| o == name);
    let user = of_super.split(|&b| b == b',').find_map(|o| number(o.strip_prefix(b"user_id=")?));
    let (read_only, all_read_only) = (has(options, b"ro"), has(of_super, b"ro"));
    let is_idmapped = has(options, b"idmapped");
    Some(Mount { dir, device, fstype, source, read_only, all_read_only, is_idmapped, user })
}

/// `MAJOR:MINOR`
pub(super) fn device_number(field: &[u8]) -> Option<u64> {
    let colon = field.iter().position(|&b| b == b':')?;
    let (major, minor) = field.split_at_checked(colon)?;
    Some(makedev(number(major)?, number(minor.get(1..)?)?))
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
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
        assert_eq!(Mount::all_from(&dir.path().join("mountinfo")).unwrap(), []);
        assert!(Mount::all_from(dir.path()).is_err(), "a table that cannot be read is not an empty one");
    }

    #[test]
    fn mounts_are_read() {
        let table = b"22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            90 28 0:44 / /mnt/my\\040disk ro,relatime,idmapped shared:50 master:1 - fuse.segno /srv/a\\134b.img rw,user_id=1000,group_id=0\n\
            91 28 259:300 / /mnt/x rw - f2fs /dev/nvme0n1p3 ro,lazytime\n";
        let found = parse(table);
        assert_eq!(found.len(), 3);
        assert_eq!(
            found[1],
            Mount {
                dir: "/mnt/my disk".into(),
                device: makedev(0, 44),
                fstype: FSTYPES[0].into(),
                source: "/srv/a\\b.img".into(),
                read_only: true,
                all_read_only: false,
                is_idmapped: true,
                user: Some(1000),
            }
        );
        assert_eq!((found[0].fstype.as_str(), found[0].read_only), ("sysfs", false));
        assert_eq!((found[2].device, found[2].all_read_only), (makedev(259, 300), true));
    }
}
