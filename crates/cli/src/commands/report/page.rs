//! The page: one HTML file that needs nothing else.
use super::findings::{Finding, Level};
use super::state::State;
use crate::command_line;
use crate::commands::info::guarded;
use crate::counters::{self, Reading};
use crate::segments::grid::Grid;
use crate::segments::shapes;
use crate::segments::svg::{self, escaped as escape};
use crate::show;
use crate::usage::Usage;
use segno_format::checkpoint::CpFlags;
use segno_format::size;
use segno_format::superblock::uuid_text;

/// Squares of the map; more would be too small to be seen.
const PICTURED: usize = 8192;

/// The whole page.
pub fn html(state: &State<'_>, findings: &[Finding], made: &str) -> String {
    let name = escape(&state.name);
    let counters = state.readings().map(counters_section).unwrap_or_default();
    let [program, command] = command_line::made_by();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{name}: report of segno</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n\
         <header><h1>{name}</h1><p>Report of {} at {made} UTC: <code>{}</code></p></header>\n{}{}{}{counters}</main>\n</body>\n</html>\n",
        include_str!("style.css"),
        escape(&program),
        escape(&command),
        recommendations(findings),
        volume(state),
        map(state),
    )
}

fn section(title: &str, class: &str, content: &str) -> String {
    format!("<section class=\"{class}\"><h2>{title}</h2>\n{content}</section>\n")
}

fn recommendations(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return section("Recommendations", "", "<p class=\"good\">Nothing needs to be done.</p>\n");
    }
    let item = |f: &Finding| {
        let class = if f.level == Level::Serious { " class=\"serious\"" } else { "" };
        format!("<li{class}><p>{}.</p><p>{}.</p></li>\n", escape(&f.fact), code(&escape(&f.advice)))
    };
    let items: String = findings.iter().map(item).collect();
    section("Recommendations", "", &format!("<ul>\n{items}</ul>\n"))
}

fn volume(state: &State<'_>) -> String {
    let (sb, cp) = (&state.segments.superblock, &state.segments.checkpoint);
    let (usage, space) = (Usage::of(sb, cp), state.space);
    let condition = match (state.readings(), cp.flags().contains(CpFlags::UMOUNT)) {
        (Some(_), _) => {
            "mounted; space, journal and discard are of this moment, the rest is of the last checkpoint"
        }
        (None, true) => "unmounted cleanly",
        (None, false) => "not unmounted cleanly",
    };
    let features = sb.features.names().join(", ");
    let rows = [
        ("State", condition.to_owned()),
        ("Label", sb.label()),
        ("UUID", uuid_text(&sb.raw.uuid)),
        ("Size", size::human(usage.device)),
        (
            "Used",
            format!(
                "{} of {} ({} %), {} available",
                size::human(space.used_bytes),
                size::human(space.size_bytes),
                space.percent(),
                size::human(space.available_bytes)
            ),
        ),
        ("Inodes", cp.valid_inode_count.get().to_string()),
        ("Nodes", cp.valid_node_count.get().to_string()),
        ("Free segments", format!("{} of {}", cp.free_segment_count.get(), sb.geo.segment_count_main)),
        ("Features", if features.is_empty() { "none".into() } else { features }),
        ("Space", show::guarded(guarded(sb, cp))),
        ("Checkpoint", format!("{:#x}", cp.checkpoint_ver.get())),
    ];
    let rows = rows.into_iter().chain(state.rows_of_mount());
    let rows: String = rows.map(|(k, v)| format!("<tr><th>{k}</th><td>{}</td></tr>\n", escape(&v))).collect();
    section("Volume", "", &format!("<table>\n{rows}</table>\n"))
}

fn map(state: &State<'_>) -> String {
    let grid = Grid::pictured(&state.segments.all, PICTURED);
    let totals = state.segments.totals();
    let row = |t: &crate::segments::Total| {
        let [r, g, b] = t.content.colour();
        format!(
            "<tr><td><i style=\"background:#{r:02x}{g:02x}{b:02x}\"></i>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{} %</td></tr>\n",
            t.content.name(),
            t.segments,
            t.valid,
            t.percent()
        )
    };
    let rows: String = totals.iter().filter(|t| t.segments > 0).map(row).collect();
    let content = format!(
        "<p>A square is {}; the fainter, the fewer valid blocks. Outlined: a log is open.</p>\n{}\
         <table>\n<tr><th>Type</th><th class=\"n\">Segments</th><th class=\"n\">Valid blocks</th><th class=\"n\">Full</th></tr>\n{rows}</table>\n",
        if grid.per_cell == 1 { "a segment".to_owned() } else { format!("{} segments", grid.per_cell) },
        svg::element(&shapes::plain(&grid))
    );
    section("Segments", "wide", &content)
}

fn counters_section(readings: &[Reading]) -> String {
    let row = |r: &Reading| {
        let (name, help) = (escape(&r.name), escape(&r.help()));
        format!("<tr title=\"{help}\"><th>{name}</th><td class=\"n\">{}</td></tr>\n", r.value)
    };
    let mut out = String::new();
    if let Some(waf) = counters::write_amplification(readings) {
        out += &format!("<p>Write amplification: {waf:.2}</p>\n");
    }
    for (title, readings) in counters::grouped(readings).filter(|(_, readings)| !readings.is_empty()) {
        let rows: String = readings.into_iter().map(row).collect();
        out += &format!("<h3>{title}</h3>\n<table>\n{rows}</table>\n");
    }
    section("Counters since it was mounted", "wide", &out)
}

/// Text between backquotes is a command.
fn code(text: &str) -> String {
    let part =
        |(i, part): (usize, &str)| if i % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() };
    text.split('`').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_code() {
        assert_eq!(code("run `segno ls`, then"), "run <code>segno ls</code>, then");
    }
}
