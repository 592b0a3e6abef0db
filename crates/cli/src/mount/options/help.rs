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
        for option in group.options {
            out += &entry(&option.syntax(), &format!("{} [{}]", option.help, option.default));
        }
        out += "\n";
    }
    out += "Cleaning policies (gc_policy=POLICY):\n";
    for policy in &POLICIES {
        out += &entry(&policy.syntax(), policy.help);
    }
    out += "\nAccepted without effect:\n";
    for ignored in &table::IGNORED {
        out += &entry(ignored.reason, &ignored.words.join(", "));
    }
    out += "\nDefaults are in brackets. Of repeated options the last one wins.";
    out
}

/// One row: what is written, then, from a fixed column, what it does.
pub fn entry(syntax: &str, help: &str) -> String {
    let mut out = format!("  {syntax}");
    let mut column = out.len();
    if column + 2 > INDENT {
        out.push('\n');
        column = 0;
    }
    out += &" ".repeat(INDENT - column);
    column = INDENT;
    for word in help.split(' ') {
        if column > INDENT && column + word.len() > WIDTH {
            out = out.trim_end().to_owned() + "\n" + &" ".repeat(INDENT);
            column = INDENT;
        }
        out += word;
        out.push(' ');
        column += word.len() + 1;
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
