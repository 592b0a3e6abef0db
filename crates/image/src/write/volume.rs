//! One build: contents, placement and order of the writes.
use super::body::Body;
use super::main_area::{Image, LogRun, MainArea};
use super::nodes::Nodes;
use super::owners::QuotaFile;
use super::plan::{Numbers, Plan};
use super::progress::Progress;
use super::size::{Demand, given, smallest};
use super::tables::{Tables, Writer};
use super::{BLOCK, SEGMENT_BLOCKS};
use crate::options::{BuildOptions, Headroom, Size};
use crate::progress::Progress as Shown;
use crate::tree::{Index, Kind, Tree};
use crate::{Error, Result};
use segno_format::sit::LogType;
use segno_format::superblock::SUPERBLOCK_COPIES;
use segno_format::{BLOCK_SIZE, Block, Features};
use segno_mkfs::{Counts, Layout, MkfsOptions, plan, quota_inos, superblock};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// The result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Size of the image in bytes; for a sparse image, the size of the raw image.
    pub image_bytes: u64,
    /// Space that is left for files, in bytes.
    pub free_bytes: u64,
    /// Inodes in the image, with the root.
    pub files: u64,
    /// Sizes of all files, each counted once.
    pub content_bytes: u64,
    /// Files with compressed clusters.
    pub compressed_files: u64,
    /// Space that compression saves, in bytes. It is free only where it is released.
    pub saved_bytes: u64,
    /// The volume's id.
    pub uuid: [u8; 16],
    /// Remarks for the caller. The image is complete.
    pub notes: Vec<String>,
}

/// Writes the tree to a file, whose content is lost. The data of the regular files in `order` is placed
/// first. Returns the report, and the blocks that a reader may use; others have no content.
pub(crate) fn write(
    tree: &Tree,
    mkfs: &MkfsOptions,
    options: &BuildOptions,
    order: Vec<Index>,
    (file, path): (&File, &Path),
    show: &mut dyn FnMut(Shown<'_>),
) -> Result<(Report, Vec<Range<u64>>)> {
    let inos = quota_inos(mkfs.all_features());
    let quota_files = inos.iter().flatten().count() as u32;
    let inodes = u32::try_from(tree.inodes.len()).map_err(|_| Error::TooLarge)?;
    let provisional = provisional(tree, mkfs, options.size)?;
    let uuid = mkfs.uuid.ok_or(Error::Invariant("the volume has an id"))?;
    let version = mkfs.checkpoint_ver.ok_or(Error::Invariant("the checkpoint has a version"))?;
    let plan = Plan {
        tree,
        numbers: Numbers::new(quota_files, inodes),
        features: mkfs.all_features(),
        superblock: superblock(&provisional, mkfs, uuid, &[], inos)?.raw,
        order,
        threads: threads(options.threads),
        compression: options.compression,
        released: mkfs.has(Features::RO) && !options.reserved,
    };
    let mut image = Image { file, path, main: provisional.geo.main_blkaddr };
    image.set_len(0)?;
    let mut build = Build {
        plan: &plan,
        quota: QuotaFile::all(inos, tree),
        area: MainArea::new(mkfs.segs_per_sec),
        bodies: std::iter::repeat_with(Body::default).take(tree.inodes.len()).collect(),
        progress: Progress { files: 0, bytes: 0, show },
    };
    build.place_data(&image)?;
    let data_end = build.area.used();
    build.area.start(LogType::HotNode)?;
    let quota_nodes = build.area.take(quota_files)?;
    let nodes = Nodes::place(&plan, &build.bodies, &mut build.area)?;
    let counts = build.counts(&nodes);
    let demand =
        Demand { main: build.area.end()?.into(), blocks: counts.blocks, nids: counts.next_nid.into() };
    let (bytes, layout) = match options.size {
        Size::Auto(headroom) => smallest(&demand, headroom, mkfs)?,
        Size::Bytes(bytes) => given(&demand, bytes, mkfs)?,
    };
    if layout.geo.main_blkaddr != image.main {
        image.move_main(layout.geo.main_blkaddr, data_end)?;
    }
    image.set_len(bytes)?;
    let sb = superblock(&layout, mkfs, uuid, &[], inos)?;
    let summaries = if layout.geo.has_ssa { build.area.end()? } else { 0 };
    let mut tables = Tables::new(summaries, counts.next_nid);
    let quota = &mut build.quota;
    nodes.write(&image, &mut tables, &mut build.progress, |index, blocks| {
        if let Some(inode) = tree.inodes.get(index) {
            quota.iter_mut().for_each(|f| f.count([inode.uid, inode.gid, inode.projid], blocks));
        }
    })?;
    build.write_quota_files(quota_nodes, &image, &mut tables)?;
    let logs = build.area.runs();
    let writer = Writer { image: &image, layout: &layout, options: mkfs, tables: &tables, logs };
    writer.write(counts, version)?;
    let mut block = Block::zeroed();
    sb.raw.store(&mut block.0);
    for copy in SUPERBLOCK_COPIES {
        image.write(copy.0.into(), &block.0)?;
    }
    Ok((build.report(bytes, uuid, &layout, &counts), build.used(&layout)))
}

/// Where the main area probably begins: data is placed before the size of the volume is known.
fn provisional(tree: &Tree, mkfs: &MkfsOptions, size: Size) -> Result<Layout> {
    if let Size::Bytes(bytes) = size
        && let Ok(layout) = plan(&[bytes / BLOCK], mkfs)
    {
        return Ok(layout);
    }
    smallest(&Demand::bound(tree), Headroom::Bytes(0), mkfs).map(|(_, layout)| layout)
}

fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    }
}

