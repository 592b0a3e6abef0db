//! The slowest requests of the last minute.
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of their list in the server's response.
pub const NAME: &str = "slowest";

/// What `segno top` and `segno stats --explain` say of them.
pub const HELP: &str = "the slowest requests of the last 30 to 60 seconds. The inode is that of the file; for operations on \
                        names that of the directory: `find DIR -inum N` finds it";

/// A request, and how long ago it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Slow {
    pub op: String,
    pub ino: u64,
    pub ns: u64,
    pub age_ms: u64,
}

impl Slow {
    /// For a line of text.
    pub fn text(&self) -> String {
        let (ms, age) = (self.ns as f64 / 1e6, self.age_ms / 1000);
        format!("{} of inode {} {ms:.1} ms, {age} s ago", self.op, self.ino)
    }
}

/// From the server's list; other elements are left out.
pub fn parse(list: Option<&Value>) -> Vec<Slow> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|slow| Slow::deserialize(slow).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_is_read() {
        let list = json!([{ "op": "fsync", "ino": 7, "ns": 12_340_000, "age_ms": 3999 }, { "op": 1 }, null]);
        let found = parse(Some(&list));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text(), "fsync of inode 7 12.3 ms, 3 s ago");
        assert_eq!(parse(Some(&json!(found))), found);
        assert_eq!(parse(None), []);
        assert_eq!(parse(Some(&json!("odd"))), []);
    }
}
