//! An option as help texts, documents and completions have it.
use crate::completion::assignments;

/// The syntax of an option and its description.
pub struct Described {
    pub name: &'static str,
    pub default: &'static str,
    pub help: &'static str,
    /// `[no]acl`, `mode=adaptive|lfs`, `cache=SIZE`.
    pub syntax: String,
    /// The word that turns it off, if there is one.
    pub opposite: Option<String>,
}

impl Described {
    /// Words of `-o` that name it, for completion.
    pub fn words(&self) -> Vec<String> {
        let values = self.syntax.split_once('=').map(|(_, values)| assignments(self.name, values));
        let is_alone = !self.syntax.starts_with(&format!("{}=", self.name));
        let alone = is_alone.then(|| self.name.to_owned());
        alone.into_iter().chain(values.unwrap_or_default()).chain(self.opposite.clone()).collect()
    }
}
