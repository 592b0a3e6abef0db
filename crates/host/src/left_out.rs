//! Counts of properties that files on the host did not get.
use serde::Serialize;
use std::fmt;

/// Files that lack a property because [`Preserve`](crate::Preserve) does not have it, by property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Files without their set-user-ID or set-group-ID bits.
    pub setid: u64,
    /// Devices that were not created.
    pub devices: u64,
    /// Files without their capabilities.
    pub caps: u64,
    /// Files without their `trusted.*` attributes.
    pub trusted: u64,
}

impl LeftOut {
    /// Whether every file has everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of all counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts().iter().map(|(_, n)| n).sum()
    }

    /// The words of [`Preserve::parse`](crate::Preserve::parse) that bring it back, separated by commas.
    #[must_use]
    pub fn words(&self) -> String {
        let words = self.counts().into_iter().filter(|(_, n)| *n > 0).map(|(word, _)| word);
        words.collect::<Vec<_>>().join(",")
    }

    /// The counts, with the words of [`Preserve::parse`](crate::Preserve::parse).
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 4] {
        [("setid", self.setid), ("devices", self.devices), ("caps", self.caps), ("trusted", self.trusted)]
    }
}

/// The counts that are not 0, as a list.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = ["set-ID bits", "device nodes", "file capabilities", "trusted attributes"];
        let counts = kinds.iter().zip(self.counts()).filter(|(_, (_, n))| *n > 0);
        let parts = counts.map(|(what, (_, n))| format!("{what} ({n})"));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}
