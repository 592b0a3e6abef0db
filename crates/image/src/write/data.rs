//! Places directories, symbolic links and content in the data logs.
use super::body::Body;
use super::dirs;
use super::files::{Job, READ_CHUNK, Stored, Worker};
use super::index::Run;
use super::main_area::Image;
use super::ordered::ordered;
use super::plan::Plan;
use super::volume::Build;
use crate::content::Reading;
use crate::tree::{Index, Kind, ROOT};
use crate::{Error, Result};
use segno_format::BLOCK_SIZE;
use segno_format::sit::LogType;
use std::sync::Arc;

impl Build<'_, '_> {
    /// Places all data.
    pub(crate) fn place_data(&mut self, image: &Image<'_>) -> Result<()> {
        self.area.start(LogType::HotData)?;
        self.directories(image)?;
        self.quota_files()?;
        for log in [LogType::HotData, LogType::WarmData, LogType::ColdData] {
            if log != LogType::HotData && !self.plan.read_only() {
                self.area.start(log)?;
            }
            if log == LogType::WarmData {
                self.symlinks(image)?;
            }
            self.files(log, image)?;
        }
        Ok(())
    }

    fn body(&mut self, index: Index) -> Result<&mut Body> {
        self.bodies.get_mut(index).ok_or(Error::Invariant("each inode has a body"))
    }

    fn directories(&mut self, image: &Image<'_>) -> Result<()> {
        let tree = self.plan.tree;
        for (index, inode) in tree.inodes.iter().enumerate().filter(|(_, i)| i.kind.is_dir()) {
            let names = dirs::names(tree, index, &|i| self.plan.numbers.inode(i))?;
            // The root is never inline: Linux does not mount such a volume.
            if index != ROOT && dirs::fit_inline(&self.plan.dentry_shape(index)?, &names) {
                continue;
            }
            let ino = self.plan.numbers.inode(index);
            let dir = dirs::in_blocks(&names, ino, self.plan.numbers.inode(inode.parent))?;
            let mut bytes = Vec::with_capacity(dir.blocks.len() * BLOCK_SIZE);
            dir.blocks.values().for_each(|b| bytes.extend_from_slice(&b.0));
            let first = self.area.take(dir.blocks.len() as u32)?;
            image.write_main(first, &bytes)?;
            let body = self.body(index)?;
            for (rel, &at) in (first..).zip(dir.blocks.keys()) {
                body.runs.push(Run { at, rel, len: 1, cluster: false });
            }
            body.dir = (dir.len(), dir.depth);
        }
        Ok(())
    }

    /// Takes room for the quota files, whose content is known at the end.
    fn quota_files(&mut self) -> Result<()> {
        for file in self.quota.iter_mut() {
            file.rel = self.area.take(file.bytes().len().div_ceil(BLOCK_SIZE) as u32)?;
        }
        Ok(())
    }

    fn symlinks(&mut self, image: &Image<'_>) -> Result<()> {
        let tree = self.plan.tree;
        for (index, inode) in tree.inodes.iter().enumerate() {
            let Kind::Symlink(target) = &inode.kind else { continue };
            if target.len() <= self.plan.inline_capacity(index)? {
                continue;
            }
            if target.len() >= BLOCK_SIZE {
                let why = format!("its target has {} bytes, and 4095 fit", target.len());
                return Err(Error::entry(tree.host_path(index), why));
            }
            let mut bytes = target.to_vec();
            bytes.resize(BLOCK_SIZE, 0);
            let rel = self.area.take(1)?;
            image.write_main(rel, &bytes)?;
            self.body(index)?.runs.push(Run { at: 0, rel, len: 1, cluster: false });
        }
        Ok(())
    }

    fn files(&mut self, log: LogType, image: &Image<'_>) -> Result<()> {
        let plan = self.plan;
        let mut todo = plan.order.iter().copied().filter(|&i| plan.log_of(i) == log);
        let mut next = Next { plan, todo: &mut todo, current: None };
        let work = |worker: &mut Worker, job: Job| {
            let index = job.inode;
            worker.read(job).map_err(|e| match e {
                Error::TooLarge => Error::entry(plan.tree.host_path(index), "it is too large for F2FS"),
                other => other,
            })
        };
        ordered(plan.threads, &mut || next.job(), Worker::default, work, |stored| {
            self.place(&stored, image)?;
            self.progress.bytes += stored.read;
            if stored.is_last {
                self.progress.file(plan.tree, stored.inode);
            }
            Ok(())
        })
    }

    fn place(&mut self, stored: &Stored, image: &Image<'_>) -> Result<()> {
        let first = self.area.take((stored.bytes.len() / BLOCK_SIZE) as u32)?;
        image.write_main(first, &stored.bytes)?;
        let compression = self.plan.compression_of(stored.inode);
        let body = self.body(stored.inode)?;
        stored.runs.0.iter().for_each(|run| body.runs.push(Run { rel: first + run.rel, ..*run }));
        body.compression = compression.filter(|_| body.runs.is_compressed());
        Ok(())
    }
}

/// The chunks of files that are read next.
struct Next<'a> {
    plan: &'a Plan<'a>,
    todo: &'a mut (dyn Iterator<Item = Index> + Send),
    /// The file that is read, and the next byte.
    current: Option<(Index, Arc<Reading>, u64)>,
}

impl Next<'_> {
    fn job(&mut self) -> Result<Option<Job>> {
        loop {
            if let Some((inode, from, start)) = self.current.take() {
                let compression = self.plan.compression_of(inode);
                let keep_zeros = self.plan.keeps_zeros(inode);
                let next = next_chunk(&from, start + READ_CHUNK, keep_zeros)?;
                let is_last = next.is_none();
                if let Some(next) = next {
                    self.current = Some((inode, Arc::clone(&from), next));
                }
                return Ok(Some(Job { inode, from, start, compression, keep_zeros, is_last }));
            }
            let Some(index) = self.todo.next() else { return Ok(None) };
            let Kind::File(content) = &self.plan.tree.get(index)?.kind else { continue };
            if content.size <= self.plan.inline_capacity(index)? as u64 {
                continue;
            }
            let from = Arc::new(content.open()?);
            let start = next_chunk(&from, 0, self.plan.keeps_zeros(index))?.unwrap_or(0);
            self.current = Some((index, from, start));
        }
    }
}

/// The first chunk at or after the start of another that is to be read: one that holds data, unless zeros are kept.
fn next_chunk(from: &Reading, start: u64, keep_zeros: bool) -> Result<Option<u64>> {
    if keep_zeros {
        return Ok((start < from.size()).then_some(start));
    }
    Ok(from.next_data(start)?.map(|at| at / READ_CHUNK * READ_CHUNK))
}
