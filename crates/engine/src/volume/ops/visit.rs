//! Reading a whole tree of a damaged volume without loops, and without copying a block for two owners.
use crate::error::{Error, Result};
use crate::files::Visits;
use crate::types::Attr;
use crate::volume::Volume;
use segno_format::{Corrupt, Ino, Structure};

impl Volume {
    /// Notes a directory before its names are read; an empty name means that the reader starts there. Fails if another name leads
    /// to it as well, or if a block of it has another owner.
    pub fn visit_dir(&self, visits: &mut Visits, parent: Ino, name: &[u8], dir: Ino) -> Result<()> {
        self.admission.admit_read();
        if let Some((before, old)) = visits.enter(dir, parent, name) {
            // It may have been renamed meanwhile.
            let leads_to_it = |(parent, name): (Ino, &[u8])| {
                name.is_empty() || self.names.lookup(parent, name).is_ok_and(|found| found.ino == dir)
            };
            if leads_to_it((before, &old)) && leads_to_it((parent, name)) {
                let why = "a directory with two names, or one that contains itself";
                let (found, expected) = (parent.0.into(), before.0.into());
                return self.damage(Corrupt::nid(Structure::Inode, dir.0, why, found, expected));
            }
        }
        if self.base.opts.read_only { self.files.visit_blocks(visits, dir) } else { Ok(()) }
    }

    /// Notes a name of anything but a directory before its content is read. Fails if it has more names than links, or if a block
    /// of it has another owner. Only a volume that is mounted read-only is checked.
    pub fn visit_file(&self, visits: &mut Visits, attr: &Attr) -> Result<()> {
        self.admission.admit_read();
        if !self.base.opts.read_only {
            return Ok(());
        }
        match visits.count(attr.ino) {
            1 => self.files.visit_blocks(visits, attr.ino),
            names if names <= attr.nlink => Ok(()),
            names => {
                let (why, links) = ("more names than i_links", attr.nlink.into());
                self.damage(Corrupt::nid(Structure::Inode, attr.ino.0, why, names.into(), links))
            }
        }
    }

    fn damage(&self, found: Corrupt) -> Result<()> {
        self.base.health.record_damage(Err(Error::from(found)))
    }
}
