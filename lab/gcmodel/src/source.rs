//! Operations of an application, the same sequence for the model and for the engine.
use crate::experiment::{Experiment, Shape, Workload};
use segno_testkit::Rng;
use segno_testkit::Zipf;

/// Of 100 writes of a database these go to its log, and these and the former to pages of a zipf distribution.
const TO_LOG: u64 = 30;
const TO_LOG_OR_ZIPF: u64 = 90;
/// Divisor of a database's pages: the size of its log.
const LOG_DIVISOR: u64 = 20;
/// With this maximum, a small file has 1 to `TINY` blocks. With another maximum n it has 1 to n - 1 blocks.
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
            Workload::Database(theta) => Some(Zipf::new(pages - pages / LOG_DIVISOR, theta)),
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
            Workload::Database(_) => self.of_database(n / LOG_DIVISOR),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn source(name: &str, workload: Option<Workload>) -> Source {
        let e = Experiment::named(name).unwrap();
        Source::new(&Experiment { workload: workload.unwrap_or(e.workload), ..e }, 5)
    }

    fn pages(source: &mut Source, n: usize) -> Vec<u32> {
        let page = |op| match op {
            (Op::Write(page), None) => page,
            other => panic!("{other:?}"),
        };
        (0..n).map(|_| page(source.step())).collect()
    }

    #[test]
    fn a_seed_gives_one_sequence() {
        let all = |mut s: Source| (0..1000).map(|_| s.step()).collect::<Vec<_>>();
        assert_eq!(all(source("E8", None)), all(source("E8", None)));
        let other = Source::new(&Experiment::named("E8").unwrap(), 6);
        assert_ne!(all(source("E8", None)), all(other));
    }

    #[test]
    fn shares_are_those_of_the_distribution() {
        let within = |pages: &[u32], range: Range<u64>| {
            pages.iter().filter(|&&p| range.contains(&p.into())).count() as f64 / pages.len() as f64
        };
        let near = |found: f64, share: f64| assert!((found - share).abs() < 0.01, "{found}, not {share}");
        let mut skewed = source("E3", Some("80/20".parse().unwrap()));
        let n = skewed.pages;
        near(within(&pages(&mut skewed, 50_000), 0..n / 5), 0.8);
        let drawn = pages(&mut source("E3", Some("db".parse().unwrap())), 50_000);
        near(within(&drawn, 0..n / 20), 0.3);
        let log: Vec<u32> = drawn.iter().copied().filter(|&p| u64::from(p) < n / 20).collect();
        assert!(log.windows(2).all(|w| w[1] == w[0] + 1 || w[1] == 0), "the log is cyclic");
        near(within(&pages(&mut source("archive", None), 1000), 0..n / 10), 1.0);
        assert_eq!(pages(&mut source("E6", None), 3), [0, 1, 2]);
    }

    #[test]
    fn an_fsync_follows_each_nth_write() {
        let mut s = source("database", None);
        let synced: Vec<bool> = (0..8).map(|_| s.step().1 == Some(Op::Fsync)).collect();
        assert_eq!(synced, [false, false, false, true, false, false, false, true]);
    }

    /// Overwrites meet pages that exist, and a deleted file is created again at once.
    #[test]
    fn small_files_are_whole_at_every_step() {
        let mut s = source("refill", None);
        let mut lengths = vec![0; s.lengths.len()];
        while let Some(Op::Create { file, blocks }) = s.layout() {
            lengths[file as usize] = blocks;
        }
        for _ in 0..10_000 {
            match s.step() {
                (Op::Write(page), None) => assert!(page % 256 < lengths[page as usize / 256]),
                (Op::Delete(old), Some(Op::Create { file, blocks })) => {
                    assert_eq!(old, file);
                    lengths[file as usize] = blocks;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(
            (0..lengths.len() as u32 * 256).all(|p| s.exists(p) == (p % 256 < lengths[p as usize / 256]))
        );
    }
}
