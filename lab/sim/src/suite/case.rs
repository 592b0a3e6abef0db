//! Test cases, and their names for repeating them.
use crate::setup;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Kind of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A sequence on the engine and on the model.
    Model,
    /// Power cuts of one operation and a persistence point.
    Single,
    /// Power cuts in scripted situations.
    Scene,
    /// Power cuts on a nearly full volume.
    Full,
    /// Power cuts of two operations, each perhaps with a persistence point.
    Pair,
    /// Power cuts of a random sequence.
    Drawn,
    /// Power cuts while a second thread works between the device calls of the first.
    Race,
    /// Failing device calls under a random sequence.
    Fault,
    /// Damaged volumes.
    Damage,
    /// Full volumes of random geometry, guarded for their number of nodes, overwritten and cut.
    Guarded,
    /// Power cuts of the recovery of thousands of inodes.
    Recovery,
}

impl Kind {
    /// All, in the order in which they run.
    pub const ALL: [Self; 11] = [
        Self::Single,
        Self::Scene,
        Self::Full,
        Self::Race,
        Self::Fault,
        Self::Model,
        Self::Pair,
        Self::Drawn,
        Self::Damage,
        Self::Guarded,
        Self::Recovery,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Single => "single",
            Self::Scene => "scene",
            Self::Full => "full",
            Self::Pair => "pair",
            Self::Drawn => "drawn",
            Self::Race => "race",
            Self::Fault => "fault",
            Self::Damage => "damage",
            Self::Guarded => "guarded",
            Self::Recovery => "recovery",
        }
    }

    /// Whether its cases run on a setup of this name: some kinds have special setups. The writeback cache
    /// excludes two kinds: a second thread would deadlock, as it runs inside a device call of the first; and
    /// after a fault the cache drops data that it could not write.
    #[must_use]
    pub fn runs_on(self, setup: &str) -> bool {
        match self {
            Self::Full | Self::Damage | Self::Guarded | Self::Recovery => false,
            Self::Race | Self::Fault => !setup::is_cached(setup),
            _ => true,
        }
    }

    /// For a table.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Model => "sequences against the model",
            Self::Single => "power cuts: one operation, each persistence point",
            Self::Scene => "power cuts: replaced files, orphans, cleaning, unmount",
            Self::Full => "power cuts: hardly any space left",
            Self::Pair => "power cuts: two operations",
            Self::Drawn => "power cuts: drawn sequences",
            Self::Race => "power cuts: two threads",
            Self::Fault => "failing device calls",
            Self::Damage => "damaged volumes",
            Self::Guarded => "guarded volumes: full, overwritten, cut",
            Self::Recovery => "power cuts: recovery of thousands of inodes",
        }
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|k| k.name() == s).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{s}' is none of {names}")
        })
    }
}

/// One case. Its text form repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub kind: Kind,
    pub number: u64,
    /// The setup; by default the number selects it.
    pub setup: Option<&'static str>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.number)?;
        self.setup.map_or(Ok(()), |name| write!(f, "@{name}"))
    }
}

impl FromStr for Case {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (case, setup) = s.split_once('@').map_or((s, None), |(case, name)| (case, Some(name)));
        let (kind, number) = case.split_once(':').ok_or("a case is KIND:NUMBER or KIND:NUMBER@SETUP")?;
        let (kind, number) = (kind.parse::<Kind>()?, number.parse().map_err(|e| format!("{e}"))?);
        let setup = setup.map(setup::name).transpose()?;
        if let Some(setup) = setup.filter(|setup| !kind.runs_on(setup)) {
            return Err(format!("{} does not run on setup {setup}", kind.name()));
        }
        Ok(Self { kind, number, setup })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_found_by_its_text() {
        for kind in Kind::ALL {
            for setup in [None, Some("smallring").filter(|name| kind.runs_on(name))] {
                let case = Case { kind, number: u64::MAX, setup };
                assert_eq!(case.to_string().parse(), Ok(case));
            }
        }
        for wrong in [
            "",
            "model",
            "model:",
            "model:-1",
            "other:1",
            "pair:1@",
            "pair:1@none",
            "full:1@journal",
            "race:1@cached",
        ] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
