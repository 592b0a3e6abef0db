//! Documents in JSON. Each is an object that begins with its schema and the schema's version: docs/json.md lists them, and
//! docs/schema has a JSON Schema for each.
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// A kind of document, and its version: that is raised when a field is removed or renamed, or changes its type or meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema(pub &'static str, pub u32);

/// The common fields of all documents, and the fields of one, which serialize as an object.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    version: u32,
    #[serde(flatten)]
    fields: &'a T,
}

impl Schema {
    fn of<T>(self, fields: &T) -> Document<'_, T> {
        Document { schema: self.0, version: self.1, fields }
    }

    /// Prints a document, indented. Fields that serialize piece by piece are not gathered in memory.
    pub fn print(self, out: impl Write, fields: &impl Serialize) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        serde_json::to_writer_pretty(&mut out, &self.of(fields))?;
        writeln!(out)?;
        out.flush()
    }

    /// A document on one line.
    pub fn line(self, fields: &impl Serialize) -> serde_json::Result<String> {
        serde_json::to_string(&self.of(fields))
    }

    /// An indented document with an empty list under this key, up to the list's elements, and after them.
    pub fn around(self, key: &str) -> serde_json::Result<(String, String)> {
        let list: [(); 0] = [];
        let text = serde_json::to_string_pretty(&self.of(&serde_json::json!({ key: list })))?;
        let (before, after) = text.rsplit_once(']').unwrap_or((&text, ""));
        Ok((before.to_owned(), format!("]{after}\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_and_version_come_first() {
        let fields = json!({ "a": 1, "b": [2] });
        assert_eq!(
            Schema("segno.x", 3).line(&fields).unwrap(),
            r#"{"schema":"segno.x","version":3,"a":1,"b":[2]}"#
        );
        let mut out = Vec::new();
        Schema("segno.x", 3).print(&mut out, &json!({ "a": 1 })).unwrap();
        let text = "{\n  \"schema\": \"segno.x\",\n  \"version\": 3,\n  \"a\": 1\n}\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn elements_are_printed_inside_a_document() {
        let (before, after) = Schema("segno.x", 3).around("files").unwrap();
        assert_eq!(before, "{\n  \"schema\": \"segno.x\",\n  \"version\": 3,\n  \"files\": [");
        assert_eq!(after, "]\n}\n");
    }

    /// Only objects have names for the first two fields.
    #[test]
    fn a_list_is_no_document() {
        assert!(Schema("segno.x", 3).line(&[1, 2]).is_err());
    }
}
