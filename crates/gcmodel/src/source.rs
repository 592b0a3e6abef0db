//! Operations of an application, the same sequence for the model and for the engine.
use crate::experiment::{Experiment, Shape, Workload};
use crate::zipf::Zipf;
use segno_testkit::Rng;

/// Of 100 writes of a database these go to its log, and these and the former to pages of a zipf distribution.
const TO_LOG: u64 = 30;
const TO_LOG_OR_ZIPF: u64 = 90;
/// The log of a database has one of so many pages.
const LOG_PART: u64 = 20;
/// Files of up to this many blocks have any number of them; larger ones at least one less than the most.
const TINY: u32 = 4;

/// One operation. Pages of all files are numbered in one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Write(u32),
    /// Creates a file and writes its first pages.
    Create {
        file: u32,
        blocks: u32,
    },
    Delete(u32),
    /// fdatasync of the one file.
    Fsync,
}

/// Draws operations from a seed.
#[derive(Clone, Debug)]
pub struct Source {
    rng: Rng,
    workload: Workload,
    zipf: Option<Zipf>,
    pages: u64,
    /// Pages from one file to the next, and the length of each; empty for one file.
    per_file: u32,
    lengths: Vec<u32>,
    fsync_every: Option<u64>,
    laid_out: u32,
    issued: u64,
    logged: u64,
}

impl Source {
    #[must_use]
    pub fn new(e: &Experiment, seed: u64) -> Self {
        let (pages, files) = e.extent();
        let zipf = match e.workload {
            Workload::Zipf(theta) => Some(Zipf::new(pages, theta)),
            Workload::Database(theta) => Some(Zipf::new(pages - pages / LOG_PART, theta)),
            _ => None,
        };
        let (per_file, lengths) = match e.shape {
            Shape::File { .. } => (0, Vec::new()),
            Shape::Small { blocks } => (blocks as u32, vec![0; files as usize]),
        };
        Self {
            rng: Rng::new(seed),
            workload: e.workload,
            zipf,
            pages,
            per_file,
            lengths,
            fsync_every: e.fsync_every,
            laid_out: 0,
            issued: 0,
            logged: 0,
        }
    }

    /// Steps drawn so far, without the layout.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether a page is in its file.
    #[must_use]
    pub fn exists(&self, page: u32) -> bool {
        match page.checked_div(self.per_file) {
            None => true,
            Some(file) => self.lengths.get(file as usize).is_some_and(|&n| page % self.per_file < n),
        }
    }

    /// The next operation that fills the volume: the file in order, or all files.
    pub fn layout(&mut self) -> Option<Op> {
        let at = self.laid_out;
        self.laid_out += 1;
        if self.lengths.is_empty() {
            (u64::from(at) < self.pages).then_some(Op::Write(at))
        } else {
            ((at as usize) < self.lengths.len()).then(|| self.create(at))
        }
    }

    /// The next operation, and one that belongs to it: a write and its fsync, or a file's deletion and its successor.
    pub fn step(&mut self) -> (Op, Option<Op>) {
        let page = self.choose();
        self.issued += 1;
        if self.lengths.is_empty() {
            let syncs = self.fsync_every.is_some_and(|n| self.issued.is_multiple_of(n));
            return (Op::Write(page), syncs.then_some(Op::Fsync));
        }
        // One of three operations replaces a file by a new one of another size, two overwrite blocks.
        let file = page / self.per_file;
        if self.rng.scaled(3) == 0 {
            return (Op::Delete(file), Some(self.create(file)));
        }
        let length = self.lengths.get(file as usize).copied().unwrap_or_default();
        let within = self.rng.scaled(length.max(1).into()) as u32;
        (Op::Write(file * self.per_file + within), None)
    }

    fn choose(&mut self) -> u32 {
        let n = self.pages;
        let page = match self.workload {
            Workload::Uniform | Workload::Mix => self.rng.scaled(n),
            Workload::Zipf(_) => self.zipf(),
            Workload::Sequential => self.issued % n,
            Workload::Hot(share) => self.rng.scaled((n as f64 * share) as u64),
            Workload::Skewed { writes, pages } => {
                let hot = ((n as f64 * pages) as u64).max(1);
                if self.rng.unit() < writes { self.rng.scaled(hot) } else { hot + self.rng.scaled(n - hot) }
            }
            Workload::Database(_) => self.of_database(n / LOG_PART),
        };
        page.min(n - 1) as u32
    }

    fn zipf(&mut self) -> u64 {
        self.zipf.as_ref().map_or(0, |z| z.draw(&mut self.rng))
    }

    fn of_database(&mut self, log: u64) -> u64 {
        match self.rng.scaled(100) {
            n if n < TO_LOG => {
                self.logged += 1;
                (self.logged - 1) % log.max(1)
            }
            n if n < TO_LOG_OR_ZIPF => log + self.zipf(),
            _ => log + self.rng.scaled(self.pages - log),
        }
    }

    fn create(&mut self, file: u32) -> Op {
        let blocks = match self.per_file {
            TINY => 1 + self.rng.scaled(TINY.into()) as u32,
            n => 1 + self.rng.scaled(u64::from(n) - 1) as u32,
        };
        if let Some(length) = self.lengths.get_mut(file as usize) {
            *length = blocks;
        }
        Op::Create { file, blocks }
    }
}
