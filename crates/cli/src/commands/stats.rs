//! `segno stats`: the counters of a live mount.
use crate::counters::{self, AMPLIFICATION, CounterSnapshot, Reading, slow};
use crate::document::Schema;
use crate::mount::options::help;
use crate::out::stdout;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const AMPLIFICATION_HELP: &str = "bytes written to the device for each byte that programs wrote";

/// Show the counters of a mount
///
/// Totals count from the mount on. With --watch a second column shows the change a second.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print an object on a line, with --watch one each time: t, dt, abs (values), rate (change of totals a second)
    #[arg(long, conflicts_with = "json")]
    json_lines: bool,
    /// Print again every SECONDS seconds, until interrupted
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "json")]
    watch: Option<u64>,
    /// Describe each counter
    #[arg(long, conflicts_with_all = ["json", "json_lines"])]
    explain: bool,
    /// Any file or directory of the mount
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let mut now = CounterSnapshot::read(&args.dir)?;
    print(args, &now, None)?;
    while let Some(seconds) = args.watch {
        sleep(Duration::from_secs(seconds));
        let next = CounterSnapshot::read(&args.dir)?;
        print(args, &next, Some(&now))?;
        now = next;
    }
    Ok(())
}

fn print(args: &Args, now: &CounterSnapshot, earlier: Option<&CounterSnapshot>) -> Result<()> {
    let mut out = stdout();
    if args.json {
        Schema("segno.stats", 1).print(&mut out, &Value::Object(now.values()))?;
    } else if args.json_lines {
        writeln!(out, "{}", Schema("segno.stats-line", 1).line(&line(now, earlier))?)?;
    } else {
        out.write_all(text(now, earlier, args.explain).as_bytes())?;
    }
    Ok(out.flush()?)
}

fn line(now: &CounterSnapshot, earlier: Option<&CounterSnapshot>) -> Value {
    let t = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let dt = earlier.map(|e| now.at.duration_since(e.at).as_secs_f64());
    let rate = earlier.map(|e| {
        let totals = now.readings.iter().filter_map(|r| Some((r.name.clone(), json!(now.rate(r, e)?))));
        totals.collect::<Map<String, Value>>()
    });
    json!({ "t": t, "dt": dt, "abs": now.values(), "rate": rate })
}

/// The groups, the slowest requests, then what this program does not know.
fn text(now: &CounterSnapshot, earlier: Option<&CounterSnapshot>, explain: bool) -> String {
    let entry = |r: &Reading| {
        let rate = earlier.and_then(|e| now.rate(r, e));
        row(&r.name, &r.value.to_string(), rate, explain.then(|| r.help()))
    };
    let mut out = String::new();
    for (title, readings) in counters::grouped(&now.readings) {
        if !readings.is_empty() {
            out += &format!("{title}\n{}", readings.into_iter().map(entry).collect::<String>());
        }
        if title == "Written"
            && let Some(waf) = counters::write_amplification(&now.readings)
        {
            out +=
                &row(AMPLIFICATION, &format!("{waf:.3}"), None, explain.then(|| AMPLIFICATION_HELP.into()));
        }
    }
    if !now.slowest.is_empty() {
        out += "Slowest requests\n";
        now.slowest.iter().for_each(|s| out += &format!("  {}\n", s.text()));
        out += &if explain { help::paragraph(slow::HELP) } else { String::new() };
    }
    let unknown: String = now.readings.iter().filter(|r| r.row.is_none()).map(entry).collect();
    if !unknown.is_empty() {
        out += &format!("Others\n{unknown}");
    }
    out + "\n"
}

fn row(name: &str, value: &str, rate: Option<f64>, help: Option<String>) -> String {
    let rate = rate.map(|r| format!("{r:>12.1}/s")).unwrap_or_default();
    let figures = format!("  {name:30} {value:>16}{rate}\n");
    figures + &help.map(|h| help::paragraph(&h)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Slow;
    use std::time::Instant;

    fn snapshots() -> (CounterSnapshot, CounterSnapshot) {
        let at = Instant::now();
        let first =
            counters::sample(&[("user_bytes", 4096), ("free_sections", 9), ("node_blocks", 1), ("odd", 1)]);
        let second =
            counters::sample(&[("user_bytes", 12288), ("free_sections", 7), ("node_blocks", 3), ("odd", 5)]);
        let later = at + Duration::from_secs(2);
        let slow = Slow { op: "fsync".into(), ino: 9, ns: 5_000_000, age_ms: 1000 };
        let first = CounterSnapshot { at, volume: None, readings: first, slowest: Vec::new() };
        (first, CounterSnapshot { at: later, volume: None, readings: second, slowest: vec![slow] })
    }

    #[test]
    fn counters_are_grouped() {
        let (_, now) = snapshots();
        let expected = "\
Written
  user_bytes                                12288
  node_blocks                                   3
  write_amplification                       1.000
Space
  free_sections                                 7
Slowest requests
  fsync of inode 9 5.0 ms, 1 s ago
Others
  odd                                           5

";
        assert_eq!(text(&now, None, false), expected);
    }

    #[test]
    fn only_totals_have_a_rate() {
        let (earlier, now) = snapshots();
        let shown = text(&now, Some(&earlier), true);
        assert!(
            shown.contains("  user_bytes                                12288      4096.0/s\n"),
            "{shown}"
        );
        assert!(shown.contains("  free_sections                                 7\n"), "{shown}");
        assert!(shown.contains("bytes that programs wrote\n"), "{shown}");
        let line = line(&now, Some(&earlier));
        assert_eq!((&line["dt"], &line["abs"]["free_sections"]), (&json!(2.0), &json!(7)));
        assert_eq!(line["abs"]["slowest"][0]["ns"], 5_000_000);
        assert_eq!(line["rate"], json!({ "user_bytes": 4096.0, "node_blocks": 1.0 }));
        assert_eq!(super::line(&now, None)["rate"], Value::Null);
    }
}
