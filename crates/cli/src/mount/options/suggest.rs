//! The option that a misspelled word may mean.
use super::table;

/// The closest option, as it is written, if it differs in a few letters only.
pub fn closest(name: &str) -> Option<String> {
    let candidates = table::all().flat_map(|o| {
        let names = [Some(o.name.to_owned()), o.opposite()];
        names.into_iter().flatten().map(|n| (n, o.syntax()))
    });
    let measured = candidates.map(|(known, syntax)| (distance(name, &known), syntax));
    measured
        .filter(|(d, _)| *d <= name.len() / 4 + 1 && *d < name.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, s)| s)
}

/// Insertions, deletions and substitutions that make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for x in a.bytes() {
        let mut left = row.first().map_or(0, |n| n + 1);
        let mut next = vec![left];
        for (y, pair) in b.bytes().zip(row.windows(2)) {
            let [diagonal, above] = pair else { continue };
            left = (above + 1).min(left + 1).min(diagonal + usize::from(x != y));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        for (a, b, d) in
            [("", "abc", 3), ("cache", "cache", 0), ("cahce", "cache", 2), ("comit", "commit", 1)]
        {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(closest("cahce").as_deref(), Some("cache=SIZE|/DIR"));
        assert_eq!(
            closest("nodiscrad").as_deref(),
            Some("[no]discard, discard=now|after:TIME|after:SIZE|never")
        );
        for unknown in ["sparkle", "remount", "x", ""] {
            assert_eq!(closest(unknown), None, "{unknown}");
        }
    }
}
