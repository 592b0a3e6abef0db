//! Figures as files: CSV, and SVG that stands alone.
use super::number::escaped;
use super::plot::{COLOURS, Plot, WIDTH, text};
use super::{Figure, Table, all_fields, lead};
use crate::report::Report;
use anyhow::Result;
use std::fmt::Write;

/// Above the plot of a file.
const TITLE: f64 = 34.0;
const LEGEND: f64 = 18.0;
const ENTRIES: usize = 4;
/// Below it: the run.
const RUN: f64 = 18.0;
/// Characters of a line there.
const CHARACTERS: usize = 110;

/// Name and content of each file, and of all results.
pub fn files(report: &Report) -> Result<Vec<(String, String)>> {
    let mut out = vec![("results.csv".to_owned(), csv(&all_fields(report, |n| n.to_string()))?)];
    for (i, figure) in report.figures.iter().enumerate() {
        let name = |title: &str, end: &str| format!("{:02}-{}.{end}", i + 1, slug(title));
        let title = figure.title();
        if let Some(data) = data(figure) {
            out.push((name(title, "csv"), csv(&data)?));
        }
        if let Some(plot) = figure.plot() {
            out.push((name(title, "svg"), svg(report, title, &figure.legend(), &plot)));
        }
    }
    Ok(out)
}

fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

fn csv(table: &Table) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&table.head)?;
    table.rows.iter().try_for_each(|row| writer.write_record(row))?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn data(figure: &Figure) -> Option<Table> {
    let head = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    Some(match figure {
        Figure::Text { .. } => return None,
        Figure::Table(table) => table.clone(),
        Figure::Bars(bars) => {
            let rows = bars.groups.iter().flat_map(|g| {
                g.bars.iter().zip(&bars.series).filter_map(|(bar, series)| {
                    let bar = (*bar)?;
                    let range =
                        |end: fn((f64, f64)) -> f64| bar.range.map_or(String::new(), |r| end(r).to_string());
                    let value = bar.value.to_string();
                    Some(vec![
                        g.name.clone(),
                        series.clone(),
                        value,
                        range(|r| r.0),
                        range(|r| r.1),
                        bars.unit.clone(),
                    ])
                })
            });
            Table {
                head: head(&["group", "series", "value", "least", "greatest", "unit"]),
                rows: rows.collect(),
                ..Table::default()
            }
        }
        Figure::Lines(lines) => {
            let rows = lines.series.iter().flat_map(|s| {
                s.points.iter().map(|(x, y)| vec![s.name.clone(), x.to_string(), y.to_string()])
            });
            Table { head: head(&["series", &lines.x, &lines.y]), rows: rows.collect(), ..Table::default() }
        }
    })
}

/// A file with title, legend, and the run that it is of.
fn svg(report: &Report, title: &str, legend: &[&str], plot: &Plot) -> String {
    let top = TITLE + LEGEND * legend.len().div_ceil(ENTRIES) as f64;
    let run = wrapped(&format!("{} {}", lead(report), report.machine.command.join(" ")));
    let height = top + plot.height + RUN * (run.len() as f64 + 0.5);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escaped(title),
        style(),
    );
    let heading = format!("{}: {title}", report.experiment);
    let _ = write!(out, "<text class=\"heading\" x=\"14\" y=\"22\">{}</text>", escaped(&heading));
    for (i, name) in legend.iter().enumerate() {
        let x = 14.0 + (i % ENTRIES) as f64 * (WIDTH - 14.0) / ENTRIES as f64;
        let y = TITLE + LEGEND * (i / ENTRIES) as f64;
        let _ = write!(
            out,
            "<rect class=\"c{}\" x=\"{x}\" y=\"{y}\" width=\"11\" height=\"11\" rx=\"2\"/>",
            i % COLOURS
        );
        text(&mut out, x + 17.0, y + 10.0, "start", "", name);
    }
    let _ = write!(out, "\n<g transform=\"translate(0 {top})\">{}</g>\n", plot.elements);
    for (i, line) in run.iter().enumerate() {
        text(&mut out, 14.0, top + plot.height + RUN * (i as f64 + 0.7), "start", "", line);
    }
    out + "</svg>\n"
}

/// Lines of up to [`CHARACTERS`], or of one longer word.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + word.chars().count() < CHARACTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The rules of plots with the light colours of the page, as few readers of SVG know variables.
fn style() -> String {
    let page = include_str!("style.css");
    let light = page.split('}').next().unwrap_or_default();
    let variables =
        light.split([';', '{']).filter_map(|rule| rule.trim().strip_prefix("--")?.split_once(": "));
    let rules = include_str!("plot.css").replace("svg text", "text").to_owned()
        + "svg { max-width: 100%; height: auto; } .heading { font: 600 16px sans-serif; }";
    variables.fold(rules, |rules, (name, value)| rules.replace(&format!("var(--{name})"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_needs_no_variables() {
        let style = style();
        assert!(!style.contains("var(") && style.contains(".c0 { fill: #2563c4; }"), "{style}");
    }

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(slug("Where the time goes, in ms of a run"), "where-the-time-goes-in-ms-of-a-run");
    }
}
