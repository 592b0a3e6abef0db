//! Figures of the sources: how much there is, and in how many places each structure is read and written.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

/// Longest files that are listed.
const LONGEST: usize = 10;
/// Tasks, each with an expression that is in every file of the product that does it, and in no other.
const PLACES: [(&str, &str); 5] = [
    ("encode a checkpoint pack", "cp_pack_total_block_count = "),
    ("place the version bitmaps of a pack", "bitmap_place("),
    ("read a superblock", "RawSuperblock::from_block("),
    ("follow the roll-forward chain", "next_blkaddr.get())"),
    ("decode the journals of the summaries", "compact_at("),
];
/// Types of the engine whose public methods are counted.
const INTERFACES: [&str; 8] = ["Volume", "Space", "Nodes", "Files", "Names", "Commit", "Writeback", "Gc"];

/// Count lines, readers and encoders of structures, public methods and assertions
#[derive(Args)]
pub struct Figures {
    /// The folder with `crates`; these sources if it is not given
    root: Option<PathBuf>,
}

/// A source file without its tests.
struct Source {
    krate: String,
    path: PathBuf,
    text: String,
}

impl Figures {
    pub fn run(self) -> Result<ExitCode> {
        let here = || Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
        let root = self.root.unwrap_or_else(here);
        let (product, laboratory) = (sources(&root.join("crates"))?, sources(&root.join("lab"))?);
        let lines = |of: &[&Source]| of.iter().map(|source| source.code().count()).sum::<usize>();
        println!("lines without tests, comments and blank lines");
        let all = |of: &[Source]| lines(&of.iter().collect::<Vec<_>>());
        println!("  product {}, laboratory {}", all(&product), all(&laboratory));
        let mut crates: Vec<&str> = product.iter().map(|source| source.krate.as_str()).collect();
        crates.dedup();
        for krate in crates {
            let own: Vec<_> = product.iter().filter(|source| source.krate == krate).collect();
            println!("  {krate:12} {:6}", lines(&own));
        }
        let mut longest: Vec<_> = product.iter().chain(&laboratory).collect();
        longest.sort_by_key(|source| std::cmp::Reverse(source.text.lines().count()));
        println!("longest files, with comments");
        for source in longest.iter().take(LONGEST) {
            let path = source.path.strip_prefix(&root).unwrap_or(&source.path);
            println!("  {:5} {}", source.text.lines().count(), path.display());
        }
        println!("files of the product that");
        for (what, expression) in PLACES {
            let files: Vec<_> = product.iter().filter(|source| source.has(expression)).collect();
            let paths: Vec<_> = files.iter().map(|f| f.path.strip_prefix(&root).unwrap_or(&f.path)).collect();
            println!("  {what}: {} {paths:?}", files.len());
        }
        println!("public methods in the engine");
        let engine = || product.iter().filter(|source| source.krate == "engine");
        for name in INTERFACES {
            println!("  {name}: {}", engine().map(|source| source.methods(name)).sum::<usize>());
        }
        println!("in the engine, per 1,000 lines");
        let own: Vec<_> = engine().collect();
        let per_thousand = |n: usize| 1000.0 * n as f64 / lines(&own).max(1) as f64;
        let invariants = own.iter().flat_map(|source| source.code()).filter(|line| asserts(line)).count();
        println!("  {:.1} assertions of release builds", per_thousand(invariants));
        println!("  {:.1} comments in bodies", per_thousand(own.iter().map(|source| source.remarks()).sum()));
        Ok(ExitCode::SUCCESS)
    }
}

fn asserts(line: &str) -> bool {
    ["invariant!(", "health.present(", "ssert!(", "ssert_eq!("].iter().any(|call| line.contains(call))
        && !line.contains("debug_assert")
}

impl Source {
    /// Lines with code.
    fn code(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"))
    }

    fn has(&self, expression: &str) -> bool {
        self.code().any(|line| line.contains(expression))
    }

    /// Public methods of a type.
    fn methods(&self, name: &str) -> usize {
        let head = format!("impl {name} {{\n");
        let blocks = self.text.split(&head).skip(1);
        blocks.map(|block| block.split("\n}").next().unwrap_or(block).matches("\n    pub fn ").count()).sum()
    }

    /// Comments that are no documentation.
    fn remarks(&self) -> usize {
        let is_remark =
            |line: &&str| line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!");
        self.text.lines().map(str::trim).filter(is_remark).count()
    }
}

/// The sources of all crates.
fn sources(crates: &Path) -> Result<Vec<Source>> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let mut folders: Vec<PathBuf> = vec![crates.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let relative = path.strip_prefix(crates)?;
            let mut parts = relative.iter().map(|part| part.to_string_lossy());
            let (krate, within) = (parts.next().unwrap_or_default().into_owned(), parts.next());
            if path.is_dir() {
                let skipped = within.is_some_and(|within| within != "src") || relative.ends_with("tests");
                folders.extend((!skipped).then_some(path));
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path)?;
                left_out.extend(conditional(&text).map(|module| folder_of_modules(&path).join(module)));
                found.push(Source { krate, path, text: without_tests(&text) });
            }
        }
    }
    let module = |source: &Source| source.path.with_extension("");
    found.retain(|source| !left_out.iter().any(|left| module(source).starts_with(left)));
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Modules that only tests or the laboratory have.
fn conditional(text: &str) -> impl Iterator<Item = &str> {
    let pairs = text.lines().zip(text.lines().skip(1));
    let is_left_out = |line: &str| ["#[cfg(test)]", "#[cfg(feature = \"lab\")]"].contains(&line);
    let declared = pairs.filter(move |(attribute, _)| is_left_out(attribute)).map(|(_, item)| item);
    declared.filter_map(|item| item.strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name))
}

/// Where the modules are that a file declares.
fn folder_of_modules(file: &Path) -> PathBuf {
    let composes =
        file.file_stem().is_some_and(|stem| ["lib", "main", "mod"].iter().any(|name| stem == *name));
    if composes { file.with_file_name("") } else { file.with_extension("") }
}

/// A module of tests is the last item of its file.
fn without_tests(text: &str) -> String {
    let module = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text.get(..module).unwrap_or(text).to_owned()
}
