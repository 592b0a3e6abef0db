//! What a repair does, in words.
use serde::Serialize;

/// One thing that a repair changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Whether something is lost that the volume had, or may have had.
    pub loss: bool,
    /// The inode concerned.
    pub ino: Option<u32>,
    /// Its path after the repair, where it has one.
    pub path: Option<String>,
    /// What is done.
    pub text: String,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.path, self.ino) {
            (Some(path), _) => write!(f, "{path}: {}", self.text),
            (None, Some(ino)) => write!(f, "inode {ino}: {}", self.text),
            (None, None) => f.write_str(&self.text),
        }
    }
}
