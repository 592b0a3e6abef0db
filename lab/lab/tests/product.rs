//! Code that no crate of the product may have: planted bugs, and the laboratory's access to the engine.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that users never run.
const LABORATORY: [&str; 5] = ["bench", "gcmodel", "lab", "sim", "testkit"];
/// Words of planted bugs. The patches of `mutants` bring them into copies of the sources.
const PLANTED: [&str; 3] = ["planted", "mutant", "sabotage"];

fn product_crates() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut found: Vec<PathBuf> = fs::read_dir(&crates).unwrap().map(|e| e.unwrap().path()).collect();
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

/// The drawing of ARCHITECTURE.md, from the top down.
fn floors() -> Vec<Vec<String>> {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md")).unwrap();
    let drawing = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let crates = |line: &str| line.get(21..).unwrap().split_whitespace().map(str::to_owned).collect();
    drawing.lines().map(crates).collect()
}

/// Crates of this workspace on which a crate depends, but for its tests.
fn dependencies(dir: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    let mut section = String::new();
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section.ends_with("dependencies]") && !section.contains("dev-") {
            let name = line.split(['=', '.']).next().unwrap().trim();
            found.extend(
                name.strip_prefix("segno")
                    .map(|rest| if rest.is_empty() { "segno" } else { &rest[1..] }.to_owned()),
            );
        }
    }
    found
}

#[test]
fn crates_depend_on_lower_floors() {
    let floors = floors();
    let floor_of = |name: &str| floors.iter().position(|floor| floor.iter().any(|on_it| on_it == name));
    let mut drawn: Vec<String> = floors.iter().flatten().cloned().collect();
    drawn.sort();
    let name = |dir: &PathBuf| dir.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(
        drawn,
        product_crates().iter().map(name).collect::<Vec<_>>(),
        "crates in the drawing and in the folder"
    );
    let mut seen = 0;
    for dir in product_crates() {
        let own = floor_of(&name(&dir));
        for dependency in dependencies(&dir) {
            assert!(
                floor_of(&dependency) > own,
                "{} depends on {dependency}, on no lower floor",
                dir.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} dependencies were found");
}

/// Only `segno-engine` names its feature `lab`: to define it, and for its own tests.
#[test]
fn no_product_crate_can_enable_the_laboratory() {
    for dir in product_crates() {
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        let own = dir.ends_with("engine");
        let named: Vec<&str> = manifest.lines().filter(|line| names_lab(line)).collect();
        let allowed: &[&str] =
            if own { &["segno-engine = { path = \".\", features = [\"lab\"] }", "lab = []"] } else { &[] };
        assert_eq!(named, allowed, "{}", dir.display());
        for laboratory in LABORATORY {
            let depends = format!("segno-{laboratory} ");
            let normal = manifest.split("[dev-dependencies]").next().unwrap();
            assert!(!normal.contains(&depends), "{} depends on {laboratory}", dir.display());
        }
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let workspace = fs::read_to_string(workspace).unwrap();
    let engine: Vec<&str> = workspace.lines().filter(|line| line.starts_with("segno-engine")).collect();
    assert!(engine.len() == 1 && !names_lab(engine[0]), "for every crate: {engine:?}");
}

/// Whether a line of a manifest has the word `lab`.
fn names_lab(line: &str) -> bool {
    // Devices for tests have their folder in the laboratory.
    let code = line.split('#').next().unwrap_or_default().replace("../../lab/", "");
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').any(|word| word == "lab")
}

#[test]
fn the_program_is_built_without_the_laboratory() {
    let features = |package| {
        let args = ["tree", "--offline", "-p", package, "-e", "normal,build,features", "--prefix", "none"];
        let mut tree = Command::new(env!("CARGO"));
        // Set, it gives every package the features of the whole workspace.
        let out = tree.args(args).env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION").output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let enabled = "segno-engine feature \"lab\"";
    let (product, lab) = (features("segno-cli"), features("segno-lab"));
    assert!(lab.contains(enabled), "{lab}");
    assert!(product.contains("segno-engine ") && !product.contains(enabled), "{product}");
}
