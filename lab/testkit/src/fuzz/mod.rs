//! The driver of all fuzz targets. A target makes an input of a generator, mostly a valid one with a few changes and right
//! checksums, and tries it; a panic, a broken promise, too much memory or an endless loop is a finding.
//!
//! A run is a function of the seed and its number. `SEED`, `FROM` and `RUNS` choose others than a small share; CONTRIBUTING.md has
//! the command. The input of a finding is shrunk and kept in a file.
mod bytes;
mod running;

pub use bytes::Mutator;

use crate::memory;
use crate::rng::{Rng, mix};
use running::Running;
use std::fmt::Write;

/// Bytes that a run may hold at a time beyond those before it, in the thread of the run: more than the largest quota file that is read
/// as a whole.
const MEMORY: usize = 80 << 20;
/// Inputs tried to shrink one.
const SHRINKS: usize = 2_000;
/// Of a hundred inputs as many have to pass the first check of the code under test; fewer runs than this are not judged.
const SHARE: u64 = 50;
const JUDGED: u64 = 100;

/// Something that a target tries.
pub trait Input: Sized {
    /// Inputs with less in them, largest steps first.
    fn smaller(&self) -> Vec<Self>;
    /// The form in which an input that is a finding is kept.
    fn stored(&self) -> Vec<u8>;
}

/// Whether an input got past the first check, or what it broke.
pub type Outcome = Result<bool, String>;

/// A target of the driver.
pub struct Target<'a, I> {
    pub name: &'a str,
    /// Runs of an ordinary test.
    pub runs: u64,
    pub draw: &'a dyn Fn(&mut Rng) -> I,
    pub run: &'a dyn Fn(&I) -> Outcome,
}

/// What [`Target::fuzz`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub runs: u64,
    pub passed: u64,
}

impl<I: Input> Target<'_, I> {
    /// Tries the inputs that the environment chooses; an error has the finding, and the command that repeats it.
    pub fn fuzz(&self) -> Result<Tally, String> {
        let number = |name: &str, or| match std::env::var(name) {
            Ok(text) => text.parse::<u64>().map_err(|e| format!("{name}={text}: {e}")),
            Err(_) => Ok(or),
        };
        self.fuzz_from(number("SEED", 1)?, number("FROM", 0)?, number("RUNS", self.runs)?)
    }

    fn fuzz_from(&self, seed: u64, from: u64, runs: u64) -> Result<Tally, String> {
        let running = Running::start(self.name, seed)?;
        let mut tally = Tally::default();
        for number in from..from.saturating_add(runs) {
            running.enter(number)?;
            let mut rng = Rng::new(mix(seed) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let input = (self.draw)(&mut rng);
            tally.runs += 1;
            match self.judge(&input) {
                Ok(passed) => tally.passed += u64::from(passed),
                Err(what) => return Err(self.report(seed, number, input, &what)),
            }
        }
        let share = (tally.passed * 100).checked_div(tally.runs).unwrap_or(100);
        println!("{}: seed {seed}, {} runs, {share} % passed the first check", self.name, tally.runs);
        if tally.runs >= JUDGED && share < SHARE {
            return Err(format!("{}: {share} % passed the first check, of {SHARE} %", self.name));
        }
        Ok(tally)
    }

    fn judge(&self, input: &I) -> Outcome {
        let held = memory::watch();
        let outcome = crate::caught(|| (self.run)(input))?;
        let peak = held.peak();
        if peak > MEMORY { Err(format!("it took {} KiB of memory", peak >> 10)) } else { Ok(outcome) }
    }

    /// Shrinks and keeps the input of a finding.
    fn report(&self, seed: u64, number: u64, input: I, what: &str) -> String {
        let (mut input, mut what, mut left) = (input, what.to_owned(), SHRINKS);
        'again: loop {
            for smaller in input.smaller() {
                let Some(rest) = left.checked_sub(1) else { break 'again };
                left = rest;
                if let Err(why) = self.judge(&smaller) {
                    (input, what) = (smaller, why);
                    continue 'again;
                }
            }
            break;
        }
        let bytes = input.stored();
        let mut text = format!("{}: {what}\nagain: SEED={seed} FROM={number} RUNS=1", self.name);
        let path = running::directory().join(format!("{}-{seed}-{number}", self.name));
        match std::fs::write(&path, &bytes) {
            Ok(()) => _ = write!(text, "\nshrunk to {} bytes: {}", bytes.len(), path.display()),
            Err(e) => _ = write!(text, "\n{}: {e}\n{}", path.display(), bytes.escape_ascii()),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target<'a>(
        run: &'a dyn Fn(&Vec<u8>) -> Outcome,
        draw: &'a dyn Fn(&mut Rng) -> Vec<u8>,
    ) -> Target<'a, Vec<u8>> {
        Target { name: "self-test", runs: 200, draw, run }
    }

    fn mutated(rng: &mut Rng) -> Vec<u8> {
        Mutator { seeds: vec![b"valid input 12345".to_vec()], ..Mutator::default() }.draw(rng)
    }

    #[test]
    fn a_panic_is_found_shrunk_kept_and_repeated_from_its_number() {
        let run = |input: &Vec<u8>| {
            assert!(!input.contains(&0xff), "it has 255");
            Ok(true)
        };
        let target = target(&run, &mutated);
        let found = target.fuzz_from(3, 0, 100_000).unwrap_err();
        assert!(found.contains("it has 255"), "{found}");
        let path = found.rsplit_once(": ").unwrap().1;
        assert_eq!(std::fs::read(path).unwrap(), [0xff]);
        std::fs::remove_file(path).unwrap();
        let number = found.split("FROM=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(target.fuzz_from(3, number, 1).unwrap_err(), found);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn inputs_that_do_not_pass_the_first_check_are_no_test() {
        let run = |input: &Vec<u8>| Ok(input.len().is_multiple_of(3));
        let why = target(&run, &|rng| vec![0; rng.index(300)]).fuzz_from(1, 0, 300).unwrap_err();
        assert!(why.contains("% passed the first check"), "{why}");
        let all = target(&|_| Ok(true), &mutated).fuzz_from(1, 0, 300).unwrap();
        assert_eq!(all, Tally { runs: 300, passed: 300 });
    }
}
