//! Directories: each block of entries, and all entries together.
use super::file::File;
use super::{PendingDir, Via, Walk};
use crate::CheckError;
use crate::evidence::ahead;
use crate::report::{Kind, Rules};
use segno_format::dentry::{DentryShape, FileType, LOST_FOUND};
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};
use segno_format::{Block, BlockAddr, Ino, Nid, Structure, Unit};
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::thread;

/// Blocks of directories read ahead: 256 KiB.
const AHEAD: usize = 64;

/// A directory while its entries are read.
pub(super) struct Dir {
    pub ino: u32,
    /// The root is its own parent.
    pub parent: u32,
    pub dir_level: u8,
    pub depth: u32,
    pub inline: bool,
    pub casefold: bool,
    pub encrypted: bool,
    /// Its inode has the name `lost+found`.
    pub is_lost_found: bool,
    /// Hashes of the names seen.
    pub names: HashSet<u64>,
    /// Whether `.` and `..` were found in their slots.
    pub dots: [bool; 2],
    pub subdirs: u32,
}

/// Where a block of entries is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Address, for reports.
    pub addr: BlockAddr,
    /// Block of the directory.
    pub b: u64,
}

/// An entry to follow once its block is done.
pub(super) struct Child {
    pub ino: Ino,
    pub file_type: u8,
    /// Only where names are kept.
    pub name: Box<[u8]>,
}

/// A directory whose inode has been judged.
struct Open {
    dir: Dir,
    block: Block,
    file: File,
}

impl Walk<'_, '_> {
    /// Reads visited directories, the last one first, and follows their entries.
    pub(super) fn directories(&mut self, mut batch: Vec<PendingDir>) -> Result<(), CheckError> {
        self.want_nodes(batch.iter().map(|d| Nid(d.ino)));
        let mut open = Vec::new();
        while let Some(pending) = batch.pop() {
            open.extend(self.open_dir(&pending)?);
        }
        let listed = open
            .iter()
            .enumerate()
            .flat_map(|(i, o)| o.file.kept.iter().flatten().map(move |&(b, addr)| (i, Place { addr, b })));
        let listed: Vec<(usize, Place)> = listed.collect();
        self.listed(&mut open, &listed)?;
        for Open { mut dir, block, file } in open {
            if dir.inline {
                let area = block.0.get(file.layout.inline_range()).unwrap_or_default();
                let addr = self.volume.nat.get(Nid(dir.ino)).map_or(BlockAddr::NULL, |e| e.addr());
                self.entries(&mut dir, &DentryShape::inline(&file.layout), area, Place { addr, b: 0 })?;
            }
            self.finish(&dir, block.view());
        }
        Ok(())
    }

    /// Judges blocks of entries, chunk by chunk; while one is judged, the next is read.
    fn listed(&mut self, open: &mut [Open], listed: &[(usize, Place)]) -> Result<(), CheckError> {
        let reader = self.volume.reader;
        let read = |chunk: &[(usize, Place)]| {
            ahead::read(reader, chunk.iter().map(|(_, place)| place.addr).collect())
        };
        let mut chunks = listed.chunks(AHEAD).peekable();
        // One block alone is read when it is judged.
        if let Some(first) = chunks.peek().filter(|first| first.len() > 1) {
            self.dentries.keep(read(first));
        }
        while let Some(chunk) = chunks.next() {
            let next = thread::scope(|scope| {
                let next = chunks.peek().map(|&chunk| scope.spawn(move || read(chunk)));
                self.read_entries(open, chunk)?;
                Ok::<_, CheckError>(next.map(|t| t.join().unwrap_or_else(|e| resume_unwind(e))))
            })?;
            self.dentries.keep(next.unwrap_or_default());
        }
        Ok(())
    }

