//! Operations on the properties of a file other than content and name: attributes, ACLs, mode, owner, times.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::fs::{
    AtFlags, CWD, Timespec, Timestamps, XattrFlags, llistxattr, lremovexattr, lsetxattr, utimensat,
};
use rustix::io::Errno;

use segno_testkit::Rng;

use super::Worker;
use super::contents::random_bytes;
use crate::errno;

/// Seconds that overflow something: 32 bits signed, unsigned, the epoch.
const EDGE_SECONDS: [i64; 9] =
    [0, 1, -1, 1_000_000_000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0005, 0x3_0000_0000];
const NANOSECONDS: u64 = 1_000_000_000;

/// Tags of an entry in a POSIX ACL, and its version, as in `system.posix_acl_access`.
const ACL_VERSION: u32 = 2;
const ACL_USER_OBJ: u16 = 1;
const ACL_USER: u16 = 2;
const ACL_GROUP_OBJ: u16 = 4;
const ACL_GROUP: u16 = 8;
const ACL_MASK: u16 = 16;
const ACL_OTHER: u16 = 32;
const ACL_UNDEFINED_ID: u32 = u32::MAX;

impl Worker {
    pub(super) fn set_xattr(&mut self) -> Result<()> {
        let Some(path) = self.any_file_or_dir() else { return Ok(()) };
        let (what, space) = match self.rng.below(5) {
            0 => ("trusted xattr", "trusted"),
            1 => ("security xattr", "security"),
            _ => ("user xattr", "user"),
        };
        // Small ones go into the inode, large ones need a separate node.
        let length = if self.rng.chance(20) { self.rng.between(300, 3000) } else { self.rng.below(60) };
        let name = format!("{space}.{}{}", "n".repeat(self.rng.index(30)), self.rng.below(10));
        let value = random_bytes(&mut self.rng, length);
        let set = lsetxattr(self.full(&path), &*name, &value, XattrFlags::empty());
        // All attributes of a file together fit into one block.
        let full = [Errno::NOSPC, Errno::TOOBIG, Errno::PERM];
        let refusals = if self.refusals.is_empty() { &full[..2] } else { &full[..] };
        self.skips.attempt(what, set, refusals).with_context(|| path.display().to_string())?;
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self) -> Result<()> {
        let Some(path) = self.any_file_or_dir() else { return Ok(()) };
        let full = self.full(&path);
        let mut list = vec![0; 64 << 10];
        let Some(length) = self.attempt("listing xattrs", llistxattr(&full, &mut list[..]))? else {
            return Ok(());
        };
        let names =
            list.get(..length).unwrap_or_default().split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
        if let Some(name) = self.rng.choose(&names) {
            let removed = lremovexattr(&full, &**name);
            self.attempt("removing an xattr", removed).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    pub(super) fn set_acl(&mut self) -> Result<()> {
        let Some(path) = self.any_file_or_dir() else { return Ok(()) };
        let is_dir = self.tree.dirs.contains(&path);
        let (what, name) = if is_dir && self.rng.chance(50) {
            ("default ACL", "system.posix_acl_default")
        } else {
            ("ACL", "system.posix_acl_access")
        };
        let mut acl = ACL_VERSION.to_le_bytes().to_vec();
        let users = self.rng.below(4) as u32;
        let mut entry = |tag: u16, id: u32| {
            acl.extend_from_slice(&tag.to_le_bytes());
            acl.extend_from_slice(&(self.rng.below(8) as u16).to_le_bytes());
            acl.extend_from_slice(&id.to_le_bytes());
        };
        entry(ACL_USER_OBJ, ACL_UNDEFINED_ID);
        (0..users).for_each(|user| entry(ACL_USER, 1000 + user * 7));
        entry(ACL_GROUP_OBJ, ACL_UNDEFINED_ID);
        entry(ACL_GROUP, 100);
        entry(ACL_MASK, ACL_UNDEFINED_ID);
        entry(ACL_OTHER, ACL_UNDEFINED_ID);
        let set = lsetxattr(self.full(&path), name, &acl, XattrFlags::empty());
        self.skips
            .attempt(what, set, &[Errno::NOSPC, Errno::TOOBIG])
            .with_context(|| path.display().to_string())?;
        Ok(())
    }

    /// All twelve bits for files; directories stay passable for who is not root.
    pub(super) fn change_mode(&mut self) -> Result<()> {
        let Some(path) = self.any_file_or_dir() else { return Ok(()) };
        let kept = if self.tree.dirs.contains(&path) { 0o700 } else { 0o600 };
        let mode = self.rng.below(0o10000) as u32 | kept;
        let set = fs::set_permissions(self.full(&path), Permissions::from_mode(mode))
            .map_err(|error| errno::of(&error));
        self.attempt("chmod", set).with_context(|| path.display().to_string())?;
        Ok(())
    }

    pub(super) fn change_owner(&mut self) -> Result<()> {
        let Some(path) = self.any_file_or_dir() else { return Ok(()) };
        // Up to the largest that is not "leave as it is".
        let ids = [0, 1, 1000, 65_534, 65_536, u32::MAX - 1];
        let user = self.rng.choose(&ids).copied();
        let group = self.rng.choose(&ids).copied();
        let set = lchown(self.full(&path), user, group).map_err(|error| errno::of(&error));
        self.attempt("chown", set).with_context(|| path.display().to_string())?;
        Ok(())
    }

    /// Last of all, since every operation moves some; afterwards times depend on seed and name alone.
    pub(super) fn set_all_times(&mut self) -> Result<()> {
        for path in self.tree.bottom_up() {
            let mut rng = Rng::new(self.seed ^ u64::from(crc32fast::hash(path.as_os_str().as_bytes())));
            let times = Timestamps { last_access: time(&mut rng), last_modification: time(&mut rng) };
            let set = utimensat(CWD, self.full(&path), &times, AtFlags::SYMLINK_NOFOLLOW);
            self.attempt("utimensat", set).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn any_file_or_dir(&mut self) -> Option<PathBuf> {
        if self.rng.chance(70) { self.any_file() } else { self.rng.choose(&self.tree.dirs).cloned() }
    }
}

fn time(rng: &mut Rng) -> Timespec {
    let tv_sec = if rng.chance(40) {
        rng.choose(&EDGE_SECONDS).copied().unwrap_or(0)
    } else {
        rng.below(2_000_000_000) as i64
    };
    let tv_nsec = match rng.below(4) {
        0 => 0,
        1 => NANOSECONDS - 1,
        _ => rng.below(NANOSECONDS),
    };
    Timespec { tv_sec, tv_nsec: tv_nsec as i64 }
}
