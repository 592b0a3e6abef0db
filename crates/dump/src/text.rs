//! JSON as text: a line for each field, a line for each row of a list.
use segno_format::text;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Prints a value for people.
pub fn print(out: &mut impl Write, value: &Value) -> io::Result<()> {
    nested(out, value, 0)
}

fn nested(out: &mut impl Write, value: &Value, depth: usize) -> io::Result<()> {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !is_bytes(map, key)) {
                if is_flat(value) {
                    writeln!(out, "{pad}{key:26} {}", field(map, key, value))?;
                } else {
                    writeln!(out, "{pad}{key}")?;
                    nested(out, value, depth + 1)?;
                }
            }
            Ok(())
        }
        Value::Array(list) => list.iter().enumerate().try_for_each(|(i, value)| {
            if is_row(value) {
                return writeln!(out, "{pad}{}", line(value));
            }
            if i > 0 {
                writeln!(out)?;
            }
            nested(out, value, depth)
        }),
        scalar => writeln!(out, "{pad}{}", line(scalar)),
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// Fits on the line of its key.
fn is_flat(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().all(is_scalar),
        other => is_scalar(other),
    }
}

/// Whether a value is printed on one line.
fn is_row(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.len() <= 10 && map.values().all(is_flat),
        other => is_flat(other),
    }
}

/// Whether a field has the bytes of a name that another field has as text.
fn is_bytes(map: &Map<String, Value>, key: &str) -> bool {
    key.strip_suffix("_bytes").is_some_and(|name| map.contains_key(name))
}

/// A value of an object.
fn field(map: &Map<String, Value>, key: &str, value: &Value) -> String {
    match value {
        Value::String(s) => text::of_field(s, map.contains_key(&format!("{key}_bytes"))),
        other => line(other),
    }
}

fn line(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields = map.iter().filter(|(key, _)| !is_bytes(map, key));
            fields.map(|(k, v)| format!("{k}={}", field(map, k, v))).collect::<Vec<_>>().join("  ")
        }
        Value::Array(list) => list.iter().map(line).collect::<Vec<_>>().join(", "),
        Value::String(s) => text::name(s.as_bytes()),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}
