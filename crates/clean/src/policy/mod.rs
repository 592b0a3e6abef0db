//! Victim policies. Each is one file here and one line in [`parse`].
mod atgc;
pub mod cost_benefit;
mod factor;
mod greedy;
mod predictive;
mod prefer_data;
mod weighted;

pub use atgc::Atgc;
pub use cost_benefit::CostBenefit;
pub use factor::{Factor, Factors};
pub use greedy::Greedy;
pub use predictive::Predictive;
pub use prefer_data::PreferData;
pub use weighted::Weighted;

use crate::{Class, Index};
use std::fmt;

/// What a choice may depend on besides the candidates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Situation {
    /// Whether there would be enough free sections if those that a checkpoint frees counted.
    pub enough_with_prefree: bool,
    /// Whether there would be enough if those that this round has emptied counted.
    pub enough_with_freed: bool,
    /// Facts that do not depend on the round.
    pub facts: Facts,
}

/// What the volume knows at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Seconds on the SIT clock.
    pub now: u64,
    /// Valid node blocks.
    pub nodes: u64,
    /// Blocks of the main area in which nothing is valid.
    pub spare: u64,
}

/// A section to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    pub sec: u32,
    pub class: Class,
}

/// Chooses victims. The state that a choice depends on is in the policy, the index and the situation, and nowhere else.
pub trait VictimPolicy: fmt::Debug + Send {
    /// The next section to clean, if one is worth it.
    fn pick(&mut self, index: &Index, situation: &Situation) -> Option<Victim>;

    /// Whether it needs candidates ordered by age.
    fn needs_ages(&self) -> bool {
        false
    }
    /// Whether the loop around it is the one that its patch changed: the test for "nearly out" comes first.
    fn patches_loop(&self) -> bool {
        false
    }
    /// Free sections are nearly out at the beginning of a pass.
    fn nearly_out(&mut self) {}
    /// Whether to go on although there is enough.
    fn goes_on(&self) -> bool {
        false
    }
    /// A foreground round ended.
    fn round_ended(&mut self) {}
}

/// What foreground cleaning uses unless told otherwise.
pub const DEFAULT: &str = "predictive";

/// A policy by name: `greedy`, `cost_benefit`, `atgc`, `prefer_data`, `weighted`, `predictive`, `factor:D,N` (data and
/// node factor on greedy; `D/N` where a comma would end a mount option) or `factor:D,N:BASE` with a base of `greedy`, `cost_benefit` or `atgc`.
pub fn parse(name: &str) -> Result<Box<dyn VictimPolicy>, String> {
    Ok(match name.split_once(':').map_or((name, ""), |(n, rest)| (n, rest)) {
        ("greedy", "") => Box::new(Greedy),
        ("cost_benefit", "") => Box::new(CostBenefit::default()),
        ("atgc", "") => Box::new(Atgc::default()),
        ("prefer_data", "") => Box::new(PreferData::default()),
        ("weighted", "") => Box::new(Weighted::default()),
        ("predictive", "") => Box::new(Predictive),
        ("factor", how) => factor::parse(how)?,
        _ => {
            return Err(format!(
                "unknown policy {name}: there are greedy, cost_benefit, atgc, prefer_data, weighted, predictive and \
                 factor:D,N"
            ));
        }
    })
}

fn victim(sec: u32, class: Class) -> Victim {
    Victim { sec, class }
}
