//! Changes of permission bits in the language of chmod(1): octal, or symbolic as `u+x,go=r`.
//!
//! The standard library has no parser of it, and crates for it (`file-mode`, `umask`) leave out parts as `X`, `u=g` or the set-ID bits of
//! directories.

const SET_ID: u32 = 0o6000;
const ALL: u32 = 0o7777;
const X: u32 = 0o111;
/// Bits that `+w` without a letter before it leaves unchanged. The process's umask does not apply: the users
/// of the volume are not those of the process.
pub const UMASK: u32 = 0o022;

/// A change of permission bits.
#[derive(Clone, Debug)]
pub struct ModeChange(Vec<Step>);

#[derive(Clone, Debug)]
struct Step {
    /// Bits that the letters before the operator stand for; none if there are no letters.
    who: u32,
    op: u8,
    value: u32,
    /// Set-ID bits that the step names. A directory keeps the ones that it does not name.
    named: u32,
    /// Letters that depend on the file.
    of_file: OfFile,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum OfFile {
    Nothing,
    /// `X`: execution for directories and for files with any execute bit.
    Execution,
    /// `u`, `g`, `o` after the operator: the bits of these.
    Copied,
}

impl ModeChange {
    /// The new bits of a file or directory.
    pub fn apply(&self, mode: u32, is_dir: bool) -> u32 {
        self.0.iter().fold(mode & ALL, |mode, step| step.apply(mode, is_dir))
    }

    fn octal(digits: &str) -> Option<(u32, u32)> {
        let mode = u32::from_str_radix(digits, 8).ok().filter(|&m| m <= ALL)?;
        // With leading zeros it names all bits.
        Some((mode, if digits.len() < 5 { mode & SET_ID } else { SET_ID }))
    }
}

impl Step {
    fn apply(&self, mode: u32, is_dir: bool) -> u32 {
        let kept = if is_dir { SET_ID & !self.named } else { 0 };
        let value = match self.of_file {
            OfFile::Copied => {
                [0o444, 0o222, 0o111].into_iter().filter(|bits| mode & self.value & bits != 0).sum()
            }
            OfFile::Execution if is_dir || mode & X != 0 => self.value | X,
            _ => self.value,
        };
        let value = value & if self.who == 0 { !UMASK } else { self.who } & !kept;
        match self.op {
            b'+' => mode | value,
            b'-' => mode & !value,
            _ => mode & (kept | if self.who == 0 { 0 } else { !self.who }) | value,
        }
    }
}

impl std::str::FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no mode; examples: 644, u+x, go=r, a-w, u=rwX,g=u,o=");
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let (value, named) = Self::octal(text).ok_or_else(bad)?;
            return Ok(Self(vec![Step { who: ALL, op: b'=', value, named, of_file: OfFile::Nothing }]));
        }
        let clauses = text.split(',').map(clause).collect::<Option<Vec<_>>>();
        Ok(Self(clauses.ok_or_else(bad)?.concat()))
    }
}

/// Letters of users, and operators with permissions.
fn clause(text: &str) -> Option<Vec<Step>> {
    let begins = text.find(['+', '-', '='])?;
    let (letters, mut rest) = text.split_at(begins);
    let who = letters.chars().try_fold(0, |all, c| Some(all | who(c)?))?;
    let mut steps = Vec::new();
    while let Some(&op) = rest.as_bytes().first() {
        let end = rest.get(1..)?.find(['+', '-', '=']).map_or(rest.len(), |n| n + 1);
        steps.push(step(who, op, rest.get(1..end)?)?);
        rest = rest.get(end..)?;
    }
    Some(steps)
}

fn who(letter: char) -> Option<u32> {
    match letter {
        'u' => Some(0o4700),
        'g' => Some(0o2070),
        'o' => Some(0o1007),
        'a' => Some(ALL),
        _ => None,
    }
}

fn step(who_bits: u32, op: u8, permissions: &str) -> Option<Step> {
    let step = |value, named, of_file| Step { who: who_bits, op, value, named, of_file };
    if permissions.starts_with(|c: char| c.is_ascii_digit()) {
        // Octal digits stand for all bits themselves.
        let (value, _) = ModeChange::octal(permissions).filter(|_| who_bits == 0)?;
        return Some(Step { who: ALL, op, value, named: SET_ID, of_file: OfFile::Nothing });
    }
    if let "u" | "g" | "o" = permissions {
        return Some(step(permissions.chars().next().and_then(who)? & 0o777, 0, OfFile::Copied));
    }
    let of_file = if permissions.contains('X') { OfFile::Execution } else { OfFile::Nothing };
    let value = permissions.chars().try_fold(0, |all, c| Some(all | bits(c)?))?;
    let named = if who_bits == 0 { value } else { value & who_bits };
    Some(step(value, named & SET_ID, of_file))
}

fn bits(letter: char) -> Option<u32> {
    match letter {
        'r' => Some(0o444),
        'w' => Some(0o222),
        'x' => Some(X),
        'X' => Some(0),
        's' => Some(SET_ID),
        't' => Some(0o1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, metadata, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// chmod(1) is the judge: each change on files and directories of several modes.
    #[test]
    fn changes_do_what_chmod_does() {
        let dir = tempfile::tempdir().unwrap();
        let (file, sub) = (dir.path().join("file"), dir.path().join("dir"));
        write(&file, "").unwrap();
        create_dir(&sub).unwrap();
        let changes = [
            "644",
            "0",
            "7777",
            "00755",
            "02755",
            "2755",
            "u+x",
            "+x",
            "+w",
            "=r",
            "a=rwx",
            "go=",
            "g=u",
            "o=g",
            "u+s",
            "g+s",
            "+t",
            "o+t",
            "a+X",
            "-r",
            "u-x,g+w",
            "u=rwX,g=rX,o=",
            "u=rw+x-w",
            "g=",
            "ug=s",
            "=",
            "+u",
            "a-s",
            "o-t",
            "=755",
            "+20",
            "-04000",
            "u=g,g=o,o=u",
            "a=X",
            "uo+st",
        ];
        let modes = [0o644, 0o755, 0, 0o7777, 0o4711, 0o2070, 0o1222, 0o600];
        for change in changes {
            let ours: ModeChange = change.parse().unwrap();
            for mode in modes {
                for (path, is_dir) in [(&file, false), (&sub, true)] {
                    set_permissions(path, Permissions::from_mode(mode)).unwrap();
                    let script = "umask 022; exec chmod -- \"$@\"";
                    let mut chmod = Command::new("sh");
                    // It fails, having changed the mode, where the umask kept bits that were to go.
                    chmod.args(["-c", script, "sh", change]).arg(path).output().unwrap();
                    let theirs = metadata(path).unwrap().permissions().mode() & ALL;
                    let found = ours.apply(mode, is_dir);
                    assert_eq!(
                        format!("{found:o}"),
                        format!("{theirs:o}"),
                        "{change} of {mode:o}, directory: {is_dir}"
                    );
                }
            }
        }
    }

    #[test]
    fn other_words_are_no_modes() {
        for text in ["", "8", "77777", "u", "x", "u+y", "z+x", "u+x,", "u=g+", "0x1", "u+7", "+ug"] {
            let (ours, dir) = (text.parse::<ModeChange>().is_ok(), tempfile::tempdir().unwrap());
            let theirs = Command::new("chmod").args(["--", text]).arg(dir.path()).output().unwrap();
            assert_eq!(ours, theirs.status.success(), "{text:?}");
        }
    }
}
