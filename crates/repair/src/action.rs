//! Descriptions of the changes of a repair.
use segno_format::text;
use serde::Serialize;

/// One thing that a repair changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Whether something is lost that the volume had, or may have had.
    pub loss: bool,
    /// The inode concerned.
    pub ino: Option<u32>,
    /// Its path after the repair, where it has one. Bytes that are not UTF-8 are escaped.
    pub path: Option<String>,
    /// All bytes of the path in hexadecimal, if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// The change, as a sentence.
    pub text: String,
}

impl Action {
    pub(crate) fn new(loss: bool, ino: Option<u32>, text: impl Into<String>) -> Self {
        Self { loss, ino, path: None, path_bytes: None, text: text.into() }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.path, self.ino) {
            (Some(path), _) => {
                write!(f, "{}: {}", text::of_field(path, self.path_bytes.is_some()), self.text)
            }
            (None, Some(ino)) => write!(f, "inode {ino}: {}", self.text),
            (None, None) => f.write_str(&self.text),
        }
    }
}
