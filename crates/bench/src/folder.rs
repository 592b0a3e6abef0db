//! The result folder: everything needed to review and repeat a run.
use crate::page;
use crate::report::Report;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Writes the folder; files of an earlier run in it are replaced.
///
/// `report.json` and `report.html` contain everything; `command.txt`, `job.json`, `machine.json` and `mkfs.txt` are parts of
/// it as plain text.
pub fn write(dir: &Path, report: &Report, document: &Value) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put("report.json", format!("{document:#}\n"))?;
    put("report.html", page::html(report))?;
    put(
        "command.txt",
        report.machine.command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ") + "\n",
    )?;
    put("job.json", format!("{:#}\n", Value::Object(report.config.clone())))?;
    put("machine.json", serde_json::to_string_pretty(&report.machine)? + "\n")?;
    put("mkfs.txt", report.mkfs.clone() + "\n")
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
        r.push(&json!({ "name": "<a&b>", "us": { "p50": 12.5 } })).unwrap();
        r.notes.push("a note".into());
        let groups = vec![Group {
            name: "g".into(),
            bars: vec![Some(Bar { value: 2.0, range: Some((1.0, 3.0)) }), None],
        }];
        let series = vec!["one".into(), "two".into()];
        r.figures = vec![
            Figure::Text { title: "t".into(), paragraphs: vec!["p".into()] },
            Figure::Table(Table { head: vec!["h".into()], rows: vec![vec!["1".into()]], ..Table::default() }),
            Figure::Bars(Bars { groups, series, ..Bars::default() }),
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
        for part in
            ["a note", "us.p50", "12.5", "&lt;a&amp;b&gt;", "<svg", "prefers-color-scheme: dark", "layout"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""));
        assert!(!page.contains("http") && !page.contains("<script"), "the page needs nothing from elsewhere");
        assert!(read("mkfs.txt").contains("layout") && !read("command.txt").trim().is_empty());
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
