//! One line for each file of a tree.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, StatxTimestamp, lgetxattr, llistxattr, statx};
use rustix::io::Errno;

use super::content::{checksum, data_ranges};
use super::escape::escape;
use crate::errno;

/// Longer attribute values are given by length and checksum.
const XATTR_SHOWN_MAX: usize = 64;
/// The kernel's limit for a value and for the list of names.
const XATTR_MAX: usize = 64 << 10;

/// Fields of a line in addition to the common ones.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Add where data and holes are (SEEK_DATA, SEEK_HOLE)
    #[arg(long)]
    pub maps: bool,
    /// Add ctime, and btime where the file system has one
    #[arg(long)]
    pub ctime: bool,
}

/// Writes the lines of all files below and including `root`; returns how many had something unreadable.
pub fn tree(root: &Path, detail: Detail, out: &mut dyn Write) -> Result<usize> {
    let mut walk = Walk { root, detail, links: HashMap::new(), unreadable: 0 };
    walk.visit(PathBuf::new(), out)?;
    Ok(walk.unreadable)
}

/// The line of one file, as the manifest of the whole tree would have it; other names of the file are not known. An error
/// if a part of it cannot be read.
pub fn line_of(root: &Path, path: &Path, detail: Detail) -> Result<String> {
    let mut walk = Walk { root, detail, links: HashMap::new(), unreadable: 0 };
    let (line, _) = walk.line(path)?;
    ensure!(walk.unreadable == 0, "not all can be read: {line}");
    Ok(line)
}

struct Walk<'a> {
    root: &'a Path,
    detail: Detail,
    /// First name met of each file with several names.
    links: HashMap<u64, String>,
    unreadable: usize,
}

impl Walk<'_> {
    fn visit(&mut self, path: PathBuf, out: &mut dyn Write) -> Result<()> {
        let (line, is_dir) = self.line(&path)?;
        writeln!(out, "{line}").context("writing the manifest")?;
        if !is_dir {
            return Ok(());
        }
        let full = self.root.join(&path);
        let mut names = fs::read_dir(&full)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
            })
            .with_context(|| format!("reading the directory {}", full.display()))?;
        names.sort();
        for name in names {
            self.visit(path.join(name), out)?;
        }
        Ok(())
    }

    fn line(&mut self, path: &Path) -> Result<(String, bool)> {
        let full = self.root.join(path);
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = statx(CWD, &full, AtFlags::SYMLINK_NOFOLLOW, mask)
            .with_context(|| format!("reading the inode of {}", full.display()))?;
        let kind = FileType::from_raw_mode(stat.stx_mode.into());
        let is_dir = kind == FileType::Directory;
        let name =
            if path.as_os_str().is_empty() { ".".to_owned() } else { escape(path.as_os_str().as_bytes()) };

        let mut line = Line(name.clone());
        line.field("type", type_name(kind));
        line.field("mode", format_args!("{:04o}", stat.stx_mode & 0o7777));
        line.field("uid", stat.stx_uid);
        line.field("gid", stat.stx_gid);
        line.field("nlink", stat.stx_nlink);
        // The size of a directory depends on its history, not on its contents: a separate key, to be ignored.
        line.field(if is_dir { "dsize" } else { "size" }, stat.stx_size);
        line.field("mtime", time(&stat.stx_mtime));
        self.add_times(&mut line, &stat);
        if matches!(kind, FileType::BlockDevice | FileType::CharacterDevice) {
            line.field("rdev", format_args!("{}:{}", stat.stx_rdev_major, stat.stx_rdev_minor));
        }
        if !is_dir && stat.stx_nlink > 1 {
            line.field("link", self.links.entry(stat.stx_ino).or_insert(name));
        }
        match kind {
            FileType::RegularFile => self.add_content(&mut line, &full, stat.stx_size),
            FileType::Symlink => match fs::read_link(&full) {
                Ok(target) => line.field("target", escape(target.as_os_str().as_bytes())),
                Err(error) => self.unreadable(&mut line, "target", errno::of(&error)),
            },
            _ => {}
        }
        if let Err(errno) = add_xattrs(&mut line, &full) {
            self.unreadable(&mut line, "xattrs", errno);
        }
        Ok((line.0, is_dir))
    }

    fn add_times(&self, line: &mut Line, stat: &Statx) {
        if !self.detail.ctime {
            return;
        }
        line.field("ctime", time(&stat.stx_ctime));
        if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME) {
            line.field("btime", time(&stat.stx_btime));
        }
    }

    fn add_content(&mut self, line: &mut Line, full: &Path, size: u64) {
        let file = match File::open(full) {
            Ok(file) => file,
            Err(error) => return self.unreadable(line, "open", errno::of(&error)),
        };
        match checksum(&file, size) {
            Ok(crc) => line.field("crc", format_args!("{crc:08x}")),
            Err(errno) => self.unreadable(line, "crc", errno),
        }
        if !self.detail.maps {
            return;
        }
        match data_ranges(&file, size) {
            Ok(ranges) => {
                let ranges: Vec<_> = ranges.iter().map(|(start, end)| format!("{start}-{end}")).collect();
                line.field("map", ranges.join(","));
            }
            Err(errno) => self.unreadable(line, "map", errno),
        }
    }

    fn unreadable(&mut self, line: &mut Line, key: &str, errno: Errno) {
        self.unreadable += 1;
        line.field(key, format_args!("!{}", errno::name(errno)));
    }
}

struct Line(String);

impl Line {
    fn field(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing into a String cannot fail.
        let _ = write!(self.0, " {key}={value}");
    }
}

fn type_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "dir",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "char",
        FileType::BlockDevice => "block",
        FileType::Unknown => "unknown",
    }
}

fn time(stamp: &StatxTimestamp) -> String {
    format!("{}.{:09}", stamp.tv_sec, stamp.tv_nsec)
}

fn add_xattrs(line: &mut Line, full: &Path) -> Result<(), Errno> {
    let mut list = vec![0; XATTR_MAX];
    let length = match llistxattr(full, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    list.truncate(length);
    let mut names: Vec<&CStr> = list
        .split_inclusive(|&byte| byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
        .collect();
    names.sort();
    let mut value = vec![0; XATTR_MAX];
    for name in names {
        let length = lgetxattr(full, name, &mut value[..])?;
        let bytes = value.get(..length).unwrap_or_default();
        let shown = if length <= XATTR_SHOWN_MAX {
            escape(bytes)
        } else {
            format!("@{length}:{:08x}", crc32fast::hash(bytes))
        };
        line.field(&format!("xattr:{}", escape(name.to_bytes())), shown);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_something_unreadable_is_none() {
        // Opened by root, but without anything to read; for others closed.
        let (root, path) = (Path::new("/sys/bus/platform"), Path::new("drivers_probe"));
        let why = line_of(root, path, Detail::default()).unwrap_err().to_string();
        assert!(why.starts_with("not all can be read: drivers_probe type=file"), "{why}");
    }
}
