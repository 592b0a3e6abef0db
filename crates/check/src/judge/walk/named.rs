//! An inode against the entry that names it.
use crate::evidence::Item;
use crate::report::Kind;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, RawInode};
use segno_format::{Corrupt, Structure};

/// The fields of an inode that an entry can contradict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub file_type: u8,
    pub links: u32,
    pub pino: u32,
    /// The parent it records is not up to date.
    pub lost_pino: bool,
}

impl Named {
    pub(super) fn of(raw: &RawInode) -> Self {
        Self {
            file_type: FileType::of_mode(raw.i_mode.get()) as u8,
            links: raw.i_links.get(),
            pino: raw.i_pino.get(),
            lost_pino: raw.advise().contains(Advise::LOST_PINO),
        }
    }

    /// The name that an inode with only one should have; `None` if there may be more.
    pub(super) fn only_name(&self, ino: u32) -> Option<Item> {
        let file = self.file_type != FileType::Directory as u8 && self.file_type != FileType::Unknown as u8;
        let known = self.file_type != FileType::Regular as u8 || !self.lost_pino;
        (file && known && self.links == 1).then(|| name(ino, self.pino, self.file_type))
    }

    /// The problems, each with the inode it belongs to: `parent`, whose entry has the type `stored`, or this
    /// one.
    pub(super) fn problems(&self, ino: u32, parent: u32, stored: u8) -> Vec<(u32, Kind, Corrupt)> {
        let mut found = Vec::new();
        let bad = |why, found: u32, expected: u32| {
            Corrupt::nid(Structure::Inode, ino, why, found.into(), expected.into())
        };
        if stored != self.file_type || self.file_type == FileType::Unknown as u8 {
            let e = bad("type in the directory entry", stored.into(), self.file_type.into());
            found.push((parent, Kind::DentryType, e));
        }
        let single = self.file_type == FileType::Regular as u8 && self.links == 1 && !self.lost_pino;
        let keeps_parent = self.file_type == FileType::Directory as u8 || single;
        if keeps_parent && self.pino != parent {
            found.push((ino, Kind::ParentPointer, bad("i_pino", self.pino, parent)));
        }
        found
    }
}

/// A name in a directory as [`Named::only_name`] expects it: only regular files keep the number of their
/// parent up to date.
pub(super) fn name(ino: u32, parent: u32, file_type: u8) -> Item {
    let parent = (file_type == FileType::Regular as u8).then_some(parent);
    Item::Name { ino, file_type, parent }
}
