//! The language of man(7).
use super::facts::Entries;
use crate::command_line::VERSION;

/// The first line of a page.
pub fn title(name: &str, section: u8, date: &str, manual: &str) -> String {
    format!(".TH {} {section} \"{date}\" \"segno {VERSION}\" \"{manual}\"\n", roff(&name.to_uppercase()))
}

/// Words, each with a paragraph.
pub fn listed(entries: &Entries) -> String {
    let entry = |(word, text): &(String, String)| format!(".TP\n\\fB{}\\fR\n{}\n", roff(word), roff(text));
    entries.iter().map(entry).collect()
}

/// Text that troff prints unchanged.
pub fn roff(text: &str) -> String {
    let escape = |c: char| match c {
        '\\' => "\\e".into(),
        '-' => "\\-".into(),
        '\'' => "\\(aq".into(),
        '`' => "\\(ga".into(),
        '^' => "\\(ha".into(),
        '~' => "\\(ti".into(),
        '…' => "...".into(),
        c if c.is_ascii() => c.to_string(),
        c => format!("\\[u{:04X}]", u32::from(c)),
    };
    let escaped: String = text.chars().map(escape).collect();
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}
