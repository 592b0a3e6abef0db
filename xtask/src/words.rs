//! How often comments and documents use patterns of private language, for each crate and document.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use regex::bytes::{Regex, RegexBuilder};

/// One regular expression a line.
const PATTERNS: &str = include_str!("../words.txt");

/// Count patterns of private language in comments and documents
#[derive(Args)]
pub struct Words {
    /// Print each place in this crate or document
    #[arg(long)]
    show: Option<String>,
    /// The sources; these if it is not given
    root: Option<PathBuf>,
}

#[derive(Default)]
struct Count {
    lines: usize,
    hits: usize,
}

impl Words {
    pub fn run(self) -> Result<ExitCode> {
        let root =
            self.root.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(""));
        let patterns = patterns()?;
        let mut files = Vec::new();
        files_below(&root, &mut files)?;
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        for path in files {
            let relative = path.strip_prefix(&root)?.to_string_lossy().into_owned();
            let area = area(&relative);
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let count = counts.entry(area.clone()).or_default();
            for (number, line) in text.lines().enumerate() {
                let Some(prose) = prose(&relative, line) else { continue };
                count.lines += 1;
                let hits =
                    patterns.iter().map(|pattern| pattern.find_iter(prose.as_bytes()).count()).sum::<usize>();
                count.hits += hits;
                if hits > 0 && self.show.as_ref() == Some(&area) {
                    println!("{relative}:{}: {}", number + 1, line.trim());
                }
            }
        }
        print(&counts);
        Ok(ExitCode::SUCCESS)
    }
}

fn print(counts: &BTreeMap<String, Count>) {
    let rate = |count: &Count| 1000.0 * count.hits as f64 / count.lines.max(1) as f64;
    let mut rows: Vec<_> = counts.iter().collect();
    rows.sort_by(|a, b| rate(b.1).total_cmp(&rate(a.1)));
    println!("{:45} {:>6} {:>5} {:>9}", "crate or document", "lines", "hits", "per 1,000");
    for (area, count) in rows {
        println!("{area:45} {:6} {:5} {:9.1}", count.lines, count.hits, rate(count));
    }
}

fn patterns() -> Result<Vec<Regex>> {
    let lines = PATTERNS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            RegexBuilder::new(line).unicode(false).build().with_context(|| format!("words.txt: {line}"))
        })
        .collect()
}

/// The crate of a source, or a document.
fn area(relative: &str) -> String {
    let parts: Vec<&str> = relative.split('/').collect();
    match parts.as_slice() {
        [floor @ ("crates" | "lab"), name, _, ..] if !relative.starts_with("lab/results") => {
            format!("{floor}/{name}")
        }
        ["docs", "guide", ..] => "docs/guide".to_owned(),
        ["xtask", ..] => "xtask".to_owned(),
        _ => relative.to_owned(),
    }
}

/// The comment of a line of a source, or a line of a document.
fn prose<'a>(relative: &str, line: &'a str) -> Option<&'a str> {
    if relative.ends_with(".md") { Some(line) } else { line.find("//").and_then(|at| line.get(at..)) }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files_below(&path, found)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_found_in_prose_only() {
        let patterns = patterns().unwrap();
        let hits = |line: &str| patterns.iter().map(|p| p.find_iter(line.as_bytes()).count()).sum::<usize>();
        assert!(patterns.len() > 8);
        assert_eq!(prose("crates/a/src/b.rs", "let behind = 1;"), None);
        let comment = prose("crates/a/src/b.rs", "let x = 1; // the ring behind the volume").unwrap();
        assert_eq!((comment, hits(comment)), ("// the ring behind the volume", 1));
        assert_eq!(hits("The ring after the end of the volume."), 0);
    }

    #[test]
    fn areas_are_crates_and_documents() {
        for (path, expected) in [
            ("crates/store/src/log/map.rs", "crates/store"),
            ("lab/sim/README.md", "lab/sim"),
            ("lab/results/journal.md", "lab/results/journal.md"),
            ("docs/guide/journal.md", "docs/guide"),
            ("docs/design/journal.md", "docs/design/journal.md"),
            ("README.md", "README.md"),
        ] {
            assert_eq!(area(path), expected);
        }
    }
}
