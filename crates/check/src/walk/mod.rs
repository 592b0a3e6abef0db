//! The walk over everything that can be reached: the tree from the root, quota files, orphans.
//!
//! Directories wait on a list instead of on the stack, each node id is entered once, and each block may be claimed
//! once, so damaged volumes with cycles end like all others. What the walk will need is read ahead, in order of the
//! addresses: all inodes before it starts, the blocks of a batch of directories, the nodes of a file.
mod claim;
mod content;
mod dir;
mod entry;
mod fields;
mod file;
mod index;
mod inline;
mod inode;
mod kept;
mod links;
mod lost;
mod named;
mod names;
mod node;
mod simple;
mod special;
mod sweep;
mod symlink;
mod xattr;

pub use entry::is_debatable as is_debatable_name;
pub use xattr::bad_value as bad_xattr;

use crate::ahead::Ahead;
use crate::bitmap::Bitmap;
use crate::quota::{QuotaInode, Usage};
use crate::report::{Kind, Sink};
use crate::ssa::Ssa;
use crate::volume::Volume;
use crate::{CheckError, Pass, Progress};
use kept::Shelves;
use links::Links;
use names::Names;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use segno_format::{Corrupt, Nid, Structure};

/// What the walk has reached.
pub(crate) struct Found {
    /// Node ids.
    pub nids: Bitmap,
    /// Data blocks, by block of the main area.
    pub data: Bitmap,
    pub nodes: u64,
    pub inodes: u64,
    pub dirs: u64,
    pub files: u64,
    pub symlinks: u64,
    pub special_files: u64,
    pub orphans: u64,
    pub data_blocks: u64,
    /// Slots that count without a place.
    pub reserved_blocks: u64,
    pub usage: Usage,
}

/// How an inode was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Root,
    /// An entry of a directory; `file_type` as stored.
    Name {
        parent: u32,
        file_type: u8,
    },
    Orphan,
    Quota,
}

/// Directories read together.
const BATCH: usize = 64;

/// A directory that is claimed but not read yet.
struct PendingDir {
    ino: u32,
    via: Via,
}

pub(crate) struct Walk<'w, 'v> {
    volume: &'v Volume<'v>,
    ssa: &'w mut Ssa<'v>,
    /// Addresses of all nodes.
    places: &'w Bitmap,
    /// What the sweep kept.
    shelves: Shelves,
    /// Nodes and blocks of directories that were read ahead.
    nodes: Ahead<'v>,
    dentries: Ahead<'v>,
    /// Names for reports on content, if that is read.
    names: Option<Names>,
    sink: &'w mut Sink,
    progress: &'w mut dyn FnMut(Progress),
    found: Found,
    links: Links,
    pending: Vec<PendingDir>,
}

/// Walks the whole volume; with `data` the content of compressed clusters is read, too.
pub(crate) fn run<'v>(
    volume: &'v Volume<'v>,
    ssa: &mut Ssa<'v>,
    places: &Bitmap,
    data: bool,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, CheckError> {
    let geo = &volume.geo;
    let shelves = sweep::run(volume, ssa, places, sink, progress)?;
    let found = Found {
        nids: Bitmap::new(geo.max_nid().into()),
        data: Bitmap::new(geo.main_blocks()),
        nodes: 0,
        inodes: 0,
        dirs: 0,
        files: 0,
        symlinks: 0,
        special_files: 0,
        orphans: volume.orphans.len() as u64,
        data_blocks: 0,
        reserved_blocks: 0,
        usage: Usage::default(),
    };
    let mut walk = Walk {
        volume,
        ssa,
        places,
        shelves,
        nodes: Ahead::new(volume.reader),
        dentries: Ahead::new(volume.reader),
        names: data.then(Names::default),
        sink,
        progress,
        found,
        links: Links::default(),
        pending: Vec::new(),
    };
    walk.tree()?;
    walk.quota_files()?;
    walk.orphans()?;
    walk.links.check(walk.sink);
    lost::check(volume, &walk.found, places, walk.sink);
    Ok(walk.found)
}

impl Walk<'_, '_> {
    fn tree(&mut self) -> Result<(), CheckError> {
        if self.claim_nid(Nid::ROOT, Nid::ROOT.0, Structure::Volume) {
            self.pending.push(PendingDir { ino: Nid::ROOT.0, via: Via::Root });
        }
        while !self.pending.is_empty() {
            let batch = self.pending.split_off(self.pending.len().saturating_sub(BATCH));
            self.directories(batch)?;
        }
        Ok(())
    }

