//! Flags of chattr(1), projects, parameters of compression, and the access ACL.
use super::{Inode, Model};
use crate::fs::{FLAGS, Node, Res, errno};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;

/// The one ACL that is set has entries for an owner, a user, the group, the mask and others.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const MASK: u16 = 16;
const OTHER: u16 = 32;
/// The user whom the ACL names, and the id of the other entries.
const NAMED: u32 = 77;
const NO_ID: u32 = u32::MAX;

/// The ACL of a file with this mode, as setxattr(2) takes it. The group bits of the mode are the mask.
#[must_use]
pub fn access_acl(mode: u16) -> Vec<u8> {
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

/// The permission bits that go with an ACL of [`access_acl`].
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

impl Model {
    /// What a new inode takes from its directory, and from the mount.
    pub(super) fn inherit(&self, inode: Inode, parent: &Inode) -> Inode {
        let mut flags = inherited(parent.flags, inode.kind);
        let packed = self.limits.compressed.filter(|_| inode.kind == FileType::Regular);
        flags |= packed.map_or(InodeFlags::empty(), |_| InodeFlags::COMPR);
        let projid = if parent.flags.contains(InodeFlags::PROJINHERIT) { parent.projid } else { 0 };
        let created = self.limits.creation_times.then_some(self.now);
        Inode { flags, projid, created, compression: packed, ..inode }
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

    pub(super) fn change_compression(&mut self, node: Node, algorithm: u8, log_cluster: u8) -> Res<()> {
        let compressible = self.limits.compressible;
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
        Ok(())
    }
}
