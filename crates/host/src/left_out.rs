//! Counts of properties that files on the host did not get.
use serde::Serialize;
use std::fmt;
use std::ops::AddAssign;

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

/// The words of `Preserve::parse`, in the order of the counts.
pub(crate) const WORDS: [&str; 4] = ["setid", "devices", "caps", "trusted"];

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
        let [setid, devices, caps, trusted] = WORDS;
        [(setid, self.setid), (devices, self.devices), (caps, self.caps), (trusted, self.trusted)]
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.setid += other.setid;
        self.devices += other.devices;
        self.caps += other.caps;
        self.trusted += other.trusted;
    }
}

/// The counts that are not 0, as a list.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("set-ID bits", self.setid),
            ("device nodes", self.devices),
            ("file capabilities", self.caps),
            ("trusted attributes", self.trusted),
        ];
        let parts = counts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} ({n})"));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}
