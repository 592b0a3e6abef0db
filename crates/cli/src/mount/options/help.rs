//! The list of options in `segno mount --help`.
use super::table;
use segno_clean::policy::POLICIES;

const WIDTH: usize = 100;
/// Column at which descriptions begin.
const INDENT: usize = 28;

/// All options with their defaults.
pub fn text() -> String {
    let mut out = String::new();
    for group in &table::GROUPS {
        out += group.title;
        out += ":\n";
        for option in group.options() {
            out += &entry(&option.syntax, &format!("{} [{}]", option.help, option.default));
        }
        out += "\n";
    }
    out += "Cleaning policies (gc_policy=POLICY):\n";
    for policy in &POLICIES {
        out += &entry(&policy.syntax(), policy.help);
    }
    out += "\nOptions of the kernel's F2FS and of fstab that are not listed are accepted without effect or refused with advice; \
            docs/mount-options.md, or segno(5), has them all.\n";
    out += "\nDefaults are in brackets. Of repeated options the last one wins.";
    out
}

/// One row: the syntax, then, from a fixed column, the description.
pub fn entry(syntax: &str, help: &str) -> String {
    let head = format!("  {syntax}");
    let room = INDENT.checked_sub(head.len()).filter(|r| *r >= 2);
    match room {
        Some(room) => head + &" ".repeat(room) + paragraph(help).trim_start(),
        None => head + "\n" + &paragraph(help),
    }
}

/// Text from a fixed column on, in lines of limited width.
pub fn paragraph(text: &str) -> String {
    let (mut out, mut column) = (" ".repeat(INDENT), INDENT);
    for word in text.split(' ') {
        if column > INDENT && column + word.len() > WIDTH {
            out = out.trim_end().to_owned() + "\n" + &" ".repeat(INDENT);
            column = INDENT;
        }
        out += word;
        out.push(' ');
        column += word.len() + 1;
    }
    out.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_have_a_line_of_their_own() {
        assert_eq!(entry("ro", "mount"), format!("  ro{}mount\n", " ".repeat(24)));
        let name = "n".repeat(27);
        assert_eq!(entry(&name, "x"), format!("  {name}\n{}x\n", " ".repeat(28)));
        assert!(paragraph(&"word ".repeat(60)).lines().all(|l| l.len() <= WIDTH && l.starts_with("    ")));
    }
}