    fn read_entries(&mut self, open: &mut [Open], places: &[(usize, Place)]) -> Result<(), CheckError> {
        for &(i, place) in places {
            let block = self.dentries.block(place.addr)?;
            if let Some(Open { dir, .. }) = open.get_mut(i) {
                self.entries(dir, &DentryShape::BLOCK, &block.0, place)?;
            }
            // Blocks are sorted by directory, so the names of the previous directory are not needed again.
            if let Some(Open { dir, .. }) = i.checked_sub(1).and_then(|before| open.get_mut(before)) {
                dir.names = HashSet::new();
            }
        }
        Ok(())
    }

    fn open_dir(&mut self, pending: &PendingDir) -> Result<Option<Open>, CheckError> {
        let (ino, via) = (pending.ino, pending.via);
        let Some(block) = self.load(Nid(ino), ino, 0)? else { return Ok(None) };
        let Some(mut file) = self.inode(ino, &block, via)? else { return Ok(None) };
        let raw: &RawInode = block.view();
        if !raw.is_dir() {
            return Ok(None);
        }
        let inline = raw.inline().contains(Inline::DENTRY);
        if inline {
            file.kept = None;
        }
        let dir = Dir {
            ino,
            parent: if let Via::Name { parent, .. } = via { parent } else { ino },
            dir_level: raw.i_dir_level,
            depth: raw.i_current_depth.get(),
            inline,
            casefold: raw.flags().contains(InodeFlags::CASEFOLD),
            encrypted: raw.advise().contains(Advise::ENCRYPT),
            is_lost_found: raw.name() == LOST_FOUND,
            names: HashSet::new(),
            dots: [false; 2],
            subdirs: 0,
        };
        Ok(Some(Open { dir, block, file }))
    }

    fn entries(
        &mut self,
        dir: &mut Dir,
        shape: &DentryShape,
        area: &[u8],
        place: Place,
    ) -> Result<(), CheckError> {
        let children = self.judge_entries(dir, shape, area, place);
        self.want_children(&children);
        for child in children {
            let is_dir = child.file_type == FileType::Directory as u8;
            if is_dir {
                dir.subdirs = dir.subdirs.saturating_add(1);
            }
            match &mut self.names {
                Some(names) if is_dir => names.directory(child.ino.0, dir.ino, child.name),
                Some(names) => names.file(dir.ino, child.name),
                None => {}
            }
            self.named(child.ino.0, dir.ino, child.file_type)?;
        }
        Ok(())
    }

    /// Reads ahead the inodes that are not settled, and the nodes for their attributes.
    fn want_children(&mut self, children: &[Child]) {
        let unread =
            |c: &&Child| c.file_type != FileType::Directory as u8 && !self.against.is_settled(c.ino.0);
        let places: Vec<_> =
            children.iter().filter(unread).filter_map(|c| self.place(Nid(c.ino.0))).collect();
        self.nodes.want(places.iter().copied());
        let inodes = places.iter().filter_map(|&addr| self.nodes.peek(addr));
        let xattrs: Vec<_> = inodes.map(|block| Nid(block.view::<RawInode>().i_xattr_nid.get())).collect();
        self.want_nodes(xattrs);
    }

    fn finish(&mut self, dir: &Dir, raw: &RawInode) {
        let mut rules = Rules::new(Kind::DentryDots, Structure::DentryBlock, Unit::Nid, dir.ino);
        // In old inodes a flag requires both entries to be generated.
        let made_up = raw.inline().contains(Inline::DOTS);
        for (found, why) in dir.dots.into_iter().zip(["entry . is missing", "entry .. is missing"]) {
            rules.require(found || made_up, why, 0u64, 1u64);
        }
        self.report_broken(dir.ino, rules);
        let mut rules = Rules::new(Kind::InodeLinks, Structure::Inode, Unit::Nid, dir.ino);
        rules.equal("i_links of a directory", raw.i_links.get(), dir.subdirs.saturating_add(2));
        self.report_broken(dir.ino, rules);
    }
}
