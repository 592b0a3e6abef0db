//! docs/where.md names files and items that exist.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;

const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "mod", "type"];

/// Whether a source defines an item.
fn defines(source: &str, item: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    KEYWORDS.iter().any(|keyword| source.split(&format!("{keyword} {item}")).skip(1).any(ends))
}

#[test]
fn every_answer_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/where.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.contains("`crates/"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 20, "{} questions", rows.len());
    for row in rows {
        let (question, file) = (row[1], row[2].trim_matches('`'));
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        for item in row[3].split(", ").map(|item| item.trim_matches('`')) {
            assert!(defines(&source, item), "{question} {file} has no {item}");
        }
    }
}

#[test]
fn an_item_is_more_than_a_beginning() {
    assert!(defines("pub fn route(f: &Facts)", "route") && defines("pub enum Route {", "Route"));
    assert!(!defines("fn routes()", "route") && !defines("// the route", "route"));
}
