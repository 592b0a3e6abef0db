//! The option that a misspelled word may mean.
use super::table;
use strsim::levenshtein;

/// The closest option, as it is written, if it differs in a few letters only.
pub fn closest(name: &str) -> Option<String> {
    let candidates = table::all().flat_map(|o| {
        let names = [Some(o.name.to_owned()), o.opposite];
        names.into_iter().flatten().map(move |n| (n, o.syntax.clone()))
    });
    let measured = candidates.map(|(known, syntax)| (levenshtein(name, &known), syntax));
    measured
        .filter(|(d, _)| *d <= name.len() / 4 + 1 && *d < name.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, s)| s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(closest("cahce").as_deref(), Some("cache=SIZE"));
        assert_eq!(
            closest("nodiscrad").as_deref(),
            Some("[no]discard, discard=now|after:TIME|after:SIZE|never")
        );
        for unknown in ["sparkle", "remount", "x", ""] {
            assert_eq!(closest(unknown), None, "{unknown}");
        }
    }
}
