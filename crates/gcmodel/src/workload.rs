//! Application writes and the page cache.
use crate::experiment::{Shape, Workload};
use crate::space::NONE;
use crate::volume::{Full, Model};
use segno_testkit::Rng;

/// Issues application writes and writes back dirty pages.
#[derive(Debug)]
pub struct Driver {
    rng: Rng,
    zipf: Option<Zipf>,
    issued: u64,
    cursor: u32,
    /// Dirty pages at which writeback starts and stops.
    high: u64,
    low: u64,
}

/// fio's zipf distribution: approximated ranks, scattered over the file by a hash.
#[derive(Debug)]
struct Zipf {
    n: f64,
    theta: f64,
    zetan: f64,
    zeta2: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Self {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-theta)).sum::<f64>();
        Self { n: n as f64, theta, zetan: zeta(n), zeta2: zeta(2) }
    }
    fn rank(&self, u: f64) -> u64 {
        let alpha = 1.0 / (1.0 - self.theta);
        let eta = (1.0 - (2.0 / self.n).powf(1.0 - self.theta)) / (1.0 - self.zeta2 / self.zetan);
        let uz = u * self.zetan;
        if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5f64.powf(self.theta) {
            1
        } else {
            (self.n * (eta * u - eta + 1.0).powf(alpha)) as u64
        }
    }
}

impl Driver {
    pub fn new(model: &Model, seed: u64) -> Self {
        let pages = model.place.len() as u64;
        let zipf = match model.e.workload {
            Workload::Zipf(theta) => Some(Zipf::new(pages, theta)),
            _ => None,
        };
        let low = (pages as f64 * model.e.dirty) as u64;
        Self { rng: Rng::new(seed), zipf, issued: 0, cursor: 0, high: low, low }
    }

    fn choose(&mut self, model: &Model) -> u32 {
        let n = model.place.len() as u64;
        let page = match model.e.workload {
            Workload::Uniform | Workload::Mix => self.rng.scaled(n),
            Workload::Zipf(_) => {
                let rank = self.zipf.as_ref().map_or(0, |z| z.rank(self.rng.unit()));
                rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) % n
            }
            Workload::Sequential => self.issued % n,
            Workload::Hot(share) => self.rng.scaled((n as f64 * share) as u64),
        };
        page as u32
    }

    /// One application write.
    pub fn step(&mut self, model: &mut Model) -> Result<(), Full> {
        let page = self.choose(model);
        self.issued += 1;
        match (model.e.workload, model.e.shape) {
            (Workload::Mix, Shape::Small { blocks }) => self.mix(model, page, blocks as u32)?,
            _ => self.write(model, page)?,
        }
        match model.e.fsync_every {
            Some(n) if self.issued.is_multiple_of(n) => self.fsync(model),
            Some(_) => Ok(()),
            None => self.write_back(model, self.high, self.low),
        }
    }

    fn write(&mut self, model: &mut Model, page: u32) -> Result<(), Full> {
        model.counts.app_writes += 1;
        if !model.dirty.add(page) {
            model.counts.coalesced += 1;
        }
        Ok(())
    }

    /// One of three operations replaces a file by a new one of another size, two overwrite blocks.
    fn mix(&mut self, model: &mut Model, page: u32, per_file: u32) -> Result<(), Full> {
        let file = page / per_file;
        if self.rng.scaled(3) == 0 {
            delete(model, file, per_file);
            self.create(model, file, per_file)
        } else {
            let len = (0..per_file).take_while(|i| exists(model, file * per_file + i)).count() as u64;
            let at = file * per_file + self.rng.scaled(len.max(1)) as u32;
            self.write(model, at)
        }
    }

    fn create(&mut self, model: &mut Model, file: u32, per_file: u32) -> Result<(), Full> {
        let len = self.length(per_file);
        model.dirty_nodes.add(file);
        let dent = model.dent_of(file);
        model.dirty_dents.add(dent);
        (0..len).try_for_each(|i| self.write(model, file * per_file + i))?;
        model.balance()
    }

    fn length(&mut self, per_file: u32) -> u32 {
        match per_file {
            4 => 1 + self.rng.scaled(4) as u32,
            n => 1 + self.rng.scaled(u64::from(n) - 1) as u32,
        }
    }

    /// Once more than `high` pages are dirty, writes pages back in ascending cyclic order until `low` are left.
    fn write_back(&mut self, model: &mut Model, high: u64, low: u64) -> Result<(), Full> {
        if model.dirty.len <= high {
            return Ok(());
        }
        while model.dirty.len > low {
            let Some(page) = model.dirty.next(self.cursor).or_else(|| model.dirty.next(0)) else { break };
            self.cursor = page + 1;
            if page as usize + 1 >= model.place.len() {
                self.cursor = 0;
            }
            model.dirty.remove(page);
            model.write_user(page)?;
            model.balance()?;
        }
        Ok(())
    }

    fn fsync(&mut self, model: &mut Model) -> Result<(), Full> {
        self.cursor = 0;
        self.write_back(model, 0, 0)?;
        model.dirty_nodes.add(0);
        model.logged = (model.logged + model.dirty_nodes.len).min(model.node_place.len() as u64);
        model.flush_nodes()?;
        model.balance()
    }

    /// Writes the file, or all files, in order.
    pub fn lay_out(&mut self, model: &mut Model) -> Result<(), Full> {
        match model.e.shape {
            Shape::File { .. } => {
                for page in 0..model.place.len() as u32 {
                    model.write_user(page)?;
                    model.balance()?;
                }
            }
            Shape::Small { blocks } => {
                for file in 0..model.node_place.len() as u32 {
                    self.create(model, file, blocks as u32)?;
                    self.write_back(model, 1024, 0)?;
                }
            }
        }
        self.write_back(model, 0, 0)?;
        (0..model.node_place.len() as u32).for_each(|n| {
            model.dirty_nodes.add(n);
        });
        model.write_checkpoint()
    }
}

fn exists(model: &Model, page: u32) -> bool {
    model.place[page as usize] != NONE || model.dirty.has(page)
}

fn delete(model: &mut Model, file: u32, per_file: u32) {
    (file * per_file..(file + 1) * per_file).for_each(|page| model.trim(page));
}
