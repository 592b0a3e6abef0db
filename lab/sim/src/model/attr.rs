//! Flags of chattr(1), projects, advice, parameters and blocks of compressed files, and ACLs.
use super::{BLOCK, Inode, Limits, Model};
use crate::fs::{FLAGS, Node, Res, errno};
use crate::stored::Stored;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeFlags};

/// The ACLs that are set have entries for an owner, a user, the group, the mask and others.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
pub const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
/// The attribute that stands for `i_advise`.
pub const ADVISE_NAME: &[u8] = b"system.advise";
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const MASK: u16 = 16;
const OTHER: u16 = 32;
/// The user whom the ACL names, and the id of the other entries.
const NAMED: u32 = 77;
const NO_ID: u32 = u32::MAX;
/// The bits of `i_advise` that users set.
const SETTABLE: Advise = Advise::COLD.union(Advise::HOT);
/// The bit of `i_compress_flag` for checksums. The level is in its high byte.
const CHECKSUM: u16 = 1;
/// The permission bits of a mode.
const PERMISSIONS: u16 = 0o777;

/// The ACL that goes with a mode, as setxattr(2) takes it. The group bits of the mode are the mask.
#[must_use]
pub fn acl(mode: u16) -> Vec<u8> {
    let entries = [
        (USER_OBJ, mode >> 6 & 7, NO_ID),
        (USER, 4, NAMED),
        (GROUP_OBJ, 5, NO_ID),
        (MASK, mode >> 3 & 7, NO_ID),
        (OTHER, mode & 7, NO_ID),
    ];
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend(tag.to_le_bytes().into_iter().chain(perm.to_le_bytes()).chain(id.to_le_bytes()));
    }
    out
}

/// The permission bits that go with an ACL of [`acl`].
pub(super) fn mode_of(acl: &[u8]) -> Res<u16> {
    let perm = |entry: usize| acl.get(6 + entry * 8).map(|&p| u16::from(p)).ok_or(errno::EINVAL);
    Ok(perm(0)? << 6 | perm(3)? << 3 | perm(4)?)
}

/// The flags that a new inode takes from its directory.
fn inherited(dir: InodeFlags, kind: FileType) -> InodeFlags {
    let any = InodeFlags::NODUMP | InodeFlags::NOATIME;
    let file = any | InodeFlags::SYNC | InodeFlags::NOCOMP | InodeFlags::COMPR;
    let of_dir = InodeFlags::DIRSYNC | InodeFlags::PROJINHERIT | InodeFlags::CASEFOLD;
    match kind {
        FileType::Regular => dir & file,
        FileType::Directory => dir & (file | of_dir),
        _ => dir & any,
    }
}

impl Limits {
    /// The fields that no operation shows, of a new file.
    #[must_use]
    pub fn stored_of_new(&self, compressed: bool) -> Stored {
        Stored { compress_flag: if compressed { self.compress_flag } else { 0 }, ..Stored::default() }
    }
}

impl Model {
    /// The attributes that a new inode inherits from its directory, and gets from the mount.
    pub(super) fn inherit(&self, inode: Inode, parent: &Inode, umask: u16) -> Inode {
        let inode = inherit_acl(inode, parent, umask);
        let mut flags = inherited(parent.flags, inode.kind);
        let packed = self.limits.compressed.filter(|_| inode.kind == FileType::Regular);
        flags |= packed.map_or(InodeFlags::empty(), |_| InodeFlags::COMPR);
        let projid = if parent.flags.contains(InodeFlags::PROJINHERIT) { parent.projid } else { 0 };
        let created = self.limits.creation_times.then_some(self.now);
        let stored = Some(self.limits.stored_of_new(packed.is_some()));
        Inode { flags, projid, created, compression: packed, stored, ..inode }
    }

    /// The advice that a new file gets by its name.
    pub(super) fn temperature(&self, name: &[u8], kind: FileType) -> Advise {
        match kind {
            FileType::Regular if name.ends_with(b".mp4") => Advise::COLD,
            FileType::Regular if self.limits.hot_names && name.ends_with(b".db") => Advise::HOT,
            _ => Advise::empty(),
        }
    }