    fn quota_files(&mut self) -> Result<(), CheckError> {
        for (i, ino) in self.volume.sb.quota_inos().into_iter().enumerate() {
            let Some(ino) = ino else { continue };
            let Some(block) = self.node(Nid(ino), ino, 0)? else { continue };
            let Some(file) = self.inode(ino, &block, Via::Quota)? else { continue };
            let size = block.view::<RawInode>().i_size.get();
            let blocks = file.kept.into_iter().flatten().collect();
            if let Some(slot) = self.found.usage.files.get_mut(i) {
                *slot = Some(QuotaInode { ino, size, blocks });
            }
        }
        Ok(())
    }

    fn orphans(&mut self) -> Result<(), CheckError> {
        if let Some(names) = &mut self.names {
            names.leave();
        }
        for &ino in &self.volume.orphans {
            if self.volume.nat.get(Nid(ino)).is_none() {
                let e = Corrupt::nid(Structure::OrphanBlock, ino, "listed inode does not exist", 0, 1);
                self.sink.add(Kind::Orphan, e);
            } else if self.found.nids.contains(ino.into()) {
                let e = Corrupt::nid(Structure::OrphanBlock, ino, "listed inode is in use", 1, 0);
                self.sink.add(Kind::Orphan, e);
            } else {
                self.open(ino, Via::Orphan)?;
            }
        }
        Ok(())
    }

    /// Follows an entry of a directory.
    fn named(&mut self, ino: u32, parent: u32, file_type: u8) -> Result<(), CheckError> {
        let via = Via::Name { parent, file_type };
        if self.found.nids.contains(ino.into()) {
            return self.another_name(ino, via);
        }
        if file_type == FileType::Directory as u8 {
            // Claimed now, so that a second name is noticed while it waits.
            if self.claim_nid(Nid(ino), parent, Structure::DentryBlock) {
                self.pending.push(PendingDir { ino, via });
            }
            return Ok(());
        }
        self.open(ino, via)
    }

    /// Checks an inode that has not been reached before.
    fn open(&mut self, ino: u32, via: Via) -> Result<(), CheckError> {
        let (by, from) = match via {
            Via::Name { parent, .. } => (parent, Structure::DentryBlock),
            Via::Orphan => (ino, Structure::OrphanBlock),
            Via::Root | Via::Quota => (ino, Structure::Superblock),
        };
        if !self.claim_nid(Nid(ino), by, from) || self.is_kept(ino, via) {
            return Ok(());
        }
        let Some(block) = self.load(Nid(ino), ino, 0)? else { return Ok(()) };
        if via != Via::Orphan && self.is_dir(&block) {
            self.pending.push(PendingDir { ino, via });
            return Ok(());
        }
        self.inode(ino, &block, via)?;
        Ok(())
    }

    /// Whether the sweep has judged an inode and nothing is wrong with it as reached now either; notes what it has then.
    fn is_kept(&mut self, ino: u32, via: Via) -> bool {
        let Via::Name { parent, file_type } = via else { return false };
        let Some(kept) = self.shelves.get(Nid(ino)) else { return false };
        let fits = kept.named.problems(ino, parent, file_type).is_empty()
            && kept.data().all(|addr| self.is_unclaimed(addr));
        if !fits {
            return false;
        }
        for addr in kept.data() {
            self.found.data.insert((addr.0 - self.volume.geo.main_blkaddr).into());
            self.found.data_blocks = self.found.data_blocks.saturating_add(1);
        }
        self.found.reserved_blocks = self.found.reserved_blocks.saturating_add(kept.reserved.into());
        self.count(FileType::from_disk(kept.named.file_type).unwrap_or(FileType::Unknown));
        self.links.first(ino, kept.named.links, kept.named.file_type);
        if let Some(owners) = kept.owners {
            self.found.usage.add(owners, kept.blocks());
        }
        true
    }

    fn report(&mut self, ino: u32, kind: Kind, e: Corrupt) {
        self.sink.add_for(ino, kind, e);
    }

    fn tell(&mut self) {
        if self.found.inodes.is_multiple_of(1024) {
            let total = self.volume.pack.cp().valid_inode_count.get().into();
            (self.progress)(Progress { pass: Pass::Walk, done: self.found.inodes, total });
        }
    }
}
