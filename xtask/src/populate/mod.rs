//! Fills a directory with a varied tree, or changes the one that is there; seeded, on any mount.

mod attributes;
mod contents;
mod durable;
mod entries;
mod names;
mod skips;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use rustix::io::Errno;
use rustix::process::geteuid;
use segno_testkit::Rng;

use crate::images::plant;
pub use durable::Durable;
use skips::Skips;
use tree::Tree;

/// Fill a directory with a varied tree, or change the tree in it
#[derive(Args)]
pub struct Populate {
    dir: PathBuf,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many operations
    #[arg(long, default_value_t = 300)]
    ops: u32,
    /// Number of files, mostly small, to make in directories of 25 before all operations
    #[arg(long, default_value_t = 0)]
    files: u32,
    /// Change what is there: overwrite, truncate, rename, unlink
    #[arg(long)]
    modify: bool,
    /// About how much may be written, in MiB; small files are still made beyond it
    #[arg(long, value_name = "MIB", default_value_t = 24)]
    budget: u64,
}

impl Populate {
    /// Prints what was skipped because the mount does not offer it.
    pub fn run(self) -> Result<ExitCode> {
        if self.files > 0 {
            let many = self.dir.join("many");
            plant(&many, self.files).with_context(|| format!("making files in {}", many.display()))?;
        }
        let mut worker = Worker::new(self.dir, self.seed, self.budget << 20)?;
        let table = if self.modify { MODIFY } else { CREATE };
        for number in 0..self.ops {
            // Each on its own, so that one that is skipped leaves the others as they are elsewhere.
            worker.rng = Rng::new(self.seed ^ (u64::from(number) << 32));
            worker.step(table).with_context(|| {
                format!(
                    "operation {number} of --seed {} --ops {} in {}",
                    self.seed,
                    self.ops,
                    worker.root.display()
                )
            })?;
        }
        worker.set_all_times()?;
        for line in worker.skips.lines() {
            println!("populate: {line}");
        }
        println!(
            "populate: seed {}, {} operations, {} KiB written",
            self.seed,
            self.ops,
            worker.written >> 10
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// One kind of operation; it does nothing where the tree has nothing to do it to.
type Operation = fn(&mut Worker) -> Result<()>;

/// Operations of a tree that grows, with their weights.
const CREATE: &[(u32, Operation)] = &[
    (22, Worker::create_file),
    (8, Worker::create_fragmented),
    (5, Worker::create_sparse),
    (3, Worker::create_compressed),
    (3, Worker::create_unnamed),
    (12, Worker::make_dir),
    (1, Worker::make_deep_dirs),
    (1, Worker::make_big_dir),
    (2, Worker::make_casefolded_dir),
    (6, Worker::link),
    (6, Worker::symlink),
    (6, Worker::make_special),
    (4, Worker::overwrite),
    (4, Worker::append),
    (4, Worker::truncate),
    (8, Worker::fallocate),
    (4, Worker::rename),
    (2, Worker::unlink),
    (12, Worker::set_xattr),
    (5, Worker::set_acl),
    (6, Worker::change_mode),
    (4, Worker::change_owner),
];

/// Operations on a tree that is there.
const MODIFY: &[(u32, Operation)] = &[
    (6, Worker::create_file),
    (2, Worker::create_sparse),
    (4, Worker::make_dir),
    (3, Worker::link),
    (2, Worker::symlink),
    (16, Worker::overwrite),
    (10, Worker::append),
    (10, Worker::truncate),
    (10, Worker::fallocate),
    (10, Worker::rename),
    (12, Worker::unlink),
    (3, Worker::remove_dir),
    (5, Worker::set_xattr),
    (4, Worker::remove_xattr),
    (3, Worker::set_acl),
    (3, Worker::change_mode),
];

struct Worker {
    root: PathBuf,
    seed: u64,
    rng: Rng,
    tree: Tree,
    skips: Skips,
    written: u64,
    budget: u64,
    /// Errors of operations that need root, which others skip.
    refusals: &'static [Errno],
}

impl Worker {
    fn new(root: PathBuf, seed: u64, budget: u64) -> Result<Self> {
        let mut tree = Tree::scan(&root)?;
        // fsck's folder is not for others to fill.
        tree.dirs.retain(|dir| dir != Path::new("lost+found"));
        let refusals: &[Errno] = if geteuid().is_root() { &[] } else { &[Errno::PERM, Errno::ACCESS] };
        Ok(Self {
            root,
            seed,
            rng: Rng::new(seed),
            tree,
            skips: Skips::default(),
            written: 0,
            budget,
            refusals,
        })
    }

    fn step(&mut self, table: &[(u32, Operation)]) -> Result<()> {
        let total: u32 = table.iter().map(|(weight, _)| weight).sum();
        let mut ticket = self.rng.below(total.into());
        for (weight, operation) in table {
            match ticket.checked_sub((*weight).into()) {
                Some(rest) => ticket = rest,
                None => return operation(self),
            }
        }
        Ok(())
    }

    /// Whether that much may still be written; counts it if so.
    fn spend(&mut self, bytes: u64) -> bool {
        let affordable = self.written + bytes <= self.budget;
        if affordable {
            self.written += bytes;
        }
        affordable
    }

    fn attempt<T>(&mut self, what: &'static str, result: Result<T, Errno>) -> Result<Option<T>> {
        self.skips.attempt(what, result, self.refusals)
    }

    fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    fn any_file(&mut self) -> Option<PathBuf> {
        self.rng.choose(&self.tree.files).cloned()
    }

    /// A directory other than the root.
    fn any_subdir(&mut self) -> Option<PathBuf> {
        let dir = self.rng.choose(&self.tree.dirs).cloned();
        dir.filter(|dir| !dir.as_os_str().is_empty())
    }
}
