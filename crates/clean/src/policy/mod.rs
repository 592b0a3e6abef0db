//! Victim policies. Each is one file here and one row of [`POLICIES`]; names, help texts, messages,
//! documentation and the tests and experiments that try every policy come from the rows.
mod atgc;
mod benefit;
pub mod cost_benefit;
mod factor;
mod greedy;
mod predictive;
mod prefer_data;
mod weighted;

pub use factor::Factors;

use crate::{Class, Index};
use std::fmt;

/// Inputs of a choice other than the candidates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Situation {
    /// Whether the sections that are free now or after the next checkpoint suffice.
    pub enough_with_prefree: bool,
    /// Whether free sections and those that this round has emptied are enough.
    pub enough_with_freed: bool,
    /// State of the volume, independent of the round.
    pub facts: Facts,
}

/// State of the volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Seconds on the SIT clock.
    pub now: u64,
    /// Valid node blocks.
    pub nodes: u64,
    /// Blocks of the main area in which nothing is valid.
    pub spare: u64,
    /// Data blocks written so far; the clock of opening stamps.
    pub written: u64,
    /// Whether writes are known to be spread evenly ([`crate::lifetime`]), so that the age of a section is
    /// irrelevant.
    pub even: bool,
}

/// A section to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Section number.
    pub sec: u32,
    /// Class of its blocks.
    pub class: Class,
}

/// Chooses victims. A choice depends on the policy's own state, the index and the situation only.
pub trait VictimPolicy: fmt::Debug + Send {
    /// The next section to clean; `None` if none is worth cleaning.
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim>;

    /// Whether the policy needs candidates ordered by age.
    fn needs_ages(&self) -> bool {
        false
    }
    /// Whether the policy needs data candidates ordered by opening.
    fn needs_openings(&self) -> bool {
        false
    }
    /// Free sections are nearly exhausted.
    fn nearly_out(&mut self) {}
    /// A foreground round ended.
    fn round_ended(&mut self) {}
}

/// A row of [`POLICIES`].
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Value of `gc_policy=`.
    pub name: &'static str,
    /// Parameters after the name, such as `:D,N`.
    pub parameters: &'static str,
    /// One sentence for help texts and documentation, without a period.
    pub help: &'static str,
    /// The name with the parameters that experiments use.
    pub example: &'static str,
    make: Make,
}

/// Constructor of a policy.
#[derive(Clone, Copy, Debug)]
enum Make {
    Plain(fn() -> Box<dyn VictimPolicy>),
    /// Can weigh data against nodes, so it can be the base of `factor`.
    Factors(fn(Factors) -> Box<dyn VictimPolicy>),
    Parsed(fn(&str) -> Result<Box<dyn VictimPolicy>, String>),
}

impl Make {
    fn with_factors(self) -> Option<fn(Factors) -> Box<dyn VictimPolicy>> {
        match self {
            Self::Factors(make) => Some(make),
            _ => None,
        }
    }
}

impl Policy {
    const fn new(name: &'static str, help: &'static str, make: Make) -> Self {
        Self { name, parameters: "", help, example: name, make }
    }

    /// How it is written: the name, and its parameters if there are any.
    #[must_use]
    pub fn syntax(&self) -> String {
        format!("{}{}", self.name, self.parameters)
    }
}

/// All policies.
pub const POLICIES: [Policy; 8] = [
    Policy::new(
        "greedy",
        "the section with the fewest valid blocks",
        Make::Factors(|factors| Box::new(greedy::Greedy { factors })),
    ),
    Policy::new(
        "cost_benefit",
        "the best ratio of benefit to cost: an old section may be fuller than a young one",
        Make::Factors(|factors| Box::new(cost_benefit::CostBenefit { factors, span: None })),
    ),
    Policy::new(
        "atgc",
        "of sections older than a threshold, the best by age and fill",
        Make::Factors(|factors| Box::new(atgc::Atgc { factors })),
    ),
    Policy::new(
        "prefer_data",
        "data sections first, node sections only when space is nearly exhausted",
        Make::Plain(|| Box::new(prefer_data::PreferData::default())),
    ),
    Policy::new(
        "weighted",
        "a node section costs one section more until space is nearly exhausted",
        Make::Plain(|| Box::new(weighted::Weighted::default())),
    ),
    Policy {
        name: "factor",
        parameters: ":D,N",
        help: "greedy with weights for valid blocks of data and node sections; D/N inside a list of options, :BASE \
               for another base",
        example: "factor:1,2",
        make: Make::Parsed(factor::parse),
    },
    Policy::new(
        "predictive",
        "the fewest writes per block gained, as node blocks become invalid soon",
        Make::Plain(|| Box::new(predictive::Predictive)),
    ),
    Policy::new(
        "benefit",
        "the best ratio of benefit to cost, by the age of a section since it was opened; nodes as predictive",
        Make::Plain(|| Box::new(benefit::Benefit)),
    ),
];

/// The default of foreground cleaning.
pub const DEFAULT: &str = "predictive";

/// A policy by its name, with parameters after a colon.
pub fn parse(name: &str) -> Result<Box<dyn VictimPolicy>, String> {
    let (plain, parameters) = name.split_once(':').map_or((name, None), |(n, p)| (n, Some(p)));
    let make = POLICIES.iter().find(|p| p.name == plain).map(|p| p.make);
    match (make, parameters) {
        (Some(Make::Plain(make)), None) => Ok(make()),
        (Some(Make::Factors(make)), None) => Ok(make(Factors::default())),
        (Some(Make::Parsed(parse)), parameters) => parse(parameters.unwrap_or_default()),
        _ => Err(format!("unknown policy {name}: there are {}", names())),
    }
}

/// All policies for a help text or message, as `a, b and c:D,N`.
#[must_use]
pub fn names() -> String {
    list(POLICIES.iter().map(Policy::syntax))
}

/// `a, b and c`.
fn list(words: impl Iterator<Item = impl Into<String>>) -> String {
    let mut words: Vec<String> = words.map(Into::into).collect();
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) }
}

fn victim(sec: u32, class: Class) -> Victim {
    Victim { sec, class }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name() {
        assert!(POLICIES.iter().all(|p| parse(p.example).is_ok()) && parse(DEFAULT).is_ok());
        assert!(parse("factor:1/2:atgc").is_ok());
        let refused = |name| parse(name).unwrap_err();
        let all = refused("best");
        assert!(all.starts_with("unknown policy best: there are greedy, cost_benefit, "), "{all}");
        assert!(all.contains("factor:D,N") && all.contains(" and "), "{all}");
        assert!(refused("greedy:1").starts_with("unknown policy greedy:1: there are greedy, "));
        assert_eq!(
            refused("factor:1,2:weighted"),
            "factor on weighted: there are greedy, cost_benefit and atgc"
        );
        assert!(refused("factor").contains("two factors"));
    }
}
