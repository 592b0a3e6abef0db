//! What no crate of the product may have: planted bugs.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that users never run.
const LABORATORY: [&str; 5] = ["bench", "gcmodel", "lab", "sim", "testkit"];
/// Words of planted bugs. The patches of `mutants` bring them into copies of the sources.
const PLANTED: [&str; 3] = ["planted", "mutant", "sabotage"];

fn product_crates() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: Vec<PathBuf> = fs::read_dir(crates).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|dir| !LABORATORY.contains(&dir.file_name().unwrap().to_str().unwrap()));
    assert!(found.len() >= 20 && found.contains(&crates.join("store")), "{found:?}");
    found.sort();
    found
}

/// The sources of a crate, its tests included.
fn sources(of: &Path) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![of.join("src"), of.join("tests")]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn no_product_crate_has_planted_bugs() {
    for source in product_crates().iter().flat_map(|dir| sources(dir)) {
        let text = fs::read_to_string(&source).unwrap().to_lowercase();
        for word in PLANTED {
            let line = text.lines().position(|line| line.contains(word));
            assert_eq!(line, None, "{}: {word}", source.display());
        }
    }
}
