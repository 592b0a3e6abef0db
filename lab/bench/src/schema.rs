//! Checks documents against the JSON schemas in `schema/`, which use a small subset of JSON Schema. Schemas with other keywords
//! are refused, so that none declares more than is checked.
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Map, Value};

/// Schema of the envelope of all reports.
pub const ENVELOPE: &str = include_str!("../schema/report.json");

/// Fails with path and reason if the document violates the schema.
pub fn check(schema: &str, document: &Value) -> Result<()> {
    let schema: Value = serde_json::from_str(schema).context("the schema is no JSON")?;
    node(&schema, document).map_err(|e| anyhow!("the report breaks its schema: {e:#}"))
}

fn node(schema: &Value, v: &Value) -> Result<()> {
    let words = schema.as_object().context("a schema is an object")?;
    for (word, rule) in words {
        match word.as_str() {
            "$schema" | "title" | "description" => {}
            "type" => types(rule, v)?,
            "enum" => {
                let allowed = rule.as_array().context("enum needs a list")?;
                ensure!(allowed.contains(v), "{v} is none of {rule}");
            }
            "minimum" => {
                if let (Some(least), Some(n)) = (rule.as_f64(), v.as_f64()) {
                    ensure!(n >= least, "{n} is below {least}");
                }
            }
            "minItems" => {
                if let (Some(least), Some(list)) = (rule.as_u64(), v.as_array()) {
                    ensure!(list.len() as u64 >= least, "{} items are fewer than {least}", list.len());
                }
            }
            "required" => {
                for name in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    ensure!(!v.is_object() || v.get(name).is_some(), "{name} is missing");
                }
            }
            "properties" => properties(rule, v)?,
            "additionalProperties" => additional(rule, words, v)?,
            "items" => {
                for (i, item) in v.as_array().into_iter().flatten().enumerate() {
                    node(rule, item).with_context(|| format!("[{i}]"))?;
                }
            }
            other => bail!("the schema word {other} is not supported"),
        }
    }
    Ok(())
}

fn types(rule: &Value, v: &Value) -> Result<()> {
    let names: Vec<&str> = match rule {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let fits = |name: &&str| match *name {
        "object" => v.is_object(),
        "array" => v.is_array(),
        "string" => v.is_string(),
        "number" => v.is_number(),
        "integer" => v.is_i64() || v.is_u64(),
        "boolean" => v.is_boolean(),
        "null" => v.is_null(),
        _ => false,
    };
    ensure!(names.iter().any(fits), "{v} is not of type {rule}");
    Ok(())
}

fn properties(rule: &Value, v: &Value) -> Result<()> {
    for (name, schema) in rule.as_object().into_iter().flatten() {
        if let Some(field) = v.get(name) {
            node(schema, field).with_context(|| name.clone())?;
        }
    }
    Ok(())
}

fn additional(rule: &Value, words: &Map<String, Value>, v: &Value) -> Result<()> {
    let known = words.get("properties").and_then(Value::as_object);
    for (name, field) in v.as_object().into_iter().flatten() {
        if known.is_some_and(|k| k.contains_key(name)) {
            continue;
        }
        match rule {
            Value::Bool(true) => {}
            Value::Bool(false) => bail!("{name} is not in the schema"),
            schema => node(schema, field).with_context(|| name.clone())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SCHEMA: &str = r#"{ "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer", "minimum": 1 }, "kind": { "enum": ["a", "b"] },
            "list": { "type": "array", "minItems": 1, "items": { "type": ["number", "null"] } } } }"#;

    #[test]
    fn accepts_what_fits() {
        for good in [json!({"n": 1}), json!({"n": 2, "kind": "b", "list": [1.5, null]})] {
            check(SCHEMA, &good).unwrap();
        }
    }

    #[test]
    fn refusals_name_the_place() {
        for (bad, why) in [
            (json!([]), "is not of type"),
            (json!({}), "n is missing"),
            (json!({"n": 0}), "n: 0 is below 1"),
            (json!({"n": 1.5}), "n: 1.5 is not of type \"integer\""),
            (json!({"n": 1, "kind": "c"}), "kind: \"c\" is none of"),
            (json!({"n": 1, "list": []}), "list: 0 items"),
            (json!({"n": 1, "list": [1, "x"]}), "list: [1]: \"x\" is not of type"),
            (json!({"n": 1, "more": 1}), "more is not in the schema"),
        ] {
            let e = check(SCHEMA, &bad).unwrap_err().to_string();
            assert!(e.contains(why), "{e}");
        }
        assert!(check(r#"{"pattern": "x"}"#, &json!(1)).is_err(), "an unknown word must not be passed over");
    }
}
