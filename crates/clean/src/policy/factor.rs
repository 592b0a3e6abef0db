//! Factors for data and nodes on top of a policy: a node section must be so many times emptier to be as good.
//!
//! The factors hold at any time. Dropping them when space is nearly out, as the patches do with their preference, was
//! measured and makes node sections victims all the time; they give way by themselves where no data section gains more.
use super::greedy::cheapest;
use super::{Atgc, CostBenefit, Situation, Victim, VictimPolicy};
use crate::{Class, Index};

/// What valid blocks count, by class, in 1/65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    pub data: u64,
    pub node: u64,
}

const ONE: u64 = 1 << 16;

impl Default for Factors {
    fn default() -> Self {
        Self { data: ONE, node: ONE }
    }
}

impl Factors {
    #[must_use]
    pub fn of(self, class: Class) -> u64 {
        match class {
            Class::Data => self.data,
            Class::Node => self.node,
        }
    }
    /// A number scaled, rounded down.
    #[must_use]
    pub fn scale(self, class: Class, n: u64) -> u64 {
        n.saturating_mul(self.of(class)) / ONE
    }
}

/// On greedy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factor(pub Factors);

impl VictimPolicy for Factor {
    fn pick(&mut self, index: &Index, _: &Situation) -> Option<Victim> {
        cheapest(index, |class, valid| u64::from(valid).saturating_mul(self.0.of(class)))
    }
}

/// `D,N` or `D,N:BASE`.
pub(super) fn parse(how: &str) -> Result<Box<dyn VictimPolicy>, String> {
    let (numbers, base) = how.split_once(':').unwrap_or((how, "greedy"));
    let bad = || format!("factor:{how}: two factors from 0 to 65535 are needed, as factor:1,3");
    let (data, node) = numbers.split_once([',', '/']).ok_or_else(bad)?;
    let one = |text: &str| {
        let n: f64 = text.parse().map_err(|_| bad())?;
        if (0.0..65536.0).contains(&n) { Ok((n * ONE as f64) as u64) } else { Err(bad()) }
    };
    let factors = Factors { data: one(data)?, node: one(node)? };
    Ok(match base {
        "greedy" => Box::new(Factor(factors)),
        "cost_benefit" => Box::new(CostBenefit::with(factors)),
        "atgc" => Box::new(Atgc::with(factors)),
        _ => return Err(format!("factor on {base}: there are greedy, cost_benefit and atgc")),
    })
}
