//! JSON as text: a line for each field, a line for each row of a list.
use serde_json::Value;
use std::io::{self, Write};

/// Prints a value for people.
pub fn print(out: &mut impl Write, value: &Value) -> io::Result<()> {
    nested(out, value, 0)
}

fn nested(out: &mut impl Write, value: &Value, depth: usize) -> io::Result<()> {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if is_flat(value) {
                    writeln!(out, "{pad}{key:26} {}", line(value))?;
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

/// Fits on a line of its own.
fn is_row(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.len() <= 10 && map.values().all(is_flat),
        other => is_flat(other),
    }
}

fn line(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            map.iter().map(|(k, v)| format!("{k}={}", line(v))).collect::<Vec<_>>().join("  ")
        }
        Value::Array(list) => list.iter().map(line).collect::<Vec<_>>().join(", "),
        // Control characters of a damaged name must not reach the terminal.
        Value::String(s) => s.escape_debug().to_string(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}
