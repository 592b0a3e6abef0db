//! The slowest requests of the last minute.
use serde_json::{Value, json};

/// The name of their list in the server's response.
pub const NAME: &str = "slowest";

/// What `segno top` and `segno stats --explain` say of them.
pub const HELP: &str = "the slowest requests of the last 30 to 60 seconds. The inode is that of the file; for operations on \
                        names that of the directory: `find DIR -inum N` finds it";

/// A request, and how long ago it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// For `--json`.
impl From<&Slow> for Value {
    fn from(s: &Slow) -> Self {
        json!({ "op": s.op, "ino": s.ino, "ns": s.ns, "age_ms": s.age_ms })
    }
}

/// From the server's list; other elements are left out.
pub fn parse(list: Option<&Value>) -> Vec<Slow> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let number = |v: &Value, name: &str| v.get(name).and_then(Value::as_u64);
    let one = |v: &Value| {
        let op = v.get("op")?.as_str()?.to_owned();
        Some(Slow { op, ino: number(v, "ino")?, ns: number(v, "ns")?, age_ms: number(v, "age_ms")? })
    };
    list.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let list = json!([{ "op": "fsync", "ino": 7, "ns": 12_340_000, "age_ms": 3999 }, { "op": 1 }, null]);
        let found = parse(Some(&list));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text(), "fsync of inode 7 12.3 ms, 3 s ago");
        assert_eq!(parse(Some(&json!([Value::from(&found[0])]))), found);
        assert_eq!(parse(None), []);
        assert_eq!(parse(Some(&json!("odd"))), []);
    }
}
