//! Inputs that are bytes: valid ones, changed.
use super::Input;
use crate::rng::Rng;

/// Changes of an input.
const CHANGES: u64 = 5;
/// Longest input, in bytes beyond the longest seed.
const GROWTH: usize = 4096;

/// Draws changed copies of valid inputs.
pub struct Mutator<'a> {
    pub seeds: Vec<Vec<u8>>,
    /// Texts that the format gives a meaning.
    pub words: &'a [&'a [u8]],
    /// One of `resized` inputs has another length; none if it is 0.
    pub resized: u64,
    /// Number of bytes at the start that stay.
    pub kept: usize,
    /// Corrects checksums, lengths and magic numbers.
    pub fixup: &'a dyn Fn(&mut Vec<u8>, &mut Rng),
}

impl Default for Mutator<'_> {
    fn default() -> Self {
        Self { seeds: Vec::new(), words: &[], resized: 3, kept: 0, fixup: &|_, _| {} }
    }
}

impl Mutator<'_> {
    pub fn draw(&self, rng: &mut Rng) -> Vec<u8> {
        let mut input = rng.choose(&self.seeds).cloned().unwrap_or_default();
        let limit = self.seeds.iter().map(Vec::len).max().unwrap_or(0) + GROWTH;
        // Few changes reach deep code paths.
        for _ in 0..=rng.below(CHANGES).min(rng.below(CHANGES)) {
            let resize = self.resized > 0 && rng.one_in(self.resized);
            if resize {
                self.resize(&mut input, rng)
            } else {
                self.change(&mut input, rng)
            }
            input.truncate(limit);
        }
        (self.fixup)(&mut input, rng);
        input
    }

    /// A position that may change, with up to `len` bytes after it.
    fn place<'i>(&self, input: &'i mut [u8], len: usize, rng: &mut Rng) -> &'i mut [u8] {
        let free = input.get_mut(self.kept..).unwrap_or_default();
        let at = rng.index(free.len());
        let end = free.len().min(at + len);
        free.get_mut(at..end).unwrap_or_default()
    }

    fn change(&self, input: &mut [u8], rng: &mut Rng) {
        match rng.below(8) {
            0 => self.place(input, 1, rng).iter_mut().for_each(|b| *b ^= 1 << rng.below(8)),
            1 => self.place(input, 1, rng).iter_mut().for_each(|b| *b = rng.draw() as u8),
            // A piece of another input, or of this one.
            2 => {
                let other = rng.choose(&self.seeds).cloned().unwrap_or_default();
                let from = other.get(rng.index(other.len())..).unwrap_or_default();
                let len = rng.between(1, 64) as usize;
                self.place(input, len, rng).iter_mut().zip(from).for_each(|(b, o)| *b = *o);
            }
            3 if !self.words.is_empty() => {
                let word = rng.choose(self.words).copied().unwrap_or_default();
                self.place(input, word.len(), rng).iter_mut().zip(word).for_each(|(b, w)| *b = *w);
            }
            _ => {
                let len = [1, 2, 4, 8].get(rng.index(4)).copied().unwrap_or(1);
                number(self.place(input, len, rng), rng);
            }
        }
    }

    fn resize(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let at = self.kept.min(input.len()) + rng.index(input.len().saturating_sub(self.kept) + 1);
        let end = input.len().min(at + rng.between(1, 32) as usize);
        let piece = match rng.below(5) {
            0 => return input.truncate(at),
            1 => return drop(input.drain(at..end)),
            2 => input.get(at..end).unwrap_or_default().to_vec(),
            3 if !self.words.is_empty() => rng.choose(self.words).copied().unwrap_or_default().to_vec(),
            _ => vec![rng.draw() as u8; rng.between(1, 64) as usize],
        };
        input.splice(at..at, piece);
    }
}

/// Stores a limit, a neighbour of the old value, or an arbitrary number.
fn number(field: &mut [u8], rng: &mut Rng) {
    let big = rng.one_in(4);
    let fold = |v: u64, b: &u8| v << 8 | u64::from(*b);
    let old = if big { field.iter().fold(0, fold) } else { field.iter().rev().fold(0, fold) };
    let bytes = rng.field(old, (field.len() as u32 * 8).max(8)).to_le_bytes();
    let len = field.len();
    field.iter_mut().enumerate().for_each(|(i, b)| {
        *b = bytes.get(if big { len - 1 - i } else { i }).copied().unwrap_or_default();
    });
}

impl Input for Vec<u8> {
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut piece = self.len().next_power_of_two() / 2;
        // A large input is cut in large pieces first.
        while piece > self.len() / 256 {
            for at in (0..self.len()).step_by(piece) {
                let (head, rest) = self.split_at(at);
                all.push([head, rest.get(piece..).unwrap_or_default()].concat());
            }
            piece /= 2;
        }
        all
    }

    fn stored(&self) -> Vec<u8> {
        self.clone()
    }
}
