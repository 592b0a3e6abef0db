//! Names of files against their link counts.
use super::{Via, Walk};
use crate::CheckError;
use crate::report::{Kind, Rules, Sink};
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use segno_format::{Corrupt, Ino, Nid, Structure, Unit};
use std::collections::HashMap;

struct Names {
    links: u32,
    found: u32,
    file_type: u8,
}

/// Files that should have, or do have, more than one name.
#[derive(Default)]
pub(super) struct Links {
    files: HashMap<u32, Names>,
}

impl Links {
    /// The first name of a file.
    pub(super) fn first(&mut self, ino: u32, links: u32, file_type: u8) {
        if links != 1 {
            self.files.insert(ino, Names { links, found: 1, file_type });
        }
    }

    /// Compares all counts at the end.
    pub(super) fn check(&self, sink: &mut Sink) {
        let mut wrong: Vec<_> = self.files.iter().filter(|(_, n)| n.links != n.found).collect();
        wrong.sort_unstable_by_key(|(ino, _)| **ino);
        for (&ino, names) in wrong {
            let e = Corrupt::nid(Structure::Inode, ino, "i_links", names.links.into(), names.found.into());
            sink.add_for(ino, Kind::InodeLinks, e);
        }
    }
}

impl Walk<'_, '_> {
    /// One more name of an inode that has been reached.
    pub(super) fn another_name(&mut self, ino: u32, via: Via) -> Result<(), CheckError> {
        let Via::Name { parent, file_type } = via else { return Ok(()) };
        if !self.links.files.contains_key(&ino) {
            let Some(names) = self.reread(ino)? else {
                let e = Corrupt::nid(Structure::DentryBlock, ino, "name of something else", parent.into(), 0);
                self.report(ino, Kind::NodeShared, e);
                return Ok(());
            };
            self.links.files.insert(ino, names);
        }
        let Some(names) = self.links.files.get_mut(&ino) else { return Ok(()) };
        names.found = names.found.saturating_add(1);
        let mut rules = Rules::new(Kind::DentryType, Structure::DentryBlock, Unit::Nid, ino);
        rules.equal("type in a directory entry", file_type, names.file_type);
        self.report_broken(parent, rules);
        Ok(())
    }

    /// The state of a file with one name so far; `None` for a directory or another node, which can have only
    /// one.
    fn reread(&mut self, ino: u32) -> Result<Option<Names>, CheckError> {
        let Some(entry) = self.volume.nat.get(Nid(ino)).filter(|e| self.volume.geo.in_main(e.addr())) else {
            return Ok(None);
        };
        let block = self.volume.reader.block(entry.addr())?;
        let raw: &RawInode = block.view();
        if raw.footer.check(Nid(ino), Ino(ino)).is_err() || raw.is_dir() {
            return Ok(None);
        }
        let file_type = FileType::of_mode(raw.i_mode.get()) as u8;
        Ok(Some(Names { links: raw.i_links.get(), found: 1, file_type }))
    }
}
