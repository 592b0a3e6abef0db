//! Lines of commands, split into words as by a POSIX shell, with patterns of names.
//!
//! Crates that split words (`shlex`, `shell-words`) do not report which characters were quoted, so that `rm
//! '*'` and `rm *` give the same result.
use anyhow::{Context, Result, bail};
use glob::{MatchOptions, Pattern};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A word: each byte, and whether it was quoted.
pub type Word = Vec<(u8, bool)>;

/// Characters for which other shells have a meaning that this one lacks.
const OTHERS: &[u8] = b"|&<>()`$";

/// As bash matches names: a dot at the beginning is written out.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The commands of a line, which `;` separates. `#` begins a comment.
pub fn commands(line: &[u8]) -> Result<Vec<Vec<Word>>> {
    let mut splitter = Splitter::new(line);
    splitter.read()?;
    splitter.end_command();
    splitter.commands.retain(|words| !words.is_empty());
    Ok(splitter.commands)
}

/// The words of a line, also of one that is not complete.
pub struct Splitter<'a> {
    line: &'a [u8],
    at: usize,
    /// The commands with their complete words.
    commands: Vec<Vec<Word>>,
    /// The word at the end, and where it begins.
    last: Option<(usize, Word)>,
}

impl<'a> Splitter<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0, commands: vec![Vec::new()], last: None }
    }

    /// The complete words of the last command, and the word at the end with its place, which may be empty.
    pub fn at_end(mut self) -> (Vec<Word>, usize, Word) {
        // A quotation that has no end yet is completed, too.
        let _unfinished = self.read();
        let (start, word) = self.last.unwrap_or((self.line.len(), Word::new()));
        (self.commands.pop().unwrap_or_default(), start, word)
    }

    fn read(&mut self) -> Result<()> {
        while let Some(byte) = self.next() {
            let start = self.at - 1;
            match byte {
                b';' | b'\n' => self.end_command(),
                b' ' | b'\t' | b'\r' => self.end_word(),
                b'#' if self.last.is_none() => return Ok(()),
                b'\'' => self.single(start)?,
                b'"' => self.double(start)?,
                b'$' if self.line.get(self.at) == Some(&b'\'') => {
                    self.at += 1;
                    self.with_escapes(start)?;
                }
                b'\\' => {
                    let literal = self.next().filter(|&byte| byte != b'\n');
                    let literal = literal.context("nothing follows the backslash at the end of the line")?;
                    self.word(start).push((literal, true));
                }
                other if OTHERS.contains(&other) => no_meaning(other)?,
                other => self.word(start).push((other, false)),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.line.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn within(&mut self, mark: char) -> Result<u8> {
        self.next().with_context(|| format!("the quotation that {mark} begins has no end"))
    }

    /// The word that is being read; begins one at `start` if there is none.
    fn word(&mut self, start: usize) -> &mut Word {
        &mut self.last.get_or_insert_with(|| (start, Word::new())).1
    }

    fn end_word(&mut self) {
        if let (Some((_, word)), Some(words)) = (self.last.take(), self.commands.last_mut()) {
            words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.commands.push(Vec::new());
    }

    fn single(&mut self, start: usize) -> Result<()> {
        self.word(start);
        loop {
            match self.within('\'')? {
                b'\'' => return Ok(()),
                byte => self.word(start).push((byte, true)),
            }
        }
    }

    fn double(&mut self, start: usize) -> Result<()> {
        self.word(start);
        loop {
            let byte = match self.within('"')? {
                b'"' => return Ok(()),
                b'\\' if self.line.get(self.at).is_some_and(|next| b"\"\\$`".contains(next)) => {
                    self.within('"')?
                }
                byte @ (b'$' | b'`') => return no_meaning(byte),
                byte => byte,
            };
            self.word(start).push((byte, true));
        }
    }

    /// The quotation `$'…'`, in which names are shown that a terminal would obey.
    fn with_escapes(&mut self, start: usize) -> Result<()> {
        self.word(start);
        loop {
            let byte = match self.within('\'')? {
                b'\'' => return Ok(()),
                b'\\' => self.escape()?,
                byte => byte,
            };
            self.word(start).push((byte, true));
        }
    }

    fn escape(&mut self) -> Result<u8> {
        Ok(match self.within('\'')? {
            b'a' => 7,
            b'b' => 8,
            b'e' => 27,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'x' => self.digits(16, 2)?,
            b'0'..=b'7' => {
                self.at -= 1;
                self.digits(8, 3)?
            }
            byte @ (b'\\' | b'\'' | b'"' | b'?') => byte,
            other => bail!("\\{} is no escape", char::from(other)),
        })
    }

    fn digits(&mut self, radix: u32, most: usize) -> Result<u8> {
        let rest = self.line.get(self.at..).unwrap_or_default();
        let digits: Vec<u32> = rest.iter().take(most).map_while(|&b| char::from(b).to_digit(radix)).collect();
        self.at += digits.len();
        let value = digits.iter().fold(0, |all, digit| all * radix + digit);
        u8::try_from(value)
            .ok()
            .filter(|_| !digits.is_empty())
            .context("an escape without its digits, or above \\377")
    }
}

fn no_meaning(byte: u8) -> Result<()> {
    bail!("{0} has no meaning here: a name that has it is quoted, as '{0}'", char::from(byte))
}

/// The bytes of a word.
pub fn plain(word: &[(u8, bool)]) -> OsString {
    OsString::from_vec(word.iter().map(|(byte, _)| *byte).collect())
}

/// A name in a directory.
pub struct Name {
    pub name: OsString,
    pub is_dir: bool,
}

/// The paths that a word stands for, in the order of their bytes: the names that match it, or the word
/// itself. `names` lists a directory.
pub fn expand(word: &[(u8, bool)], names: impl Fn(&Path) -> Vec<Name>) -> Vec<OsString> {
    let parts: Vec<&[(u8, bool)]> = word.split(|(byte, _)| *byte == b'/').collect();
    let mut found =
        vec![PathBuf::from(if word.first().is_some_and(|(byte, _)| *byte == b'/') { "/" } else { "" })];
    let mut matched = false;
    for (i, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        let only_dirs = i + 1 < parts.len();
        let (literal, pattern) = (plain(part), pattern(part));
        let fits = |name: &Name| match &pattern {
            Some(pattern) => pattern.matches_with(&name.name.to_string_lossy(), MATCHING),
            None => name.name == literal,
        };
        if pattern.is_none() && (!matched || literal == "." || literal == "..") {
            found = found.into_iter().map(|dir| dir.join(&literal)).collect();
            continue;
        }
        matched = true;
        let within = |dir: &PathBuf| {
            let fitting = names(dir).into_iter().filter(|name| fits(name) && (name.is_dir || !only_dirs));
            fitting.map(|name| dir.join(name.name)).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(within).collect();
    }
    if !matched || found.is_empty() {
        return vec![plain(word)];
    }
    let mut found: Vec<OsString> = found.iter().map(|path| operand(path)).collect();
    found.sort();
    found
}

/// A path as an operand, which is neither an option nor the number of an inode.
pub fn operand(path: &Path) -> OsString {
    let is_special = matches!(path.as_os_str().as_bytes(), [b'-' | b'#', ..]);
    if is_special { Path::new(".").join(path).into() } else { path.into() }
}

/// The pattern that a part of a path is, if it is one.
fn pattern(part: &[(u8, bool)]) -> Option<Pattern> {
    part.iter().find(|(byte, quoted)| !quoted && b"*?[".contains(byte))?;
    let mut text = Vec::new();
    for &(byte, quoted) in part {
        match byte {
            b'*' if !quoted && text.last() == Some(&b'*') => {}
            b'*' | b'?' | b'[' | b']' if quoted => text.extend([b'[', byte, b']']),
            byte => text.push(byte),
        }
    }
    Pattern::new(&String::from_utf8_lossy(&text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn names(dir: &Path) -> Vec<Name> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|e| Name { name: e.file_name(), is_dir: e.path().is_dir() }).collect()
    }

    /// bash is the judge, in a directory with these names.
    #[test]
    fn words_are_those_of_bash() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "a",
            "b c",
            "x.txt",
            "y.txt",
            "*",
            "[a]",
            ".hidden",
            "q'uote",
            "sub/one.txt",
            "sub/two",
            "sub2/one.txt",
            "\u{e4}",
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let lines = [
            "one  two\tthree",
            "'a b' \"c d\" e\\ f",
            "a'b'\"c\"d",
            "'' \"\"",
            "\"a\\\"b\\\\c\\n\"",
            "$'a\\x1b[2J\\'\\\\\\101\\n'",
            "a#b # comment",
            "*",
            "*.txt",
            "?",
            "[xy].txt",
            "[!x].txt",
            "'*'",
            "\\*",
            "\"*\".txt",
            "**",
            "sub/*",
            "*/one.txt",
            "*/",
            "*/*",
            ".*idden",
            "none*",
            "[a]",
            "'['a]",
            "[",
            "sub*/../a",
            "./*.txt",
            "x\\.tx*",
            "'b c'*",
            "?*c",
            "[a-y].txt",
        ];
        for line in lines {
            let script = format!("LC_ALL=C.UTF-8; cd \"$0\"; printf '%s\\0' {line}");
            let bash = Command::new("bash")
                .args(["-c", &script])
                .arg(dir.path())
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            let mut theirs: Vec<&[u8]> = bash.stdout.split(|&b| b == 0).collect();
            theirs.pop();
            let listed = |path: &Path| names(&dir.path().join(path));
            let words: Vec<OsString> = commands(line.as_bytes())
                .unwrap()
                .concat()
                .iter()
                .flat_map(|word| expand(word, listed))
                .collect();
            // bash keeps a final slash, which restricts the pattern to directories.
            let ours: Vec<Vec<u8>> = words.iter().map(|w| w.as_bytes().to_vec()).collect();
            let theirs: Vec<Vec<u8>> =
                theirs.iter().map(|w| w.strip_suffix(b"/").unwrap_or(w).to_vec()).collect();
            assert_eq!(ours, theirs, "{line}");
        }
    }

    #[test]
    fn what_other_shells_do_is_refused_and_not_taken_for_a_name() {
        for line in [
            "a | b",
            "a > b",
            "a &",
            "$HOME",
            "\"$HOME\"",
            "`a`",
            "(a)",
            "'a",
            "\"a",
            "a\\",
            "a \\\n",
            "$'\\z'",
            "$'\\x'",
        ] {
            assert!(commands(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn commands_end_at_semicolons() {
        let counts = |line: &str| commands(line.as_bytes()).unwrap().iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(counts("ls; cat a b;;  # ; x"), [1, 3]);
        assert_eq!(counts("ls ';' \\;"), [3]);
        assert_eq!(counts("  # nothing"), [0; 0]);
    }

    #[test]
    fn names_from_a_pattern_are_no_options() {
        let list = |_: &Path| ["-rf", "#5", "a"].map(|n| Name { name: n.into(), is_dir: false }).into();
        let words = commands(b"*").unwrap().concat();
        assert_eq!(expand(&words[0], list), ["./#5", "./-rf", "a"]);
    }
}
