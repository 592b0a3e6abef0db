//! The report as a self-contained HTML page: tables, plots, machine and command.
mod files;
mod number;
mod plot;
mod scale;

pub use files::files;
pub use number::short;
pub use plot::{Bar, Bars, Group, Lines, Series};

use crate::report::Report;
use number::escaped;
use plot::{COLOURS, Plot, WIDTH};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A part of the page, in the order the experiment gives them.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Paragraphs below a heading.
    Text {
        title: String,
        paragraphs: Vec<String>,
    },
    Table(Table),
    Bars(Bars),
    Lines(Lines),
}

impl Figure {
    fn title(&self) -> &str {
        match self {
            Self::Text { title, .. } => title,
            Self::Table(table) => &table.title,
            Self::Bars(bars) => &bars.title,
            Self::Lines(lines) => &lines.title,
        }
    }

    /// Names of its colours, if it has several.
    fn legend(&self) -> Vec<&str> {
        let names: Vec<&str> = match self {
            Self::Bars(bars) => bars.series.iter().map(String::as_str).collect(),
            Self::Lines(lines) => lines.series.iter().map(|s| s.name.as_str()).collect(),
            Self::Text { .. } | Self::Table(_) => Vec::new(),
        };
        if names.len() < 2 { Vec::new() } else { names }
    }

    fn plot(&self) -> Option<Plot> {
        match self {
            Self::Bars(bars) => Some(bars.plot()),
            Self::Lines(lines) => Some(lines.plot()),
            Self::Text { .. } | Self::Table(_) => None,
        }
    }
}

/// Columns of numbers are aligned to the right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// A line below the table.
    pub note: String,
}

/// The whole page.
pub fn html(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>segno bench {0}</title><style>{1}</style></head><body><main>\
         <h1>segno bench {0}</h1><p class=\"lead\">{2}</p>",
        escaped(&report.experiment),
        concat!(include_str!("style.css"), include_str!("plot.css")),
        escaped(&lead(report)),
    );
    notes(&mut out, report);
    for figure in &report.figures {
        out.push_str("<section>");
        match figure {
            Figure::Text { title, paragraphs } => {
                heading(&mut out, title);
                paragraphs.iter().for_each(|p| element(&mut out, "p", p));
            }
            Figure::Table(t) => table(&mut out, t),
            Figure::Bars(_) | Figure::Lines(_) => {
                heading(&mut out, figure.title());
                legend(&mut out, &figure.legend());
                figure.plot().iter().for_each(|plot| inline(&mut out, figure.title(), plot));
            }
        }
        out.push_str("</section>");
    }
    out.push_str("<section><details><summary>All results</summary>");
    table(&mut out, &all_fields(report, short));
    out.push_str("</details></section>");
    setting(&mut out, report);
    out + "</main></body></html>\n"
}

/// Notes and tables, or the rows if there is no table, for a terminal.
pub fn text(report: &Report) -> String {
    let mut out = format!("segno bench {}: {}\n", report.experiment, lead(report));
    for note in report.left_out().iter().chain(&report.notes) {
        let _ = writeln!(out, "* {note}");
    }
    let tables =
        || report.figures.iter().filter_map(|f| if let Figure::Table(t) = f { Some(t) } else { None });
    tables().for_each(|t| text_table(&mut out, t));
    if tables().next().is_none() {
        text_table(&mut out, &all_fields(report, short));
    }
    out
}

/// The report as Markdown, for a repository: plots are left out.
pub fn markdown(report: &Report) -> String {
    let mut out = format!(
        "# segno bench {0}\n\n{1}\n\nWritten by `segno-lab {2}` as report.md, not by hand.\n",
        report.experiment,
        lead(report),
        arguments(&report.machine.command)
    );
    let mut facts = Vec::new();
    flatten("", &Value::Object(report.config.clone()), short, &mut facts);
    let facts: Vec<String> = facts.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = write!(out, "\nParameters: {}.\n\n", facts.join(", "));
    for note in report.left_out().iter().chain(&report.notes) {
        let _ = writeln!(out, "* {note}");
    }
    for figure in &report.figures {
        match figure {
            Figure::Text { title, paragraphs } => {
                let _ = writeln!(out, "\n## {title}\n\n{}", paragraphs.join("\n\n"));
            }
            Figure::Table(t) => markdown_table(&mut out, t),
            Figure::Bars(_) | Figure::Lines(_) => {}
        }
    }
    out
}

/// The arguments of a command but for the folder of the result.
fn arguments(command: &[String]) -> String {
    let mut words = Vec::new();
    let mut rest = command.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-o" | "--output" => _ = rest.next(),
            word if word.starts_with("--output=") => {}
            word => words.push(word),
        }
    }
    words.join(" ")
}

fn markdown_table(out: &mut String, t: &Table) {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | ").replace('\n', " "));
    let _ = writeln!(out, "\n## {}\n\n{}\n|{}", t.title, line(&t.head), "---|".repeat(t.head.len()));
    for row in &t.rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(out, "{}", line(&cells));
    }
    if !t.note.is_empty() {
        let _ = writeln!(out, "\n{}", t.note);
    }
}

