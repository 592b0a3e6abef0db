//! The files of a case: one with its pages apart, or many small ones.
use super::draw::{Case, Pattern};
use super::pages::{self, Page, Versions};
use super::write_observer::{Place, WriteObserver};
use segno_engine::lab::Probe;
use segno_engine::{Error, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Positions of a file that a node maps (upper bound), and that an inode maps (lower bound).
const PER_NODE: u64 = 1018;
const IN_INODE: u64 = 800;
/// Share of the room that small files may fill; names take some of it.
const FILL_PERCENT: u64 = 96;
const FILE: u16 = 0o100_644;

#[derive(Clone, Copy, Default)]
struct File {
    /// `None` if it does not exist.
    ino: Option<Ino>,
    /// Pages in use.
    length: u32,
}

/// All files and their contents.
pub struct Files {
    versions: Versions,
    /// Largest number of pages of a file, and their distance in it.
    per_file: u32,
    stride: u64,
    files: Vec<File>,
    /// Pages that may be in use, and that are.
    room: u64,
    used: u64,
    /// Files created, deleted or written since the last sync.
    touched: BTreeSet<u32>,
    dirty: BTreeSet<Page>,
    /// Page at which writeback continues.
    cursor: Page,
    /// Receives the deleted pages.
    observer: Option<Arc<WriteObserver>>,
}

impl Files {
    pub fn new(case: &Case, room: u64) -> Self {
        let (files, per_file, stride) = if case.pattern == Pattern::Refill {
            // An inode for each, and half of the greatest length.
            let each = u64::from(case.small) / 2 + 1;
            ((room * FILL_PERCENT / 100 / each).max(1), case.small, 1)
        } else {
            (1, room as u32, case.stride)
        };
        let usable = (room * FILL_PERCENT / 100).saturating_sub(files);
        Self {
            versions: Versions::new(files as usize * per_file as usize),
            per_file,
            stride,
            files: vec![File::default(); files as usize],
            room: usable,
            used: 0,
            touched: BTreeSet::new(),
            dirty: BTreeSet::new(),
            cursor: 0,
            observer: None,
        }
    }

    pub fn place(&self) -> Place {
        Place { per_file: self.per_file, stride: self.stride }
    }

    /// Reports deleted pages to this observer from now on.
    pub fn report_to(&mut self, observer: Arc<WriteObserver>) {
        self.observer = Some(observer);
    }

    /// Upper bound of the nodes of the full volume.
    pub fn nodes(&self) -> u64 {
        let per_node = (PER_NODE / self.stride).max(1);
        let of_file = u64::from(self.per_file) / per_node;
        let small = self.stride == 1 && u64::from(self.per_file) < IN_INODE;
        let each = if small { 1 } else { 4 + of_file + of_file / PER_NODE };
        self.files.len() as u64 * each + 8
    }

    /// Pages in use of the one file.
    pub fn pages(&self) -> u64 {
        self.used
    }

    /// Fills the volume: the one file until no block is left, or all small files.
    pub fn lay_out(&mut self, v: &Volume, dirty: usize, rng: &mut Rng) -> Result<(), String> {
        if self.files.len() > 1 {
            for file in 0..self.files.len() as u32 {
                self.create(v, file, rng)?;
                self.write_back(v, dirty)?;
            }
            return Ok(());
        }
        self.make(v, 0)?;
        for page in 0..self.per_file {
            match self.put(v, page) {
                Ok(()) => self.used += 1,
                // The last block for users is taken.
                Err(Error::NoSpace) => {
                    self.versions.dropped(page);
                    self.dirty.remove(&page);
                    break;
                }
                Err(e) => return Err(format!("layout, page {page}: {e}")),
            }
            self.write_back(v, dirty)?;
        }
        Ok(())
    }

    pub fn write(&mut self, v: &Volume, page: Page) -> Result<(), String> {
        self.put(v, page).map_err(|e| format!("write of page {page}: {e}"))
    }

    fn put(&mut self, v: &Volume, page: Page) -> Result<(), Error> {
        let mut block = [0; BLOCK_SIZE];
        pages::fill(page, self.versions.next(page), &mut block);
        let (file, ino, at) = self.place_of(page);
        self.touched.insert(file);
        let done = v.write(ino, at * BLOCK_SIZE as u64, &block)?;
        self.dirty.insert(page);
        if done == BLOCK_SIZE { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// File and block in it.
    fn place_of(&self, page: Page) -> (u32, Ino, u64) {
        let (file, at) = (page / self.per_file, u64::from(page % self.per_file) * self.stride);
        let ino = self.files.get(file as usize).and_then(|f| f.ino);
        (file, ino.unwrap_or(Ino::ROOT), at)
    }

    /// Writes pages back in ascending order from the cursor on, cyclically, until `left` are dirty.
    pub fn write_back(&mut self, v: &Volume, left: usize) -> Result<(), String> {
        while self.dirty.len() > left {
            let next = self.dirty.range(self.cursor..).next().or_else(|| self.dirty.first());
            let Some(&page) = next else { break };
            let (file, ino, at) = self.place_of(page);
            let end = Probe(v).write_back(ino, at, self.dirty.len() - left);
            let end = end.map_err(|e| format!("writeback of page {page}: {e}"))?;
            let pages = end.map_or(1, |end| end.saturating_sub(at).div_ceil(self.stride)) as u32;
            self.cursor = (page + pages.max(1)).min((file + 1) * self.per_file);
            let done: Vec<Page> = self.dirty.range(page..self.cursor).copied().collect();
            for page in done {
                self.dirty.remove(&page);
            }
        }
        Ok(())
    }

    /// All pages of the one file, and its nodes.
    pub fn fsync(&mut self, v: &Volume) -> Result<(), String> {
        let ino = self.place_of(0).1;
        v.fsync(ino).map_err(|e| format!("fsync: {e}"))?;
        self.synced();
        Ok(())
    }

    /// A sync of everything returned.
    pub fn synced(&mut self) {
        self.versions.synced();
        self.touched.clear();
        self.dirty.clear();
    }

    /// Deletes a file and creates it anew. Returns its length in pages.
    pub fn replace(&mut self, v: &Volume, rng: &mut Rng) -> Result<u64, String> {
        let file = rng.index(self.files.len()) as u32;
        self.delete(v, file)?;
        self.create(v, file, rng)
    }

    fn create(&mut self, v: &Volume, file: u32, rng: &mut Rng) -> Result<u64, String> {
        self.make(v, file)?;
        let most = u64::from(self.per_file).min(self.room.saturating_sub(self.used));
        let length = if most == 0 { 0 } else { rng.between(1, most) };
        let first = file * self.per_file;
        for page in first..first + length as u32 {
            self.write(v, page)?;
            self.used += 1;
            if let Some(f) = self.files.get_mut(file as usize) {
                f.length += 1;
            }
        }
        Ok(length)
    }

    fn make(&mut self, v: &Volume, file: u32) -> Result<(), String> {
        self.touched.insert(file);
        let made = v.mknod(Ino::ROOT, &name(file), FILE, (0, 0), Owner::default());
        let ino = made.map_err(|e| format!("creation of file {file}: {e}"))?.ino;
        *self.files.get_mut(file as usize).ok_or("no such file")? = File { ino: Some(ino), length: 0 };
        Ok(())
    }

    fn delete(&mut self, v: &Volume, file: u32) -> Result<(), String> {
        self.touched.insert(file);
        match v.unlink(Ino::ROOT, &name(file)) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(e) => return Err(format!("deletion of file {file}: {e}")),
        }
        self.forget(file);
        Ok(())
    }

    /// A file is not there any more.
    fn forget(&mut self, file: u32) {
        let Some(f) = self.files.get_mut(file as usize) else { return };
        self.used -= u64::from(std::mem::take(f).length);
        if let Some(observer) = &self.observer {
            observer.forget(file * self.per_file..(file + 1) * self.per_file);
        }
        for page in file * self.per_file..(file + 1) * self.per_file {
            self.versions.dropped(page);
            self.dirty.remove(&page);
        }
    }

    /// Reads everything. After a cut, small files that were touched since the last sync may be in any state, and are deleted.
    pub fn judge(&mut self, v: &Volume, after_cut: bool) -> Result<(), String> {
        self.dirty.clear();
        for file in 0..self.files.len() as u32 {
            let any = after_cut && self.files.len() > 1 && self.touched.contains(&file);
            let expected = self.files.get(file as usize).and_then(|f| f.ino);
            let found = match v.lookup(Ino::ROOT, &name(file)) {
                Ok(attr) => Some(attr.ino),
                Err(Error::NotFound) => None,
                Err(e) => return Err(format!("file {file}: {e}")),
            };
            if found.is_some() != expected.is_some() && !any {
                return Err(format!("file {file} is inode {found:?} instead of {expected:?}"));
            }
            if let Some(ino) = found {
                self.judge_file(v, file, ino, after_cut, any)?;
            }
            if any {
                self.delete(v, file)?;
            }
        }
        Ok(())
    }

    fn judge_file(
        &mut self,
        v: &Volume,
        file: u32,
        ino: Ino,
        after_cut: bool,
        any: bool,
    ) -> Result<(), String> {
        let mut block = vec![0; BLOCK_SIZE];
        let length = if self.files.len() > 1 { self.per_file } else { self.used as u32 };
        for page in file * self.per_file..file * self.per_file + length {
            let at = self.place_of(page).2;
            block.fill(0);
            v.read(ino, at * BLOCK_SIZE as u64, &mut block)
                .map_err(|e| format!("read of page {page}: {e}"))?;
            if any {
                pages::version_in(page, &block)?;
            } else {
                self.versions.judge(page, &block, after_cut)?;
            }
        }
        Ok(())
    }
}

fn name(file: u32) -> Vec<u8> {
    format!("{file:06}").into_bytes()
}
