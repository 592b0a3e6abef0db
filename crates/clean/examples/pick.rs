//! Time of a pick and of an update: `cargo run --release -p segno-clean --example pick [SECTIONS]`.
use segno_clean::policy::{self, Facts, POLICIES, Situation};
use segno_clean::{Class, Index, TieBreak};
use std::time::Instant;

const PER_SEC: u32 = 2048;
const ROUNDS: u32 = 20_000;

fn main() -> Result<(), String> {
    let sections: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1 << 20);
    println!("{sections} sections of {PER_SEC} blocks; nanoseconds per operation");
    for name in POLICIES.map(|p| p.example) {
        let mut policy = policy::parse(name)?;
        let mut index = Index::new(sections, PER_SEC);
        index.tie = TieBreak::Oldest;
        if policy.needs_ages() {
            index.keep_ages(4);
        }
        if policy.needs_openings() {
            index.keep_openings();
        }
        let mut random = 1u64;
        let mut next = |n: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (((random >> 33) * u64::from(n)) >> 31) as u32
        };
        let mut valid: Vec<u32> = (0..sections).map(|_| 1 + next(PER_SEC - 1)).collect();
        let class = |sec: u32| if sec.is_multiple_of(64) { Class::Node } else { Class::Data };
        for (sec, &v) in (0..).zip(&valid) {
            index.opened(sec, next(sections).into());
            index.put(sec, class(sec), v, u64::from(sec));
        }
        let begun = Instant::now();
        for i in 0..ROUNDS {
            let sec = next(sections);
            valid[sec as usize] = (valid[sec as usize] - 1).max(1);
            index.put(sec, class(sec), valid[sec as usize], u64::from(sections + i));
        }
        let update = begun.elapsed() / ROUNDS;
        let facts = Facts { written: sections.into(), ..Facts::default() };
        let situation = Situation { facts, ..Situation::default() };
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            std::hint::black_box(policy.pick(&index, &situation));
        }
        println!("{name:14} pick {:8} update {:6}", (begun.elapsed() / ROUNDS).as_nanos(), update.as_nanos());
    }
    Ok(())
}
