//! SELinux contexts by path: the rules of libselinux.
use super::{Line, MountPoint, missing, read, rows};
use crate::options::Metadata;
use crate::tree::Tree;
use crate::{Error, Result};
use regex::bytes::{Regex, RegexBuilder};
use segno_format::dentry::FileType;
use std::collections::HashMap;

/// The attribute that holds a label.
pub(crate) const LABEL: &[u8] = b"security.selinux";
/// Characters that make a pattern more than a path.
const META: &[u8] = b".^$?*+|[({";
/// A compiled file.
const BINARY_MAGIC: [u8; 4] = 0xF97C_FF8A_u32.to_le_bytes();
const SIZE_LIMIT: usize = 1 << 26;

/// A rule. Without a label, matching files get no label.
#[derive(Clone, Debug)]
struct Rule {
    kind: Option<FileType>,
    label: Option<Vec<u8>>,
}

/// A pattern and the kind of files that it is restricted to.
type Pattern = (Vec<u8>, Option<FileType>);

/// All rules: those for a path as it is beat expressions, and later ones beat earlier ones.
#[derive(Debug, Default)]
struct Rules {
    literal: HashMap<Vec<u8>, Vec<Rule>>,
    expressions: Vec<(Regex, Rule)>,
    /// Patterns and types seen, to notice contradictions.
    seen: HashMap<Pattern, Option<Vec<u8>>>,
}

/// Labels everything.
pub(super) fn apply(
    tree: &mut Tree,
    metadata: &Metadata,
    mount: &MountPoint,
    notes: &mut Vec<String>,
) -> Result<()> {
    if metadata.file_contexts.is_empty() {
        return Ok(());
    }
    let mut rules = Rules::default();
    for file in &metadata.file_contexts {
        let bytes = read(file)?;
        if bytes.starts_with(&BINARY_MAGIC) {
            return Err(Error::Options(format!(
                "{} is compiled: give the text that it was made of",
                file.display()
            )));
        }
        for line in rows(file, &bytes) {
            rules.add(&line, notes)?;
        }
    }
    let mut unlabelled = Vec::new();
    for index in 0..tree.inodes.len() {
        let path = mount.absolute(&tree.path(index));
        let inode = tree.get_mut(index)?;
        match rules.find(&path, inode.kind.file_type()) {
            Some(Rule { label: Some(label), .. }) => {
                inode.xattrs.insert(LABEL.to_vec(), label.clone());
            }
            Some(_) => {
                inode.xattrs.remove(LABEL);
            }
            None => unlabelled.push(index),
        }
    }
    if metadata.allow_unlabeled {
        return Ok(());
    }
    missing("the context", tree, &unlabelled, &metadata.file_contexts)
}

impl Rules {
    fn add(&mut self, line: &Line<'_>, notes: &mut Vec<String>) -> Result<()> {
        let fields: Vec<&[u8]> = line.text.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty()).collect();
        let (pattern, kind, label) = match fields[..] {
            [pattern, label] => (pattern, None, label),
            [pattern, kind, label] => (pattern, Some(kind_of(line, kind)?), label),
            _ => return Err(line.error("it is not PATTERN [TYPE] CONTEXT")),
        };
        let label = (label != b"<<none>>").then(|| label.to_vec());
        let before = self.seen.insert((pattern.to_vec(), kind), label.clone());
        if before.is_some_and(|before| before != label) {
            let file = line.file.display();
            notes.push(format!(
                "{file}:{}: the pattern was there before with another context; the last one counts",
                line.number
            ));
        }
        let rule = Rule { kind, label };
        match literal(pattern) {
            Some(path) => self.literal.entry(path).or_default().push(rule),
            None => self.expressions.push((expression(line, pattern)?, rule)),
        }
        Ok(())
    }

    fn find(&self, path: &[u8], kind: FileType) -> Option<&Rule> {
        let fits = |rule: &&Rule| rule.kind.is_none_or(|k| k == kind);
        let exact = self.literal.get(path).and_then(|rules| rules.iter().rev().find(fits));
        exact.or_else(|| {
            let found = self.expressions.iter().rev().find(|(e, rule)| fits(&rule) && e.is_match(path));
            found.map(|(_, rule)| rule)
        })
    }
}