    pub(super) fn change_advise(&mut self, node: Node, value: &[u8]) -> Res<()> {
        let &[bits] = value else { return Err(errno::EINVAL) };
        let bits = Advise::from_bits_retain(bits);
        if !SETTABLE.contains(bits) {
            return Err(errno::EINVAL);
        }
        let inode = self.change(node)?;
        inode.advise = inode.advise.difference(SETTABLE).union(bits);
        Ok(())
    }

    pub(super) fn change_flags(&mut self, node: Node, flags: InodeFlags) -> Res<()> {
        let may = match self.get(node)?.kind {
            FileType::Directory => FLAGS,
            FileType::Regular => FLAGS - InodeFlags::DIRSYNC - InodeFlags::PROJINHERIT - InodeFlags::CASEFOLD,
            _ => InodeFlags::NODUMP | InodeFlags::NOATIME,
        };
        if !may.contains(flags) {
            return Err(errno::EOPNOTSUPP);
        }
        self.change(node)?.flags = flags;
        Ok(())
    }

    pub(super) fn change_project(&mut self, node: Node, project: u32) -> Res<()> {
        self.get(node)?;
        if !self.limits.projects {
            return if project == 0 { Ok(()) } else { Err(errno::EOPNOTSUPP) };
        }
        self.change(node)?.projid = project;
        Ok(())
    }

    /// Blocks of a file are released or reserved. That compression saves any in a full cluster is taken for granted.
    pub(super) fn change_released(&mut self, node: Node, released: bool) -> Res<()> {
        if !self.limits.compressible {
            return Err(errno::EOPNOTSUPP);
        }
        let inode = self.get(node)?;
        let size = inode.bytes()?.size();
        if !inode.flags.contains(InodeFlags::COMPR) || self.is_released(node) == released {
            return Err(errno::EINVAL);
        }
        if released && inode.compression.is_some_and(|(_, log)| size < BLOCK << log) {
            return Err(errno::EPERM);
        }
        let inode = self.change(node)?;
        inode.stored = inode.stored.map(|stored| Stored { released, ..stored });
        Ok(())
    }

    fn is_released(&self, node: Node) -> bool {
        self.get(node).is_ok_and(|inode| inode.stored.is_some_and(|stored| stored.released))
    }

    /// The blocks for a change of data are missing.
    pub(super) fn check_not_released(&self, node: Node) -> Res<()> {
        if self.is_released(node) { Err(errno::EPERM) } else { Ok(()) }
    }

    pub(super) fn change_compression(&mut self, node: Node, algorithm: u8, log_cluster: u8) -> Res<()> {
        let (compressible, of_mount) = (self.limits.compressible, self.limits.compressed);
        let flag = self.limits.compress_flag;
        let inode = self.get_mut(node)?;
        if !compressible {
            return Err(errno::EOPNOTSUPP);
        }
        if !inode.flags.contains(InodeFlags::COMPR) || inode.bytes().is_err() {
            return Err(errno::EINVAL);
        }
        if inode.bytes()?.size() > 0 {
            return Err(errno::EFBIG);
        }
        inode.compression = Some((algorithm, log_cluster));
        // A level belongs to its algorithm.
        let keeps_level = of_mount.is_some_and(|(default, _)| default == algorithm);
        let compress_flag = if keeps_level { flag } else { flag & CHECKSUM };
        inode.stored = inode.stored.map(|stored| Stored { compress_flag, ..stored });
        Ok(())
    }
}

/// Mode and ACLs of a new inode: the default ACL of its directory replaces the umask.
fn inherit_acl(mut inode: Inode, parent: &Inode, umask: u16) -> Inode {
    let default = parent.xattrs.get(DEFAULT_ACL).filter(|_| inode.kind != FileType::Symlink);
    let Some((default, most)) = default.and_then(|default| Some((default, mode_of(default).ok()?))) else {
        let masked = if inode.kind == FileType::Symlink { 0 } else { umask };
        inode.mode &= !masked;
        return inode;
    };
    inode.mode &= most | !PERMISSIONS;
    inode.xattrs.insert(ACCESS_ACL.to_vec(), acl(inode.mode));
    if inode.is_dir() {
        inode.xattrs.insert(DEFAULT_ACL.to_vec(), default.clone());
    }
    inode
}
