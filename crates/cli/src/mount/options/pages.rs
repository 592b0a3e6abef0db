//! All mount options as sections of a manual page.
use super::foreign::{ALIASES, IGNORED, REFUSED};
use super::table::GROUPS;
use segno_clean::policy::POLICIES;

/// A heading, and words with their descriptions.
pub struct Section {
    pub title: &'static str,
    pub entries: Vec<(String, String)>,
}

pub fn sections() -> Vec<Section> {
    let mut all: Vec<Section> = GROUPS
        .iter()
        .map(|group| {
            let entry = |o: super::described::Described| (o.syntax, format!("{} [{}]", o.help, o.default));
            Section { title: group.title, entries: group.options().map(entry).collect() }
        })
        .collect();
    let list = |words: &str| words.replace(' ', ", ");
    let aliases = ALIASES.iter().map(|(alias, option)| ((*alias).to_owned(), format!("stands for {option}")));
    let ignored = IGNORED.iter().map(|i| (list(i.words), format!("{} ({})", i.reason, i.durability)));
    let refused = REFUSED.iter().map(|r| (list(r.words), r.advice.to_owned()));
    let policies = POLICIES.iter().map(|p| (p.syntax(), p.help.to_owned()));
    all.push(Section { title: "Aliases", entries: aliases.collect() });
    all.push(Section { title: "Accepted without effect", entries: ignored.collect() });
    all.push(Section { title: "Refused", entries: refused.collect() });
    all.push(Section { title: "Cleaning policies", entries: policies.collect() });
    all
}
