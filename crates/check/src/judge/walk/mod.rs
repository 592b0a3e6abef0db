//! The walk over everything that can be reached: the tree from the root, quota files, orphans.
//!
//! Directories wait on a list instead of on the stack, each node id is entered once, and each block may have one
//! owner, so the walk ends on damaged volumes with cycles too. The nodes and blocks of a batch of
//! directories, and the nodes of a file, are read ahead in address order.
mod against;
mod content;
mod data_block;
mod dir;
mod entry;
mod fields;
mod file;
mod index;
mod inline;
mod inode;
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

use crate::evidence::{Ahead, Bitmap, MultisetHash, NodeScan, QuotaInode, Volume};
use crate::judge::quota::Usage;
use crate::judge::summaries::Summaries;
use crate::report::{Kind, Rules, Sink, Summary};
use crate::{CheckError, Pass, Progress};
use against::Against;
use links::Links;
use names::Names;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use segno_format::{Corrupt, Ino, Nid, Structure, Unit};

/// Everything the walk has reached.
pub(crate) struct Found {
    /// Node ids.
    pub nids: Bitmap,
    /// Data blocks, by block of the main area.
    pub data: Bitmap,
    pub counts: Summary,
    pub usage: Usage,
}

impl Found {
    fn new(volume: &Volume<'_>) -> Self {
        let counts = Summary { orphans: volume.orphans.len() as u64, ..Summary::default() };
        let (nids, data) = (Bitmap::new(volume.geo.max_nid().into()), Bitmap::new(volume.geo.main_blocks()));
        Self { nids, data, counts, usage: Usage::default() }
    }
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
const BATCH: usize = 32;

/// A directory that is visited but not read yet.
struct PendingDir {
    ino: u32,
    via: Via,
}

pub(crate) struct Walk<'w, 'v> {
    volume: &'v Volume<'v>,
    /// Addresses of all nodes.
    places: &'w Bitmap,
    against: Against<'v>,
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

/// Summary blocks kept by a walk that explains: 4 MiB.
const SUMMARIES: usize = 1024;

/// Walks the whole volume and reports all that is wrong; with `data` the content of compressed clusters is read, too.
pub(crate) fn explain(
    volume: &Volume<'_>,
    places: &Bitmap,
    data: bool,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, CheckError> {
    let against = Against::Summaries(Summaries::new(volume, SUMMARIES));
    let mut walk = Walk::new((volume, places), against, Found::new(volume), data, sink, progress);
    walk.run()?;
    let found = walk.found;
    lost::check_nodes(volume, &found, sink)?;
    lost::check_blocks(volume, &found, places, sink);
    Ok(found)
}

/// Sweeps over the inodes and walks the rest of the volume; `None` if anything may be wrong. `hash` has
/// the items of the NAT and the summaries.
pub(crate) fn prove(
    volume: &Volume<'_>,
    scan: &NodeScan,
    mut hash: MultisetHash,
    data: bool,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Found>, CheckError> {
    let mut found = Found::new(volume);
    let Some(settled) = sweep::run(volume, scan, &mut hash, &mut found, progress) else {
        return Ok(None);
    };
    let against = Against::Hash { hash, settled };
    let mut walk = Walk::new((volume, &scan.places), against, found, data, sink, progress);
    walk.run()?;
    let balances = matches!(&walk.against, Against::Hash { hash, .. } if hash.balances());
    let found = walk.found;
    lost::check_blocks(volume, &found, &scan.places, sink);
    Ok((balances && sink.is_clean()).then_some(found))
}

impl<'w, 'v> Walk<'w, 'v> {
    fn new(
        (volume, places): (&'v Volume<'v>, &'w Bitmap),
        against: Against<'v>,
        found: Found,
        data: bool,
        sink: &'w mut Sink,
        progress: &'w mut dyn FnMut(Progress),
    ) -> Self {
        Self {
            volume,
            places,
            against,
            nodes: Ahead::new(volume.reader),
            dentries: Ahead::new(volume.reader),
            names: data.then(Names::default),
            sink,
            progress,
            found,
            links: Links::default(),
            pending: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), CheckError> {
        (self.progress)(Progress::start(Pass::Walk));
        self.tree()?;
        self.quota_files()?;
        self.orphans()?;
        self.links.check(self.sink);
        Ok(())
    }
}

impl Walk<'_, '_> {
    fn tree(&mut self) -> Result<(), CheckError> {
        if self.visit_nid(Nid::ROOT, Ino::ROOT.0, Structure::Volume) {
            self.pending.push(PendingDir { ino: Ino::ROOT.0, via: Via::Root });
        }
        while !self.pending.is_empty() && !self.has_failed() {
            let batch = self.pending.split_off(self.pending.len().saturating_sub(BATCH));
            self.directories(batch)?;
        }
        Ok(())
    }

    /// Whether a proof has met something wrong, so that the rest does not matter.
    fn has_failed(&self) -> bool {
        matches!(self.against, Against::Hash { .. }) && !self.sink.is_clean()
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
            let mut rules = Rules::new(Kind::Orphan, Structure::OrphanBlock, Unit::Nid, ino);
            let exists = self.volume.nat.get(Nid(ino)).is_some();
            let new = rules.equal("listed inode does not exist", exists, true)
                && rules.equal("listed inode is in use", self.found.nids.contains(ino.into()), false);
            self.sink.add_broken(None, rules);
            if new {
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
            // Visited now, so that a second name is noticed while it waits.
            if self.visit_nid(Nid(ino), parent, Structure::DentryBlock) {
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
        if self.is_settled(ino, via) || !self.visit_nid(Nid(ino), by, from) {
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

    /// Whether all but the name of an inode has been judged; notes the name then.
    fn is_settled(&mut self, ino: u32, via: Via) -> bool {
        let Via::Name { parent, file_type } = via else { return false };
        if !self.against.is_settled(ino) {
            return false;
        }
        self.against.name(ino, parent, file_type);
        self.found.nids.insert(ino.into());
        self.found.counts.nodes = self.found.counts.nodes.saturating_add(1);
        self.count(FileType::from_disk(file_type).unwrap_or(FileType::Unknown));
        true
    }

    fn report(&mut self, ino: u32, kind: Kind, e: Corrupt) {
        self.sink.add_for(ino, kind, e);
    }

    fn report_broken(&mut self, ino: u32, rules: Rules) {
        self.sink.add_broken(Some(ino), rules);
    }

    fn tell(&mut self) {
        if self.found.counts.inodes.is_multiple_of(1024) {
            let total = self.volume.pack.cp().valid_inode_count.get().into();
            (self.progress)(Progress { pass: Pass::Walk, done: self.found.counts.inodes, total });
        }
    }
}
