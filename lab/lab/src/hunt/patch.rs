//! Unified diffs: reading them, and applying them to text.
use anyhow::{Context, Result, bail, ensure};

/// The changes of one file.
pub struct FilePatch {
    /// Relative to the root of the sources.
    pub path: String,
    pub hunks: Vec<Hunk>,
}

pub struct Hunk {
    /// Line of the original at which it begins, from 0.
    at: usize,
    old: Vec<String>,
    new: Vec<String>,
}

/// The files that a patch changes. The text before the first one is ignored.
pub fn parse(text: &str) -> Result<Vec<FilePatch>> {
    let mut files: Vec<FilePatch> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("--- ") {
            let to = lines.next().and_then(|l| l.strip_prefix("+++ b/")).context("no line '+++ b/…'")?;
            files.push(FilePatch { path: to.to_owned(), hunks: Vec::new() });
        } else if let Some(ranges) = line.strip_prefix("@@ -") {
            let file = files.last_mut().context("a hunk without a file")?;
            file.hunks.push(hunk(ranges, &mut lines)?);
        }
    }
    ensure!(!files.is_empty(), "it changes no file");
    Ok(files)
}

fn hunk<'a>(ranges: &str, lines: &mut impl Iterator<Item = &'a str>) -> Result<Hunk> {
    let (from, to) = ranges.split_once(" +").context("a hunk without ranges")?;
    let to = to.split_once(" @@").context("a hunk without ranges")?.0;
    let ((at, mut old_left), (_, mut new_left)) = (range(from)?, range(to)?);
    let mut hunk = Hunk { at: at.saturating_sub(1), old: Vec::new(), new: Vec::new() };
    while old_left > 0 || new_left > 0 {
        let line = lines.next().context("a hunk is cut off")?;
        let (sign, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        if matches!(sign, " " | "-") {
            hunk.old.push(rest.to_owned());
            old_left = old_left.checked_sub(1).context("a hunk is longer than its range")?;
        }
        if matches!(sign, " " | "+") {
            hunk.new.push(rest.to_owned());
            new_left = new_left.checked_sub(1).context("a hunk is longer than its range")?;
        }
        ensure!(matches!(sign, " " | "-" | "+"), "a line of a hunk begins with '{sign}'");
    }
    Ok(hunk)
}

/// `FIRST,COUNT` or `FIRST`.
fn range(text: &str) -> Result<(usize, usize)> {
    let (first, count) = text.split_once(',').unwrap_or((text, "1"));
    Ok((first.parse()?, count.parse()?))
}

impl FilePatch {
    /// The text with all hunks applied. A hunk may have moved, but what it replaces must be there to the letter.
    pub fn apply(&self, text: &str) -> Result<String> {
        let mut lines: Vec<&str> = text.lines().collect();
        let mut moved = 0isize;
        for (number, hunk) in (1..).zip(&self.hunks) {
            let expected = hunk.at.saturating_add_signed(moved);
            let Some(at) = hunk.place(&lines, expected) else {
                bail!("hunk {number} does not apply to {}", self.path);
            };
            lines.splice(at..at + hunk.old.len(), hunk.new.iter().map(String::as_str));
            moved = at as isize - hunk.at as isize + hunk.new.len() as isize - hunk.old.len() as isize;
        }
        Ok(lines.iter().flat_map(|line| [line, "\n"]).collect())
    }
}

impl Hunk {
    /// Where the lines that it replaces are, nearest to a place.
    fn place(&self, lines: &[&str], expected: usize) -> Option<usize> {
        let fits = |at: &usize| {
            lines.get(*at..).is_some_and(|rest| {
                rest.len() >= self.old.len() && rest.iter().zip(&self.old).all(|(a, b)| a == b)
            })
        };
        (0..=lines.len()).filter(fits).min_by_key(|at| at.abs_diff(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "# about\n--- a/f\n+++ b/f\n@@ -2,2 +2,3 @@\n b\n-c\n+x\n+y\n@@ -5 +6,0 @@ fn\n-e\n";

    #[test]
    fn hunks_apply_where_their_lines_are() {
        let [file] = parse(PATCH).unwrap().try_into().unwrap_or_else(|_| panic!("one file"));
        assert_eq!(file.path, "f");
        assert_eq!(file.apply("a\nb\nc\nd\ne\n").unwrap(), "a\nb\nx\ny\nd\n");
        assert_eq!(file.apply("0\n0\na\nb\nc\nd\ne\n").unwrap(), "0\n0\na\nb\nx\ny\nd\n");
        let refused = file.apply("a\nb\nc\nd\n").unwrap_err().to_string();
        assert_eq!(refused, "hunk 2 does not apply to f");
    }

    #[test]
    fn a_new_file_comes_from_nothing() {
        let files = parse("--- /dev/null\n+++ b/g\n@@ -0,0 +1,2 @@\n+a\n+b\n").unwrap();
        assert_eq!(files[0].apply("").unwrap(), "a\nb\n");
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        for text in ["", "--- a/f\n", "@@ -1 +1 @@\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
