//! Weights data and node sections on top of another policy: with `factor:1,2` a node section must be twice as
//! empty to be preferred.
//!
//! The factors always apply. Suspending them while space is nearly exhausted, as the LKML patches do with
//! their preference, was measured: node sections then become victims most of the time. Where no data section
//! gains more, node sections are chosen anyway.
use super::{POLICIES, VictimPolicy, list};
use crate::Class;

/// Weight of valid blocks by class, in 1/65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// For data.
    pub data: u64,
    /// For nodes.
    pub node: u64,
}

const ONE: u64 = 1 << 16;

impl Default for Factors {
    fn default() -> Self {
        Self { data: ONE, node: ONE }
    }
}

impl Factors {
    /// The factor of a class.
    #[must_use]
    pub fn of(self, class: Class) -> u64 {
        match class {
            Class::Data => self.data,
            Class::Node => self.node,
        }
    }
    /// A weighted number, rounded down.
    #[must_use]
    pub fn scale(self, class: Class, n: u64) -> u64 {
        n.saturating_mul(self.of(class)) / ONE
    }
}

/// `D,N` or `D,N:BASE`; `D/N` where a comma would end a mount option.
pub(super) fn parse(how: &str) -> Result<Box<dyn VictimPolicy>, String> {
    let (numbers, base) = how.split_once(':').unwrap_or((how, "greedy"));
    let bad = || format!("factor:{how}: two factors from 0 to 65535 are needed, as factor:1,3");
    let (data, node) = numbers.split_once([',', '/']).ok_or_else(bad)?;
    let one = |text: &str| {
        let n: f64 = text.parse().map_err(|_| bad())?;
        if (0.0..65536.0).contains(&n) { Ok((n * ONE as f64) as u64) } else { Err(bad()) }
    };
    let factors = Factors { data: one(data)?, node: one(node)? };
    let make = POLICIES.iter().find(|p| p.name == base).and_then(|p| p.make.with_factors());
    make.map(|make| make(factors)).ok_or_else(|| {
        let bases = POLICIES.iter().filter(|p| p.make.with_factors().is_some()).map(|p| p.name);
        format!("factor on {base}: there are {}", list(bases))
    })
}
