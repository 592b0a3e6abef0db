//! Flags of a mount that the kernel handles.
use rustix::mount::MountFlags;

/// A flag with its opposite; the later one wins.
#[derive(Debug)]
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// The word that turns it off.
    pub opposite: &'static str,
    /// The default, or both.
    pub default: &'static str,
    /// One sentence for help texts and manuals, without a period.
    pub help: &'static str,
    /// The bit of mount(2) that a remount can change, or none.
    remount: MountFlags,
}

impl Flag {
    pub(super) const fn new(
        name: &'static str,
        opposite: &'static str,
        default: &'static str,
        remount: MountFlags,
        help: &'static str,
    ) -> Self {
        Self { name, opposite, default, help, remount }
    }

    /// Applies a word, split at its `=`, to the flags given so far. `None` if it names another option.
    pub(super) fn apply(
        &self,
        given: &mut Vec<String>,
        name: &str,
        value: Option<&str>,
    ) -> Option<Result<(), String>> {
        if name != self.name && name != self.opposite {
            return None;
        }
        if value.is_some() {
            return Some(Err("no value is taken".into()));
        }
        given.retain(|f| f != self.name && f != self.opposite);
        given.push(name.to_owned());
        Some(Ok(()))
    }

    /// The word that sets the bit of mount(2), the word that clears it, and the bit.
    pub fn remount(&self) -> (&'static str, &'static str, MountFlags) {
        // The bits of dev, suid and exec are inverted.
        match self.opposite.strip_prefix("no") == Some(self.name) {
            true => (self.opposite, self.name, self.remount),
            false => (self.name, self.opposite, self.remount),
        }
    }
}