fn kind_of(line: &Line<'_>, text: &[u8]) -> Result<FileType> {
    Ok(match text {
        b"--" => FileType::Regular,
        b"-d" => FileType::Directory,
        b"-b" => FileType::BlockDevice,
        b"-c" => FileType::CharDevice,
        b"-l" => FileType::Symlink,
        b"-p" => FileType::Fifo,
        b"-s" => FileType::Socket,
        _ => {
            let text = String::from_utf8_lossy(text);
            return Err(line.error(format!("type {text:?} is not one of -- -d -b -c -l -p -s")));
        }
    })
}

/// The path that equals a pattern without special characters.
fn literal(pattern: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            // `\.` is a dot, but `\w` is a class.
            b'\\' => out.push(bytes.next().copied().filter(|b| !b.is_ascii_alphanumeric())?),
            byte if META.contains(&byte) => return None,
            byte => out.push(byte),
        }
    }
    Some(out)
}

/// The anchors are added without a group, as libselinux does: `a|b` is anchored half.
fn expression(line: &Line<'_>, pattern: &[u8]) -> Result<Regex> {
    let text = std::str::from_utf8(pattern).map_err(|_| line.error("the pattern is not UTF-8"))?;
    let built = RegexBuilder::new(&format!("^{text}$"))
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(SIZE_LIMIT)
        .build();
    built.map_err(|e| {
        let reason = e.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        line.error(format!("the pattern {text} cannot be used: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn rules(text: &str) -> (Rules, Vec<String>) {
        let (mut rules, mut notes) = (Rules::default(), Vec::new());
        for line in rows(Path::new("contexts"), text.as_bytes()) {
            rules.add(&line, &mut notes).unwrap();
        }
        (rules, notes)
    }

    fn label(rules: &Rules, path: &str, kind: FileType) -> Option<String> {
        let found = rules.find(path.as_bytes(), kind)?;
        Some(found.label.as_ref().map_or("none".into(), |l| String::from_utf8(l.clone()).unwrap()))
    }

    /// The expected results are from the manual page file_contexts(5).
    #[test]
    fn the_last_match_wins_but_a_path_beats_expressions() {
        let (rules, notes) = rules(
            "# comment\n\n/vendor/lib/exact\\.so  exact\n/vendor(/.*)?  base\n/vendor/bin/.*  --  program\n\
             /vendor/lib/.*  library\n/vendor/none <<none>>\n/other|/half  odd\n",
        );
        assert!(notes.is_empty());
        let has = |path, kind| label(&rules, path, kind);
        assert_eq!(has("/vendor", FileType::Directory).unwrap(), "base");
        assert_eq!(has("/vendor/bin/sh", FileType::Regular).unwrap(), "program");
        assert_eq!(has("/vendor/bin/sh", FileType::Symlink).unwrap(), "base");
        assert_eq!(has("/vendor/lib/exact.so", FileType::Regular).unwrap(), "exact");
        assert_eq!(has("/vendor/lib/exactXso", FileType::Regular).unwrap(), "library");
        assert_eq!(has("/vendor/none", FileType::Regular).unwrap(), "none");
        assert_eq!(has("/vendors", FileType::Regular), None);
        assert_eq!(has("/otherwise", FileType::Regular).unwrap(), "odd");
        assert_eq!(has("/x/half", FileType::Regular).unwrap(), "odd");
    }

    #[test]
    fn contradictions_are_noted_and_repetitions_are_not() {
        let (rules, notes) = rules("/lost\\+found a\n/lost\\+found a\n/x b\n/x c\n");
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("contexts:4: "), "{notes:?}");
        assert_eq!(label(&rules, "/x", FileType::Regular).unwrap(), "c");
        assert_eq!(label(&rules, "/lost+found", FileType::Directory).unwrap(), "a");
    }

    #[test]
    fn bad_lines_are_named() {
        let said = |text: &str| {
            let line = Line { file: Path::new("contexts"), number: 3, text: text.as_bytes() };
            Rules::default().add(&line, &mut Vec::new()).unwrap_err().to_string()
        };
        assert_eq!(said("/a"), "contexts:3: it is not PATTERN [TYPE] CONTEXT");
        assert_eq!(said("/a -x label"), "contexts:3: type \"-x\" is not one of -- -d -b -c -l -p -s");
        assert!(said("/a( label").contains("unclosed group"));
        assert!(said("/a(?=b) label").contains("look-around"));
    }
}