fn text_table(out: &mut String, t: &Table) {
    let width =
        |c: usize| t.rows.iter().chain([&t.head]).filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
    let _ = writeln!(out, "\n{}", t.title);
    for row in [&t.head].into_iter().chain(&t.rows) {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let _ = write!(line, "{cell:<0$}  ", width(c).unwrap_or(0));
        }
        let _ = writeln!(out, "  {}", line.trim_end());
    }
    if !t.note.is_empty() {
        let _ = writeln!(out, "  {}", t.note);
    }
}

fn lead(report: &Report) -> String {
    let m = &report.machine;
    let on = m.device.as_ref().map_or(String::new(), |d| format!(", on {} ({})", d.name, d.kind));
    let commit = m.commit.as_ref().map_or(String::new(), |commit| format!(", commit {commit}"));
    format!("segno {}{commit}; {} × {}, {}{on}. Seed {}.", m.version, m.cpus, m.cpu, m.kernel, report.seed)
}

fn notes(out: &mut String, report: &Report) {
    let left_out = report.left_out();
    if report.notes.is_empty() && left_out.is_empty() {
        return;
    }
    out.push_str("<section><h2>Read this first</h2><ul>");
    left_out.iter().chain(&report.notes).for_each(|n| element(out, "li", n));
    out.push_str("</ul></section>");
}

fn heading(out: &mut String, title: &str) {
    if !title.is_empty() {
        element(out, "h2", title);
    }
}

fn element(out: &mut String, tag: &str, text: &str) {
    let _ = write!(out, "<{tag}>{}</{tag}>", escaped(text));
}

fn legend(out: &mut String, names: &[&str]) {
    if names.is_empty() {
        return;
    }
    out.push_str("<div class=\"legend\">");
    for (i, name) in names.iter().enumerate() {
        let _ = write!(out, "<span><i class=\"b{}\"></i>{}</span>", i % COLOURS, escaped(name));
    }
    out.push_str("</div>");
}

fn inline(out: &mut String, title: &str, plot: &Plot) {
    let _ = write!(
        out,
        "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">{}</svg></div>",
        plot.height,
        escaped(title),
        plot.elements
    );
}

fn table(out: &mut String, t: &Table) {
    heading(out, &t.title);
    let is_number = |column: usize| {
        let mut cells = t.rows.iter().filter_map(|r| r.get(column)).filter(|c| !c.is_empty()).peekable();
        cells.peek().is_some()
            && cells.all(|c| c.starts_with(|ch: char| ch.is_ascii_digit() || "-–+±".contains(ch)))
    };
    let numbers: BTreeSet<usize> = (0..t.head.len()).filter(|&c| is_number(c)).collect();
    let class = |column: usize| if numbers.contains(&column) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for (c, name) in t.head.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(c), escaped(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &t.rows {
        out.push_str("<tr>");
        for (c, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(c), escaped(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if !t.note.is_empty() {
        let _ = write!(out, "<p class=\"lead\">{}</p>", escaped(&t.note));
    }
}

/// Every field of every row, the fields of inner objects by their path.
fn all_fields(report: &Report, number: fn(f64) -> String) -> Table {
    let rows: Vec<Vec<(String, String)>> = report
        .results
        .iter()
        .map(|r| {
            let mut cells = Vec::new();
            flatten("", &Value::Object(r.0.clone()), number, &mut cells);
            cells
        })
        .collect();
    let mut head: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !head.contains(name) {
            head.push(name.clone());
        }
    }
    let cell = |row: &Vec<(String, String)>, name: &String| {
        row.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap_or_default()
    };
    let rows = rows.iter().map(|r| head.iter().map(|n| cell(r, n)).collect()).collect();
    Table { head, rows, ..Table::default() }
}

fn flatten(path: &str, v: &Value, number: fn(f64) -> String, out: &mut Vec<(String, String)>) {
    let text = match v {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, field, number, out);
            }
            return;
        }
        Value::Number(n) => n.as_f64().map_or(n.to_string(), number),
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    out.push((path.to_owned(), text));
}

/// Command and machine of the run.
fn setting(out: &mut String, report: &Report) {
    out.push_str("<section><h2>How it was measured</h2>");
    element(out, "pre", &report.machine.command.join(" "));
    let mut facts = Vec::new();
    flatten("", &Value::Object(report.config.clone()), short, &mut facts);
    definitions(out, &facts);
    out.push_str("</section><section><h2>Machine</h2>");
    let mut facts = Vec::new();
    let mut machine = serde_json::to_value(&report.machine).unwrap_or_default();
    if let Some(fields) = machine.as_object_mut() {
        fields.remove("command");
    }
    flatten("", &machine, short, &mut facts);
    definitions(out, &facts);
    out.push_str("</section>");
    if !report.mkfs.is_empty() {
        out.push_str("<section><details><summary>Format of the volume</summary>");
        element(out, "pre", &report.mkfs);
        out.push_str("</details></section>");
    }
}

fn definitions(out: &mut String, facts: &[(String, String)]) {
    out.push_str("<dl>");
    for (name, value) in facts {
        element(out, "dt", name);
        element(out, "dd", value);
    }
    out.push_str("</dl>");
}
