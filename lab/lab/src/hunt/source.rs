//! The mutants next to the sources, and a copy of the sources that has all of them.
use super::patch::{self, FilePatch};
use anyhow::{Context, Error, Result, ensure};
use segno_sim::suite::Case;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Relative to the root of the sources.
const MUTANTS: &str = "lab/mutants";
/// Files and directories of the root that are copied.
const COPIED: [&str; 6] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates", "lab", "xtask"];

/// A bug that a patch brings.
pub struct Mutant {
    pub name: String,
    pub about: String,
    /// The case with which the hunt begins.
    pub start: Option<Case>,
    /// The tests that judge it, if crash tests of the engine do not reach it: each finds it.
    pub tests: Vec<Tests>,
}

/// Tests of a crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Tests {
    pub package: String,
    /// Part of their names.
    pub filter: String,
    /// Environment of their process, such as the number of runs.
    pub env: Vec<(String, String)>,
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.filter)
    }
}

/// A workspace with mutants.
pub struct Source {
    root: PathBuf,
    pub mutants: Vec<Mutant>,
    /// By file name; patches that all others need are first.
    patches: Vec<(String, Vec<FilePatch>)>,
}

impl Source {
    /// The workspace that a directory is in.
    pub fn find(from: &Path) -> Result<Self> {
        let root = from.ancestors().find(|dir| dir.join(MUTANTS).is_dir()).context(
            "there are no mutants here: they are patches to the sources of Segno, which --source names, and \
             building them takes cargo",
        )?;
        Self::read(root)
    }

    pub fn read(root: &Path) -> Result<Self> {
        let dir = root.join(MUTANTS);
        let mut source = Self { root: root.to_owned(), mutants: Vec::new(), patches: Vec::new() };
        for path in patches_in(&dir.join("support"))? {
            source.add(&path)?;
        }
        for path in patches_in(&dir)? {
            let text = source.add(&path)?;
            source.mutants.push(mutant(&path, &text)?);
        }
        ensure!(!source.mutants.is_empty(), "no mutants in {}", dir.display());
        Ok(source)
    }

    fn add(&mut self, path: &Path) -> Result<String> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let files = patch::parse(&text).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        self.patches.push((name, files));
        Ok(text)
    }

    /// The directory for the copy and its build.
    pub fn work_dir(&self) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        self.root.join(target).join("mutants")
    }

    /// The changed files with their new content.
    pub fn changed(&self) -> Result<BTreeMap<&str, String>> {
        let mut changed: BTreeMap<&str, String> = BTreeMap::new();
        for (name, files) in &self.patches {
            for file in files {
                let before = changed.remove(file.path.as_str());
                let on_disk = || fs::read_to_string(self.root.join(&file.path)).unwrap_or_default();
                let before = before.unwrap_or_else(on_disk);
                let after = file.apply(&before).with_context(|| name.clone())?;
                changed.insert(&file.path, after);
            }
        }
        Ok(changed)
    }

    /// Brings a copy with all mutants up to date. Unchanged files are not written, so that they are not built
    /// again.
    pub fn copy_to(&self, to: &Path) -> Result<()> {
        let changed = self.changed()?;
        let mut wanted: BTreeSet<PathBuf> = changed.keys().map(PathBuf::from).collect();
        wanted.extend(files_of(&self.root)?);
        for stale in files_of(to)?.difference(&wanted) {
            fs::remove_file(to.join(stale))?;
        }
        for path in &wanted {
            let content = match path.to_str().and_then(|p| changed.get(p)) {
                Some(text) => text.clone().into_bytes(),
                None => fs::read(self.root.join(path)).with_context(|| path.display().to_string())?,
            };
            let copy = to.join(path);
            if fs::read(&copy).is_ok_and(|old| old == content) {
                continue;
            }
            copy.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&copy, content).with_context(|| copy.display().to_string())?;
        }
        Ok(())
    }
}

/// The patches of a directory by name.
fn patches_in(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut found = BTreeSet::new();
    for entry in entries {
        found.insert(entry?.path());
    }
    found.retain(|path| path.extension().is_some_and(|e| e == "patch"));
    Ok(found)
}

/// The lines in front of a patch: `# ABOUT`, `# start: CASE` for a bug that few cases find, and a line
/// `# tests: PACKAGE FILTER [NAME=VALUE]…` for each group of tests that finds one which crash tests do not reach.
fn mutant(path: &Path, text: &str) -> Result<Mutant> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let start = head.iter().find_map(|line| line.strip_prefix("start: "));
    let start = start.map(str::parse).transpose().map_err(Error::msg);
    let start = start.with_context(|| format!("start of {}", path.display()))?;
    let tests = head.iter().filter_map(|line| line.strip_prefix("tests: ")).map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        let (package, filter) =
            words.next().zip(words.next()).context("tests need a package and a filter")?;
        let pair =
            |word: String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = words.map(|word| pair(word).context("no variable")).collect::<Result<_>>()?;
        Ok::<_, Error>(Tests { package, filter, env })
    });
    let tests = tests.collect::<Result<_>>().with_context(|| format!("tests of {}", path.display()))?;
    let about = head.first().with_context(|| format!("{} does not say what it is", path.display()))?;
    Ok(Mutant { name, about: (*about).to_owned(), start, tests })
}

/// The files to copy, relative to the root.
fn files_of(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<PathBuf> = COPIED.iter().map(PathBuf::from).collect();
    while let Some(path) = todo.pop() {
        let full = root.join(&path);
        if full.is_file() {
            found.insert(path);
        } else if full.is_dir() && !path.ends_with("target") {
            for entry in fs::read_dir(&full)? {
                let name = entry?.file_name();
                if !name.to_string_lossy().starts_with('.') {
                    todo.push(path.join(name));
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of code that contains a mutant includes a change of the mutant.
    #[test]
    fn every_mutant_applies_to_the_sources_as_they_are() {
        let source = Source::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let changed = source.changed().unwrap_or_else(|e| panic!("{e:#}"));
        let all: String = changed.into_values().collect();
        for mutant in &source.mutants {
            let guard = format!("mutant::is(\"{}\")", mutant.name);
            assert!(all.contains(&guard), "{}: nothing asks {guard}", mutant.name);
            assert!(!mutant.about.is_empty());
        }
        assert!(source.mutants.len() >= 29);
    }
}
