//! SECURITY.md names tests that exist.
use super::sizes::sources;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Functions of a source file, as `file::function`.
fn functions(path: &Path) -> Vec<String> {
    let named_by = if path.ends_with("mod.rs") { path.parent().unwrap() } else { path };
    let module = named_by.file_stem().unwrap().to_str().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
    names.map(|name| format!("{module}::{name}")).collect()
}

#[test]
fn the_tests_that_the_threat_model_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    sources(&root.join("crates"), &mut paths);
    let found: BTreeSet<String> = paths.iter().flat_map(|path| functions(path)).collect();
    let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let rows = text.split("## Rules").nth(1).unwrap().lines().filter_map(|line| line.rsplit(" | ").next());
    let named = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|name| name.contains("::"));
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 10, "{named:?}");
    for test in named {
        assert!(found.contains(test), "SECURITY.md names {test}, which does not exist");
    }
}
