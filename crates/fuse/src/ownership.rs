//! Owner and permissions that a mount shows instead of those on the volume: for volumes that come from another machine.
use segno_engine::{Attr, Owner, SetAttr};
use segno_format::dentry::FileType;

/// The bits of a mode that are no file type.
const PERMISSIONS: u16 = 0o7777;

/// Owner, group and masks that all files appear to have. Changes of these by chmod and chown succeed without
/// effect, as in ntfs-3g.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Permissions that files do not have.
    pub fmask: Option<u16>,
    /// Permissions that directories do not have.
    pub dmask: Option<u16>,
}

impl Ownership {
    /// Attributes as the mount shows them.
    pub(crate) fn shown(&self, attr: Attr) -> Attr {
        let mask = match FileType::of_mode(attr.mode) {
            FileType::Symlink => None,
            FileType::Directory => self.dmask,
            _ => self.fmask,
        };
        let mode = mask.map_or(attr.mode, |m| attr.mode & !PERMISSIONS | 0o777 & !m);
        Attr { uid: self.uid.unwrap_or(attr.uid), gid: self.gid.unwrap_or(attr.gid), mode, ..attr }
    }

    /// The part of a change that can be seen afterwards.
    pub(crate) fn visible(&self, set: SetAttr) -> SetAttr {
        let masked = self.fmask.is_some() || self.dmask.is_some();
        SetAttr {
            uid: set.uid.filter(|_| self.uid.is_none()),
            gid: set.gid.filter(|_| self.gid.is_none()),
            mode: set.mode.filter(|_| !masked),
            ..set
        }
    }

    /// The owner of a new file, which is also stored.
    pub(crate) fn of_new(&self, caller: Owner) -> Owner {
        Owner { uid: self.uid.unwrap_or(caller.uid), gid: self.gid.unwrap_or(caller.gid), ..caller }
    }
}
