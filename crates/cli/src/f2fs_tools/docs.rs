//! docs/f2fs-tools.md, rendered from the tables and compared with the file. `UPDATE_DOCS=1 cargo test -p segno-cli docs` writes the
//! file.
use super::PROGRAMS;
use super::tool::{Effect, Row};
use crate::commands::install_helper::NAMES;

const INTRODUCTION: &str = "\
# Options of f2fs-tools

Generated from the tables in crates/cli/src/f2fs_tools/table.rs; a test compares. To write it: `UPDATE_DOCS=1 cargo test -p segno-cli docs`.

What the options of f2fs-tools do where [Segno is called by their names](guide/f2fs-tools.md). The last one of repeated options counts, except
for `-O` and `-c` of mkfs.f2fs, `-i` and `-x` of sload.f2fs.
";

fn render() -> String {
    let mut out = INTRODUCTION.to_owned();
    for tool in PROGRAMS.iter().map(|program| &program.tool) {
        let also = tool.of_android.map_or(String::new(), |name| format!("Also `{name}`.\n\n"));
        out += &format!("\n## {}\n\n{also}| option | effect |\n|---|---|\n", tool.name);
        for row in tool.options {
            out += &format!("| `{}{}` | {} |\n", row.shown(), if row.value { " …" } else { "" }, effect(row));
        }
    }
    out
}

fn effect(row: &Row) -> String {
    match row.effect {
        Effect::Same | Effect::Each | Effect::Own | Effect::Level => "as in f2fs-tools".into(),
        Effect::Nothing => "accepted; changes nothing here".into(),
        Effect::Only(values, why) => format!("{} only: {why}", values.join(", ")),
        Effect::Refused(why) => format!("refused: {why}"),
    }
}

#[test]
fn the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/f2fs-tools.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, render()).unwrap();
    }
    let current = std::fs::read_to_string(path).unwrap_or_default() == render();
    assert!(current, "docs/f2fs-tools.md differs: UPDATE_DOCS=1 cargo test -p segno-cli docs");
}

#[test]
fn all_names_are_linked() {
    let names: Vec<&str> = PROGRAMS.iter().flat_map(|program| program.tool.names()).collect();
    assert_eq!(names, NAMES);
    let packaged = include_str!("../../../../packaging/f2fs-compat/names");
    assert_eq!(packaged.lines().collect::<Vec<_>>(), NAMES);
}
