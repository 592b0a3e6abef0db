//! docs/mount-options.md, rendered from the tables and compared with the file. `UPDATE_DOCS=1 cargo test -p segno-cli docs`
//! writes the file.
use super::foreign::{self, ALIASES, IGNORED, IGNORED_PREFIXES, REFUSED};
use super::table::GROUPS;
use super::{Settings, table};
use crate::commands::ctl::SETTINGS;
use segno_clean::policy::POLICIES;
use std::collections::BTreeSet;

const INTRODUCTION: &str = "\
# Mount options

Generated from the tables in crates/engine/src/options/table.rs, crates/fuse/src/options/table.rs, crates/cli/src/mount/options/table.rs and foreign.rs,
crates/clean/src/policy/mod.rs and crates/cli/src/commands/ctl.rs; a test compares. To write it: `UPDATE_DOCS=1 cargo test -p segno-cli docs`.

`segno mount -o OPTION,… IMAGE DIR`, or the fourth field of fstab. Of repeated options the last one wins. Unknown options are
errors. All options of the kernel's F2FS up to Linux 7.3 are below: as options, aliases, words without effect, or refusals.
`segno mount -v` names the ones that were given and have no effect.
";

fn render() -> String {
    let mut out = INTRODUCTION.to_owned();
    for group in &GROUPS {
        let rows = group.options().map(|o| [code(&o.syntax), code_or_prose(o.default), o.help.into()]);
        out += &section(group.title, ["option", "default", "effect"], rows);
    }
    let rows = ALIASES.iter().map(|(alias, option)| [code(alias), code(option)]);
    out += &section("Aliases", ["option", "stands for"], rows);
    let mut rows: Vec<_> =
        IGNORED.iter().map(|i| [i.reason.into(), list(i.words), i.durability.into()]).collect();
    let comments = format!("all that begin with {}", list(&IGNORED_PREFIXES.join(" ")));
    rows.push(["comments of fstab".into(), comments, "they are not read".into()]);
    out += &section("Accepted without effect", ["reason", "options", "why a crash loses no more"], rows);
    let rows = REFUSED.iter().map(|r| [list(r.words), r.advice.into()]);
    out += &section("Refused", ["option", "instead"], rows);
    let rows = POLICIES.iter().map(|p| [code(&p.syntax()), p.help.into()]);
    out += &section("Cleaning policies", ["`gc_policy=`", "victim"], rows);
    let rows = SETTINGS.iter().map(|s| [code(&format!("{}={}", s.name, s.values)), s.help.into()]);
    out += &section("Settings of a live mount", ["`segno ctl DIR …`", "effect"], rows);
    out += "\nAll users may read them. A change needs CAP_SYS_ADMIN, or is by the user of a server that is not root's \
            ([rules](../SECURITY.md#callers-of-a-mount)).\n";
    out
}

fn section<const N: usize>(
    title: &str,
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: String = rows.into_iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    format!("\n## {title}\n\n| {} |\n|{}\n{rows}", heads.join(" | "), "---|".repeat(N))
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// A default is a value or, with a space in it, a description.
fn code_or_prose(text: &str) -> String {
    if text.contains(' ') { text.to_owned() } else { code(text) }
}

fn list(words: &str) -> String {
    words.split(' ').map(code).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mount-options.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, render()).unwrap();
    }
    let current = std::fs::read_to_string(path).unwrap_or_default() == render();
    assert!(current, "docs/mount-options.md differs: UPDATE_DOCS=1 cargo test -p segno-cli docs");
}

/// The documented defaults are those that the code uses without the option.
#[test]
fn documented_defaults_are_in_force() {
    let initial = format!("{:?}", Settings::new(false));
    let mut described = BTreeSet::new();
    for option in table::all() {
        let word = match (option.default, &option.opposite) {
            ("on", _) if option.syntax.starts_with("[no]") => option.name.to_owned(),
            ("off", None) if option.syntax == option.name => continue,
            (description, _) if description.contains(' ') => {
                described.insert(option.name);
                continue;
            }
            (value, _) => format!("{}={value}", option.name),
        };
        match Settings::parse(&[word], false) {
            // Naming the policy of the foreground chooses it for the background too.
            _ if option.name == "gc_policy" => {}
            Ok(mut settings) => {
                settings.compression.clear();
                settings.given.clear();
                assert_eq!(format!("{settings:?}"), initial, "{}", option.name);
            }
            Err(_) => _ = described.insert(option.name),
        }
    }
    let expected = "allow_other compress_extension dev device dirsync discard dmask exec fmask gid length log nocompress_extension \
         offset partition store_cache suid sync threads uid umask";
    assert_eq!(described.into_iter().collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn names_are_unique() {
    let names: Vec<String> =
        table::all().flat_map(|o| [Some(o.name.to_owned()), o.opposite]).flatten().collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let is_foreign =
        |n: &str| foreign::ignored(n).is_some() || foreign::advice(n).is_some() || foreign::resolve(n) != n;
    assert!(names.iter().all(|n| !is_foreign(n)));
}

#[test]
fn aliases_stand_for_options() {
    for (_, option) in ALIASES {
        assert!(Settings::parse(&[format!("ro,{option}")], false).is_ok(), "{option}");
    }
}
