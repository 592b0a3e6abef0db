//! Random operations on a file, compared with a byte array.
use super::{BLOCK, Rig, formats, pattern};
use segno_engine::FallocMode;
use segno_format::Ino;
use segno_testkit::Rng;

/// Beyond the slots in the inode and its two direct nodes.
const LIMIT: u64 = 14 << 20;

#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
}

impl Model {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn write(&mut self, at: u64, data: &[u8]) {
        let end = at as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at as usize..end].copy_from_slice(data);
    }
    fn zero(&mut self, at: u64, len: u64, extend: bool) {
        let end = (at + len) as usize;
        if extend {
            self.bytes.resize(self.bytes.len().max(end), 0);
        }
        let size = self.bytes.len();
        self.bytes[(at as usize).min(size)..end.min(size)].fill(0);
    }
}

pub(super) struct Run {
    pub(super) rig: Rig,
    pub(super) ino: Ino,
    model: Model,
    rng: Rng,
    /// Makes data of a seed and a length.
    content: fn(u64, usize) -> Vec<u8>,
    /// Whether ranges can be moved.
    moves: bool,
}

impl Run {
    /// An offset and a length, often at block boundaries.
    fn span(&mut self, max: u64) -> (u64, u64) {
        let top = LIMIT.min(self.model.size() + 100_000);
        let mut at = self.rng.below(top);
        let mut len = 1 + self.rng.below(max);
        if self.rng.below(3) == 0 {
            at -= at % BLOCK;
        }
        if self.rng.below(3) == 0 {
            len = len.next_multiple_of(BLOCK);
        }
        (at, len)
    }

    fn step(&mut self) {
        let v = self.rig.volume.clone();
        let (ino, size) = (self.ino, self.model.size());
        match self.rng.below(20) {
            0..6 => {
                let max = if self.rng.below(8) == 0 { 2 << 20 } else { 20_000 };
                let (at, len) = self.span(max);
                self.write(at, len);
            }
            6 => {
                let to = if self.rng.below(9) == 0 { 0 } else { self.rng.below(size + 100_000) };
                self.rig.truncate(ino, to.min(LIMIT));
                self.model.bytes.resize(to.min(LIMIT) as usize, 0);
            }
            7 => {
                let (at, len) = self.span(300_000);
                v.fallocate(ino, FallocMode::PunchHole, at, len).unwrap();
                self.model.zero(at, len, false);
            }
            8 => {
                let (at, len) = self.span(300_000);
                let keep = self.rng.below(2) == 0;
                let mode = if keep { FallocMode::ZeroRangeKeepSize } else { FallocMode::ZeroRange };
                v.fallocate(ino, mode, at, len).unwrap();
                self.model.zero(at, len, !keep);
            }
            9 => {
                let (at, len) = self.span(300_000);
                let keep = self.rng.below(2) == 0;
                let mode = if keep { FallocMode::AllocateKeepSize } else { FallocMode::Allocate };
                v.fallocate(ino, mode, at, len).unwrap();
                if !keep && at + len > size {
                    self.model.bytes.resize((at + len) as usize, 0);
                }
            }
            10 if self.moves => self.move_range(),
            11 => {
                let (from, len) = self.span(50_000);
                let (to, _) = self.span(1);
                let len = len.min(size.saturating_sub(from));
                if len > 0 && (to >= from + len || from >= to + len) {
                    assert_eq!(v.copy_range(ino, from, ino, to, len).unwrap(), len);
                    let data = self.model.bytes[from as usize..(from + len) as usize].to_vec();
                    self.model.write(to, &data);
                }
            }
            12 if self.rng.below(2) == 0 => v.fsync(ino).unwrap(),
            12 => v.sync().unwrap(),
            13 if self.rng.below(4) == 0 => self.rig.remount(),
            _ => {
                let (at, len) = self.span(50_000);
                let size = self.model.bytes.len();
                let expected = &self.model.bytes[size.min(at as usize)..size.min((at + len) as usize)];
                assert!(self.rig.read(ino, at, len as usize) == expected, "{len} bytes at {at} differ");
            }
        }
        assert_eq!(self.rig.size(ino), self.model.size());
    }

    pub(super) fn write(&mut self, at: u64, len: u64) {
        let data = (self.content)(self.rng.draw(), len as usize);
        self.rig.write(self.ino, at, &data);
        self.model.write(at, &data);
    }

    fn move_range(&mut self) {
        let size = self.model.size();
        let at = self.rng.below(size / BLOCK + 1) * BLOCK;
        let len = (1 + self.rng.below(80)) * BLOCK;
        if self.rng.below(2) == 0 && at + len < size {
            self.rig.volume.fallocate(self.ino, FallocMode::CollapseRange, at, len).unwrap();
            self.model.bytes.drain(at as usize..(at + len) as usize);
        } else if at < size && size + len < LIMIT {
            self.rig.volume.fallocate(self.ino, FallocMode::InsertRange, at, len).unwrap();
            self.model.bytes.splice(at as usize..at as usize, std::iter::repeat_n(0, len as usize));
        } else {
            let e = self.rig.volume.fallocate(self.ino, FallocMode::CollapseRange, at, len).unwrap_err();
            assert_eq!(e.errno(), 22);
        }
    }

    fn check_all(&self) {
        let got = self.rig.read(self.ino, 0, LIMIT as usize * 2);
        let wrong = got.iter().zip(&self.model.bytes).position(|(a, b)| a != b);
        assert_eq!((got.len(), wrong), (self.model.bytes.len(), None), "size, first byte that differs");
    }
}

impl Run {
    pub(super) fn new(rig: Rig, seed: u64, content: fn(u64, usize) -> Vec<u8>, moves: bool) -> Self {
        eprintln!("seed {seed}");
        let ino = rig.create("f");
        Self { rig, ino, model: Model::default(), rng: Rng::new(seed), content, moves }
    }

    pub(super) fn steps(&mut self, steps: usize) {
        for i in 0..steps {
            self.step();
            if i % 64 == 0 {
                self.check_all();
            }
        }
        self.check_all();
        self.rig.remount();
        self.check_all();
    }

    pub(super) fn empty(&mut self) {
        self.rig.truncate(self.ino, 0);
        self.model.bytes.clear();
        assert_eq!(self.rig.blocks(self.ino), 0);
        self.rig.remount();
    }
}

#[test]
fn a_file_matches_a_byte_array() {
    for (format, seed) in formats().iter().zip([0x5EED_0001u64, 0x5EED_0002, 0x5EED_0003]) {
        let mut run = Run::new(Rig::new(128, format), seed, pattern, true);
        run.steps(400);
        run.empty();
    }
}
