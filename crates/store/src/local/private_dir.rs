//! A directory that belongs to the user of this process alone. Mounts by root write into it, so files that
//! another user prepared must have no effect. The directory is refused if another user owns it or may write
//! to it, and its files are opened by name relative to its descriptor, never through a link.
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// For its owner alone.
const DIRECTORY: Mode = Mode::RWXU;
const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Others may write.
const SHARED: Mode = Mode::WGRP.union(Mode::WOTH);

#[derive(Debug)]
pub(crate) struct PrivateDir(File);

impl PrivateDir {
    /// Opens a directory, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match mkdirat(CWD, path, DIRECTORY) {
            Ok(()) => {
                // The parent of a relative name is empty.
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        Self::checked(openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Like [`Self::open`], for a directory in this one.
    pub(crate) fn sub(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.0, name, DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(of_file(name, e)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(&self.0, name, flags, Mode::empty()).map_err(|e| of_file(name, e))?;
        Self::checked(dir)
    }

    fn checked(dir: OwnedFd) -> io::Result<Self> {
        let stat = fstat(&dir)?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(io::Error::other(format!(
                "it belongs to user {}, who could replace what is in it: use a directory of your own",
                stat.st_uid
            )));
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        if mode.intersects(SHARED) {
            return Err(io::Error::other(format!(
                "others may write to it (mode {:o}), so its files may be theirs: use a new directory",
                mode.as_raw_mode()
            )));
        }
        if mode != DIRECTORY {
            fchmod(&dir, DIRECTORY)?;
        }
        Ok(Self(dir.into()))
    }

    /// Opens a file with these flags, and removes the rights of others. Its content is kept.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // Opening a FIFO must not block.
        let safe = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags | safe, FILE).map_err(|e| of_file(name, e))?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(io::Error::other(format!("{name} is no file of its own: use a new directory")));
        }
        if stat.st_uid != geteuid().as_raw() {
            return Err(io::Error::other(format!(
                "{name} belongs to user {}: use a new directory",
                stat.st_uid
            )));
        }
        if Mode::from_raw_mode(stat.st_mode) != FILE {
            fchmod(&file, FILE)?;
        }
        Ok(file.into())
    }

    /// Creates a file that does not exist.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Reads a file of up to `most` bytes.
    pub(crate) fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.file(name, OFlags::RDONLY)?.take(most.saturating_add(1)).read_to_end(&mut all)?;
        if all.len() as u64 > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{name} is longer than it can be"),
            ));
        }
        Ok(all)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Names of all files.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(self.0.as_fd())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                all.push(name);
            }
        }
        Ok(all)
    }

    /// Makes changed names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// The error of a file, of the same kind.
fn of_file(name: &str, e: Errno) -> io::Error {
    let kind = io::Error::from(e).kind();
    match e {
        Errno::LOOP => {
            io::Error::other(format!("{name} is a symbolic link, which is not followed: use a new directory"))
        }
        _ => io::Error::new(kind, format!("{name}: {}", io::Error::from(e))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_directory_of_others_is_refused_and_an_own_one_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d");
        PrivateDir::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        for (given, is_closed) in
            [(0o755, true), (0o750, true), (0o775, false), (0o757, false), (0o1777, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(given)).unwrap();
            let opened = PrivateDir::open(&path).map(|_| ()).map_err(|e| e.to_string());
            assert_eq!(opened.is_ok(), is_closed, "{given:o}: {opened:?}");
            assert_eq!(mode(&path), if is_closed { 0o700 } else { given }, "a refusal changes nothing");
        }
        if !geteuid().is_root() {
            println!("NOT TESTED: an owner needs root");
            return;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&path, Some(1234), None).unwrap();
        let why = PrivateDir::open(&path).unwrap_err().to_string();
        assert!(why.contains("user 1234") && why.contains("directory of your own"), "{why}");
    }

    /// Every kind of file: the target of the name is not opened, and keeps its content and mode.
    #[test]
    fn nothing_but_an_own_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, b"kept").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
        let own = PrivateDir::open(&dir.path().join("d")).unwrap();
        let at = |name: &str| dir.path().join("d").join(name);
        symlink(&target, at("link")).unwrap();
        symlink("absent", at("dangling")).unwrap();
        fs::hard_link(&target, at("hard")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        for name in ["link", "dangling", "hard", "dir", "fifo"] {
            for flags in [
                OFlags::RDONLY,
                OFlags::RDWR | OFlags::CREATE,
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            ] {
                let why = own.file(name, flags).unwrap_err().to_string();
                assert!(why.contains(name), "{name} {flags:?}: {why}");
            }
        }
        symlink(dir.path(), at("sub")).unwrap();
        own.sub("sub").unwrap_err();
        assert!(!at("absent").exists());
        assert_eq!((fs::read(&target).unwrap(), mode(&target)), (b"kept".to_vec(), 0o644));
        own.create("new").unwrap();
        assert_eq!(mode(&at("new")), 0o600);
        fs::set_permissions(at("new"), fs::Permissions::from_mode(0o644)).unwrap();
        own.file("new", OFlags::RDONLY).unwrap();
        assert_eq!(mode(&at("new")), 0o600, "a file of an earlier version");
        fs::write(at("new"), b"12345").unwrap();
        assert_eq!(own.read("new", 5).unwrap(), b"12345");
        assert!(own.read("new", 4).unwrap_err().to_string().contains("longer"));
    }
}
