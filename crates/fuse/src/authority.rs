//! Authority of callers over the mount, the volume, and files beyond their content. Each operation has a row in a table of
//! ioctls (`ioctl`) or of control attributes (`control`), and the row a rule here.
use crate::callers::Credentials;
use crate::origin::Origin;
use crate::server::Server;
use crate::wire::InHeader;
use rustix::thread::CapabilitySet;
use segno_engine::{Attr, Error, Result};
use segno_format::Ino;

const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o010;

/// Callers to whom an operation is permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// All callers that can access the mount.
    Anyone,
    /// Callers that the kernel has checked, as it knows the operation: it required a writable mount, and the
    /// owner or CAP_FOWNER.
    CheckedByKernel,
    /// The owner of the file, or a caller with CAP_FOWNER.
    Owner,
    /// A caller with CAP_SYS_ADMIN, or the user of a server that is not root's. No guest.
    Administrator,
    /// A caller with CAP_SYS_ADMIN, which the kernel required, as for each attribute `trusted.*`. No guest.
    Trusted,
    /// The user of a server that is not root's. No guest.
    ServerUser,
}

impl Server {
    /// Refuses a caller that may not carry out an operation on an inode.
    pub(crate) fn authorize(&self, head: &InHeader, ino: Ino, who: Who) -> Result<()> {
        let is_own = |own: Option<u32>| own.is_some() && own == self.user(head);
        let permitted = match (who, self.origin) {
            (Who::Anyone | Who::CheckedByKernel, _) | (Who::Trusted, Origin::Host { .. }) => true,
            (Who::Owner, _) => self.owns(head, ino)? || self.has(head, CapabilitySet::FOWNER),
            (Who::Administrator, Origin::Host { own }) => {
                is_own(own) || self.has(head, CapabilitySet::SYS_ADMIN)
            }
            (Who::ServerUser, Origin::Host { own }) => is_own(own),
            (Who::Administrator | Who::Trusted | Who::ServerUser, Origin::Guest) => false,
        };
        if permitted { Ok(()) } else { Err(refusal(who)) }
    }

    /// Refuses changes that the kernel passes on although it has the mount read-only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let read_only = self.mount_id.get().is_some_and(|mount| mount.is_read_only());
        if read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Whether a caller is the owner that the mount shows.
    fn owns(&self, head: &InHeader, ino: Ino) -> Result<bool> {
        let owner = self.ownership.shown(self.volume.getattr(ino)?).uid;
        Ok(self.user(head) == Some(owner))
    }

    /// Whether a caller has a capability. A guest has checked its own users: its root has those for files.
    fn has(&self, head: &InHeader, capability: CapabilitySet) -> bool {
        match self.origin {
            Origin::Host { .. } => {
                self.credentials(head, 0).is_some_and(|caller| caller.capabilities.contains(capability))
            }
            Origin::Guest => head.uid == 0,
        }
    }

    /// The user number of a caller on the volume; `None` if it cannot be determined.
    fn user(&self, head: &InHeader) -> Option<u32> {
        match head.uid {
            InHeader::UNKNOWN => self.credentials(head, 0)?.user,
            uid => Some(uid),
        }
    }

    /// Capabilities and user of a caller, and whether it is in a group.
    fn credentials(&self, head: &InHeader, group: u32) -> Option<Credentials> {
        let of_mount = || self.mount_id.get().map(|mount| mount.device_number());
        let device = if head.uid == InHeader::UNKNOWN { Some(of_mount()?) } else { None };
        self.callers.as_ref()?.of(head.pid, group, device)
    }

    /// Whether the names of `trusted` attributes are visible to a caller.
    pub(crate) fn sees_trusted(&self, head: &InHeader) -> bool {
        self.has(head, CapabilitySet::SYS_ADMIN)
    }

    /// Whether a change of content by this caller keeps set-user-ID and set-group-ID.
    pub(crate) fn keeps_set_id(&self, head: &InHeader) -> bool {
        self.has(head, CapabilitySet::FSETID)
    }

    /// Whether an unprivileged change of this file by this caller clears set-group-ID without group execution: not if the
    /// caller is in the group, as in Linux since 6.2 (`setattr_should_drop_sgid`).
    pub(crate) fn loses_set_group_id(&self, head: &InHeader, attr: &Attr) -> bool {
        if attr.mode & S_ISGID == 0 || attr.mode & S_IXGRP != 0 || head.gid == attr.gid {
            return false;
        }
        match self.origin {
            Origin::Host { .. } => self.credentials(head, attr.gid).is_none_or(|caller| {
                !caller.is_member && !caller.capabilities.contains(CapabilitySet::FSETID)
            }),
            Origin::Guest => head.uid != 0,
        }
    }
}

fn refusal(who: Who) -> Error {
    Error::NotPermitted(match who {
        Who::Owner => "only the owner of the file and CAP_FOWNER permit this",
        _ => {
            "only CAP_SYS_ADMIN, or the user of a server that is not root's, changes the mount or the volume"
        }
    })
}
