//! The result folder: everything needed to review and repeat a run.
use crate::page;
use crate::report::Report;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The folder of figures.
const FIGURES: &str = "figures";

/// Writes the folder; files of an earlier run in it are replaced.
///
/// `report.json` and `report.html` contain everything, `report.md` all but the plots; `command.txt`, `job.json`, `machine.json` and `mkfs.txt` are parts of
/// it as plain text. `figures` has the tables and plots as CSV and SVG, and `results.csv` there all rows.
pub fn write(dir: &Path, report: &Report, document: &Value) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put("report.json", format!("{document:#}\n"))?;
    put("report.html", page::html(report))?;
    put("report.md", page::markdown(report))?;
    let figures = dir.join(FIGURES);
    remove_figures(&figures)?;
    fs::create_dir_all(&figures).with_context(|| format!("cannot make {}", figures.display()))?;
    for (name, text) in page::files(report)? {
        put(&format!("{FIGURES}/{name}"), text)?;
    }
    put(
        "command.txt",
        report.machine.command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ") + "\n",
    )?;
    put("job.json", format!("{:#}\n", Value::Object(report.config.clone())))?;
    put("machine.json", serde_json::to_string_pretty(&report.machine)? + "\n")?;
    put("mkfs.txt", report.mkfs.clone() + "\n")
}

/// Those of an earlier run, which may have had others.
fn remove_figures(dir: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|end| end == "csv" || end == "svg") {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::page::{Bar, Bars, Figure, Group, Lines, Series, Table};
    use serde_json::json;

    const ROWS: &str = r#"{ "type": "object", "required": ["name"] }"#;

    fn report() -> Report {
        let mut r = Report::new("demo", 7, &json!({ "files": 3 }), Machine::here(None)).unwrap();
        r.machine.commit = Some("0123abc".into());
        r.note_rounds("one", 3, 5);
        r.leave_out("two", "it failed");
        r.push(&json!({ "name": "<a&b>", "us": { "p50": 12.5 } })).unwrap();
        r.notes.push("a note".into());
        let groups = vec![Group {
            name: "g".into(),
            bars: vec![Some(Bar { value: 2.0, range: Some((1.0, 3.0)) }), None],
        }];
        let series = vec!["one".into(), "two".into()];
        r.figures = vec![
            Figure::Text { title: "t".into(), paragraphs: vec!["p".into()] },
            Figure::Table(Table {
                title: "T".into(),
                head: vec!["h".into(), "i".into()],
                rows: vec![vec!["1".into(), "a|b".into()]],
                note: "n".into(),
            }),
            Figure::Bars(Bars {
                title: "A, b".into(),
                groups,
                series,
                reference: Some(1.0),
                ..Bars::default()
            }),
            Figure::Lines(Lines {
                log_x: true,
                log_y: true,
                series: vec![Series { name: "s".into(), points: vec![(1.0, 10.0), (100.0, 1.0)] }],
                ..Lines::default()
            }),
        ];
        r.mkfs = "layout".into();
        r
    }

    #[test]
    fn the_folder_has_everything_and_the_page_stands_alone() {
        let dir = tempfile::tempdir().unwrap();
        let r = report();
        write(&dir.path().join("out"), &r, &r.to_json(ROWS).unwrap()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).unwrap();
        let document: Value = serde_json::from_str(&read("report.json")).unwrap();
        assert_eq!(document["results"][0]["us"]["p50"], 12.5);
        assert_eq!(document["config"]["files"], 3);
        let page = read("report.html");
        for part in [
            "a note",
            "us.p50",
            "12.5",
            "&lt;a&amp;b&gt;",
            "<svg",
            "prefers-color-scheme: dark",
            "layout",
            "commit 0123abc",
            "Seed 7",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""));
        assert!(!page.contains("://") && !page.contains("<script"), "the page needs nothing from elsewhere");
        let markdown = read("report.md");
        for part in [
            "# segno bench demo\n",
            "Seed 7.",
            "* a note\n",
            "## t\n\np\n",
            "## T\n\n| h | i |\n|---|---|\n| 1 | a\\|b |\n\nn\n",
        ] {
            assert!(markdown.contains(part), "{part}: {markdown}");
        }
        assert!(read("mkfs.txt").contains("layout") && !read("command.txt").trim().is_empty());
    }

    /// The judge is Python's parser of CSV and XML.
    #[test]
    fn figures_are_files_that_others_read() {
        const READ: &str = "
import csv, sys, xml.etree.ElementTree as tree
for row in csv.reader(open('03-a-b.csv')): print(row)
root = tree.parse('03-a-b.svg').getroot()
print(root.get('width'), root.tag, [t.text for t in root.iter() if t.tag.endswith('text')])
print([p.get('class') for p in root.iter() if p.tag.endswith('path')].count('one'))
";
        let dir = tempfile::tempdir().unwrap();
        let stale = dir.path().join("figures/09-stale.csv");
        fs::create_dir(dir.path().join("figures")).unwrap();
        fs::write(&stale, "").unwrap();
        let r = report();
        write(dir.path(), &r, &r.to_json(ROWS).unwrap()).unwrap();
        assert!(!stale.exists());
        let read = std::process::Command::new("python3")
            .args(["-c", READ])
            .current_dir(dir.path().join("figures"))
            .output()
            .unwrap();
        let said = String::from_utf8(read.stdout).unwrap() + &String::from_utf8_lossy(&read.stderr);
        for part in [
            "['group', 'series', 'value', 'least', 'greatest', 'unit']\n['g', 'one', '2', '1', '3', '']\n760 ",
            "'demo: A, b', 'one', 'two', ",
            "commit 0123abc; ",
            "Seed 7.",
            "]\n1\n",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let results = fs::read_to_string(dir.path().join("figures/results.csv")).unwrap();
        assert_eq!(results, "name,us.p50\n<a&b>,12.5\n");
    }

    #[test]
    fn runs_without_a_result_are_counted_with_their_reason() {
        let document = report().to_json(ROWS).unwrap();
        assert_eq!(document["left_out"].as_array().unwrap().len(), 3);
        let expected = [
            "Runs left out: 2, because the time of --quick was over: one, round 4 of 5; one, round 5 of 5. Rows with a result: 1.",
            "Runs left out: 1, because it failed: two. Rows with a result: 1.",
        ];
        assert_eq!(report().left_out(), expected);
        let text = page::text(&report());
        assert!(
            expected.iter().all(|line| text.contains(line) && page::html(&report()).contains(line)),
            "{text}"
        );
    }

    #[test]
    fn a_report_that_breaks_its_contract_is_not_written() {
        let mut r = report();
        assert!(r.to_json(r#"{ "required": ["other"] }"#).is_err());
        r.results.clear();
        assert!(r.to_json(ROWS).is_err());
    }

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("--image=/a/b.c"), "--image=/a/b.c");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
        assert_eq!(quoted(""), "''");
    }
}