/// A build under way.
pub(super) struct Build<'a, 'b> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) quota: Vec<QuotaFile>,
    pub(super) area: MainArea,
    /// One for each inode.
    pub(super) bodies: Vec<Body>,
    pub(super) progress: Progress<'b>,
}

impl Build<'_, '_> {
    fn saved(&self) -> u64 {
        self.bodies.iter().filter_map(|b| Some(b.runs.saved(1 << b.compression?.log_blocks))).sum()
    }

    fn counts(&self, nodes: &Nodes<'_>) -> Counts {
        let data: u64 =
            self.area.runs().iter().filter(|r| !r.log.is_node()).map(|r| u64::from(r.blocks)).sum();
        let reserved = if self.plan.released { 0 } else { self.saved() };
        let quota = self.quota.len() as u64;
        Counts {
            blocks: data + reserved + nodes.count + quota,
            nodes: nodes.count + quota,
            inodes: self.bodies.len() as u64 + quota,
            next_nid: nodes.next_nid,
            segments: self.area.runs().iter().map(LogRun::segments).sum(),
        }
    }

    fn write_quota_files(&self, mut rel: u32, image: &Image<'_>, tables: &mut Tables) -> Result<()> {
        for file in &self.quota {
            let mut bytes = file.bytes();
            bytes.resize(bytes.len().next_multiple_of(BLOCK_SIZE), 0);
            let blocks = (bytes.len() / BLOCK_SIZE) as u32;
            image.write_main(file.rel, &bytes)?;
            tables.data(file.rel, file.ino.nid(), 0, blocks);
            let inode = self.plan.quota_inode(file, blocks, image.main, rel)?;
            image.write_main(rel, &inode.0)?;
            tables.node(file.ino.nid(), file.ino, rel);
            rel += 1;
        }
        Ok(())
    }

    fn report(&self, image_bytes: u64, uuid: [u8; 16], layout: &Layout, counts: &Counts) -> Report {
        let inodes = &self.plan.tree.inodes;
        let content = inodes.iter().map(|i| if let Kind::File(c) = &i.kind { c.size } else { 0 });
        Report {
            image_bytes,
            free_bytes: layout.reserve.user_block_count.saturating_sub(counts.blocks) * BLOCK,
            files: inodes.len() as u64,
            content_bytes: content.fold(0, u64::saturating_add),
            compressed_files: self.bodies.iter().filter(|b| b.compression.is_some()).count() as u64,
            saved_bytes: self.saved() * BLOCK,
            uuid,
            notes: Vec::new(),
        }
    }

    fn used(&self, layout: &Layout) -> Vec<Range<u64>> {
        let main = u64::from(layout.geo.main_blkaddr);
        let logs = self.area.runs().iter().map(|r| {
            let start = main + u64::from(r.start);
            // With the next blocks of the log, where recovery looks for more.
            start..start + u64::from(r.segments()) * SEGMENT_BLOCKS
        });
        std::iter::once(0..main).chain(logs).collect()
    }
}
