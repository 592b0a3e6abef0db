//! The layers of the engine, checked over its sources: ARCHITECTURE.md has the same list.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

/// Modules from the bottom up. A path may lead to its own module or to one above it in this list.
const LAYERS: [&str; 26] = [
    "sync",
    "lock",
    "types",
    "block",
    "times",
    "error",
    "notice",
    "options",
    "clock",
    "clock_cache",
    "stat",
    "memory",
    "meta",
    "health",
    "transaction",
    "base",
    "space",
    "nodes",
    "room",
    "files",
    "writeback",
    "names",
    "commit",
    "gc",
    "recovery",
    "admission",
];
const SUBSYSTEMS: [&str; 8] =
    ["Transactions", "Space", "Nodes", "Files", "Writeback", "Names", "Commit", "Gc"];
const HELD_MOST: usize = 3;
/// Public methods of one struct, so that a reader finds them.
const METHODS_MOST: usize = 40;

struct Source {
    /// Relative to `src`.
    path: String,
    text: String,
}

impl Source {
    /// The top-level module it belongs to.
    fn module(&self) -> &str {
        self.path.split('/').next().unwrap().trim_end_matches(".rs")
    }
    /// Without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default()))
    }
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    out
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let source = |path: PathBuf| {
        let relative = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        Source { path: relative, text: fs::read_to_string(&path).unwrap() }
    };
    let out: Vec<Source> = rust_files(&root).into_iter().map(source).collect();
    assert!(out.len() > 100, "the sources are not where they were");
    out
}

/// The composing modules may use everything.
fn composes(module: &str) -> bool {
    matches!(module, "volume" | "lib")
}

fn rank(module: &str) -> usize {
    LAYERS.iter().position(|&l| l == module).unwrap_or_else(|| panic!("{module} is in no layer"))
}

/// The modules that `crate::` paths of a line begin with, also in braces.
fn paths(line: &str) -> Vec<String> {
    let ident = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    line.match_indices("crate::")
        .flat_map(|(at, found)| {
            let rest = &line[at + found.len()..];
            match rest.strip_prefix('{') {
                Some(list) => list.split(',').map(|p| ident(p.trim_start())).collect(),
                None => vec![ident(rest)],
            }
        })
        .collect()
}

#[test]
fn every_path_leads_downwards() {
    let mut upwards = Vec::new();
    for source in sources().iter().filter(|s| !composes(s.module())) {
        let own = rank(source.module());
        for (line, code) in source.code() {
            for target in paths(code).iter().filter(|t| t.starts_with(|c: char| c.is_lowercase())) {
                if composes(target) || rank(target) > own {
                    upwards.push(format!("{}:{line}: {target}", source.path));
                }
            }
            // The crate root exports types of all layers.
            if code.contains("crate::")
                && paths(code).iter().any(|p| p.starts_with(|c: char| c.is_uppercase()))
            {
                upwards.push(format!("{}:{line}: a name of the crate root", source.path));
            }
        }
    }
    assert!(upwards.is_empty(), "paths that lead upwards:\n{}", upwards.join("\n"));
}

#[test]
fn only_the_composing_modules_know_the_volume() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|s| !composes(s.module())) {
        for (line, code) in source.code() {
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            if words.into_iter().any(|w| w == "Volume") {
                found.push(format!("{}:{line}", source.path));
            }
        }
    }
    assert!(found.is_empty(), "Volume outside of volume/:\n{}", found.join("\n"));
}

#[test]
fn no_struct_holds_more_than_three_subsystems() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|s| !composes(s.module())) {
        let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
        for part in code.split("\nstruct ").chain(code.split("\npub struct ")).skip(1) {
            let body = part.split("\n}").next().unwrap_or_default();
            let words: Vec<&str> = body.split(|c: char| !c.is_alphanumeric()).collect();
            let held = SUBSYSTEMS.iter().filter(|s| words.contains(s)).count();
            let own = usize::from(SUBSYSTEMS.contains(words.first().unwrap_or(&"")));
            if held - own > HELD_MOST {
                found.push(format!("{}: {}", source.path, words.first().unwrap_or(&"")));
            }
        }
    }
    assert!(found.is_empty(), "structs with more than {HELD_MOST} subsystems: {found:?}");
}

#[test]
fn large_subsystems_have_few_public_methods() {
    for name in ["Nodes", "Files", "PackedClusters", "Names", "Dirs", "Xattrs"] {
        let head = format!("impl {name} {{");
        let methods = sources()
            .iter()
            .flat_map(|source| source.text.split(&head).skip(1).map(str::to_owned).collect::<Vec<_>>())
            .map(|block| block.split("\n}").next().unwrap().matches("\n    pub fn ").count())
            .sum::<usize>();
        assert!((5..=METHODS_MOST).contains(&methods), "{name} has {methods}");
    }
}

/// ARCHITECTURE.md pairs assertions before a write with assertions after a read. Each is quoted from the
/// sources, and its tests exist.
#[test]
fn the_pairs_of_assertions_are_those_of_the_sources() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(crates.join("../ARCHITECTURE.md")).unwrap();
    let table = text.split("### Pairs of assertions").nth(1).unwrap().split("\n## ").next().unwrap();
    let sources: String = ["engine", "format", "layout", "journal", "store"]
        .iter()
        .flat_map(|name| rust_files(&crates.join(name)))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut pairs = 0;
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, before, after, broken] = cells[..] else { panic!("{row}") };
        for phrase in [before, after].iter().flat_map(|cell| cell.split('"').skip(1).step_by(2)) {
            let quoted = sources.lines().any(|line| line.contains('"') && line.contains(phrase));
            assert!(quoted, "no source says: {phrase}");
        }
        for test in broken.split('`').skip(1).step_by(2) {
            let name = test.rsplit("::").next().unwrap();
            assert!(sources.contains(&format!("fn {name}()")), "no test: {test}");
        }
        pairs += usize::from(before.contains('"') && after.contains('"'));
    }
    assert!(pairs >= 40, "{pairs} pairs");
}
