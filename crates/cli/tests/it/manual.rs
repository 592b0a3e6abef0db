//! The manual pages: their sections, the options they name, and the warnings of mandoc.
use segno_cli::manual::Page;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// All pages.
pub fn pages() -> Vec<Page> {
    segno_cli::manual::pages(segno_cli::command_line(), "2024-01-15")
}

/// The headings of a page, in order, with their text.
fn sections(page: &Page) -> Vec<(&str, &str)> {
    page.text.split("\n.SH ").skip(1).filter_map(|section| section.split_once('\n')).collect()
}

fn section<'p>(page: &'p Page, heading: &str) -> &'p str {
    sections(page).into_iter().find(|(h, _)| *h == heading).map(|(_, text)| text).unwrap_or_default()
}

/// Words in bold that begin an entry.
fn entries(text: &str) -> BTreeSet<&str> {
    text.split(".TP\n\\fB").skip(1).filter_map(|entry| entry.split("\\fR").next()).collect()
}

#[test]
fn every_page_has_its_sections_in_order() {
    let order = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "COMMANDS",
        "SETTINGS",
        "EXIT STATUS",
        "FILES",
        "ENVIRONMENT",
        "EXAMPLES",
        "BUGS",
        "SEE ALSO",
    ];
    let pages = pages();
    assert!(pages.len() > 30);
    for page in pages.iter().filter(|page| page.section != 5) {
        let found: Vec<&str> = sections(page).into_iter().map(|(heading, _)| heading).collect();
        let known: Vec<&str> = order.into_iter().filter(|h| found.contains(h)).collect();
        assert_eq!(found, known, "{}", page.name);
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "BUGS", "SEE ALSO"] {
            assert!(!section(page, heading).trim().is_empty(), "{} has no {heading}", page.name);
        }
        assert!(section(page, "NAME").contains(" \\- "), "{}", page.name);
        let synopsis = section(page, "SYNOPSIS");
        assert!(!synopsis.contains("[\\fB") && !synopsis.contains(" ]"), "{}: {synopsis}", page.name);
    }
}

/// The page names the codes of success, of a wrong command line, and of each kind of failure that the command is made to have.
#[test]
fn every_exit_code_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let link = |name: &str| {
        let program = dir.path().join(name);
        let _there = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_segno"), &program);
        program
    };
    for page in pages().iter().filter(|page| page.section != 5) {
        let named = entries(section(page, "EXIT STATUS"));
        let mut command = match page.name.strip_prefix("segno-") {
            Some(name) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
                command.arg(name);
                command
            }
            None => Command::new(link(&page.name)),
        };
        let code = command.arg("--no-such-option").output().unwrap().status.code().unwrap();
        for code in [0, code] {
            assert!(
                named.contains(code.to_string().as_str()),
                "{}: {code} is not among {named:?}",
                page.name
            );
        }
        let all: BTreeSet<&str> = match page.name.as_str() {
            "segno-check" | "fsck.segno" => ["0", "1", "2", "4", "8", "16", "32", "141"].into(),
            "mount.segno" => ["0", "1"].into(),
            _ => ["0", "1", "2", "141"].into(),
        };
        assert_eq!(named, all, "{}", page.name);
    }
}

/// Pages of Segno that are referred to exist.
#[test]
fn references_lead_to_pages() {
    let pages = pages();
    let names: BTreeSet<String> = pages.iter().map(|p| format!("{}({})", p.name, p.section)).collect();
    for page in pages.iter().filter(|page| page.section != 5) {
        let text = section(page, "SEE ALSO").replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
        let see: Vec<&str> = text.trim().split(", ").collect();
        assert!(page.name == "segno" || see[0] == "segno(1)", "{}: {see:?}", page.name);
        for other in see.iter().filter(|p| p.contains("segno") && **p != "segno-lab(1)") {
            assert!(names.contains(*other), "{} refers to {other}", page.name);
        }
    }
}

/// Options of every command are on its page, and so are those of the commands of `journal` and `sparse`.
#[test]
fn options_are_on_the_pages() {
    let pages = pages();
    let page = |name: &str| &pages.iter().find(|p| p.name == name).unwrap().text;
    for command in segno_cli::command_line().get_subcommands() {
        let text = page(&format!("segno-{}", command.get_name()));
        let below = command.get_subcommands().flat_map(|c| c.get_arguments());
        for long in
            command.get_arguments().chain(below).filter(|a| !a.is_hide_set()).filter_map(|a| a.get_long())
        {
            let option = format!("--{long}").replace('-', "\\-");
            assert!(text.contains(&option), "segno-{}: {option}", command.get_name());
        }
    }
}

/// Variables that the sources read.
fn variables(dir: &Path, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            variables(&path, found)?;
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let code = text.split("#[cfg(test)]").next().unwrap();
        for call in ["env::var(\"", "env::var_os(\""] {
            found.extend(code.split(call).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
    }
    Ok(())
}

#[test]
fn variables_of_the_environment_are_on_a_page() {
    let mut found = BTreeSet::new();
    for name in ["cli", "fuse", "virtiofs", "segno", "engine", "device"] {
        variables(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut found)
            .unwrap();
    }
    // A test writes documentation with it.
    found.remove("UPDATE_DOCS");
    assert!(found.contains("NO_COLOR"), "{found:?}");
    let all: String = pages().iter().map(|page| section(page, "ENVIRONMENT").to_owned()).collect();
    let missing: Vec<&String> = found.iter().filter(|name| !all.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn mandoc_warns_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for page in pages() {
        let path = dir.path().join(format!("{}.{}", page.name, page.section));
        fs::write(&path, page.text).unwrap();
        files.push(path);
    }
    files.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/segno-lab.1"));
    let out = Command::new("mandoc").args(["-Tlint", "-Wwarning"]).args(&files).output().unwrap();
    assert!(out.status.success() && out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stdout));
}
