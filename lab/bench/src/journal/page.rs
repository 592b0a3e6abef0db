//! Tables of the page, and figures compared with their targets.
use super::mode::Mode;
use super::row::{COMMIT_STEPS, ENOUGH, JournalRow};
use crate::page::{Bar, Bars, Figure, Group, Lines, Series, Table, short};
use crate::report::Report;
use crate::sample::Sample;

const COMPARE: [&str; 3] = [
    "F2FSJ (OSDI 2025) reports checkpoints 1.7 to 4.9 times shorter, average latencies up to 35 % lower and no long tail, \
     with a log area of 256 MB.",
    "It gives the costs of journaling in the style of JBD2 on F2FS as: applying journaled pages 47.6 % of all journaling \
     time, contention for tickets and lists 24.7 to 29.3 %, waiting where periods change 7.5 to 16.2 %. Here these are \
     apply, append with join, and drain. An apply and a commit run concurrently with operations; only append, join and what is in \
     \"blocked\" are time that an operation spends.",
    "The schedule is that of F2FS, a checkpoint every 60 seconds, and of the product, a commit every second, data every 5 and \
     an apply every 30; and a checkpoint every second, which makes changes durable as often as the journal does. It runs faster: a \
     second is so many milliseconds (second_ms in the configuration), or in the workloads on names and the copied tree \
     so many calls (second_calls). So a row has many checkpoints of less work each than a busy server's.",
];

pub fn fill(report: &mut Report, rows: &[JournalRow]) {
    report.notes.extend(goals(rows));
    report.notes.extend(short_rows(rows));
    report.figures.extend([
        Figure::Table(journaling(rows)),
        Figure::Table(times(rows)),
        throughput(rows),
        Figure::Table(blocked(rows)),
        Figure::Table(applying(rows)),
        Figure::Table(costs(rows)),
        Figure::Table(phases(rows)),
    ]);
    report.figures.extend(rows.chunk_by(|a, b| a.workload == b.workload).map(latencies));
}

/// Closing sections of the page.
pub fn close(report: &mut Report) {
    let paragraphs = COMPARE.iter().map(|p| (*p).to_owned()).collect();
    report.figures.push(Figure::Text { title: "What to compare with".into(), paragraphs });
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn first(r: &JournalRow) -> [String; 2] {
    [r.workload.clone(), r.mode.name().to_owned()]
}

fn line(r: &JournalRow, numbers: &[f64]) -> Vec<String> {
    first(r).into_iter().chain(numbers.iter().map(|&n| short(n))).collect()
}

/// Time of commits and applies, or of checkpoints.
fn journaling(rows: &[JournalRow]) -> Table {
    let row = |r: &JournalRow| {
        let (commits, checkpoints) = r.journaling_ms()?;
        let each = |all: f64, n: f64| if n > 0.0 { all / n } else { 0.0 };
        let ours = rows.iter().find(|j| j.workload == r.workload && j.mode == Mode::Journal);
        let mut line = line(
            r,
            &[
                r.checkpoints,
                each(checkpoints, r.checkpoints),
                r.commits,
                each(commits, r.commits),
                commits + checkpoints,
            ],
        );
        let ratio =
            ours.filter(|_| r.mode != Mode::Journal).map(|j| compared(r, j, ratio_of_journaling, short));
        line.push(ratio.unwrap_or_default());
        Some(line)
    };
    Table {
        title: "Time of metadata journaling".into(),
        head: head(&[
            "workload",
            "mode",
            "checkpoints or applies",
            "ms each",
            "commits",
            "ms each",
            "ms of a run",
            "/ journal",
        ]),
        rows: rows.iter().filter_map(row).collect(),
        note: format!(
            "From the beginning to the end of each, most of it while operations run, not the time that they are blocked. With fsyncs \
             (varmail, oltp) commits serve them; without a journal an fsync logs nodes, which is not counted here. No ratio is \
             given if either side had fewer than {ENOUGH} checkpoints or applies in a run."
        ),
    }
}

/// A figure of two rows, unless one of them is too short for it.
pub fn compared(
    classic: &JournalRow,
    journal: &JournalRow,
    figure: fn(&JournalRow, &JournalRow) -> Option<f64>,
    show: fn(f64) -> String,
) -> String {
    if !(classic.is_long_enough() && journal.is_long_enough()) {
        return format!("too few ({} and {})", short(classic.checkpoints), short(journal.checkpoints));
    }
    figure(classic, journal).map_or("–".into(), show)
}

/// How many times longer checkpoints take than commits and applies.
pub fn ratio_of_journaling(classic: &JournalRow, journal: &JournalRow) -> Option<f64> {
    let total = |r: &JournalRow| r.journaling_ms().map(|(commits, checkpoints)| commits + checkpoints);
    Some(total(classic)? / total(journal)?.max(1e-9))
}

fn short_rows(rows: &[JournalRow]) -> Option<String> {
    let all = || rows.iter().filter(|r| r.phases_ms.is_some());
    let few: Vec<String> = all()
        .filter(|r| !r.is_long_enough())
        .map(|r| format!("{}, {} ({})", r.workload, r.mode.name(), short(r.checkpoints)))
        .collect();
    (!few.is_empty()).then(|| {
        format!(
            "{} of {} rows have fewer than {ENOUGH} checkpoints or applies in a run, so they give no ratio: {}.",
            few.len(),
            all().count(),
            few.join("; ")
        )
    })
}

fn times(rows: &[JournalRow]) -> Table {
    let row = |r: &JournalRow| {
        let l = r.latency_us;
        line(r, &[r.seconds, r.ops_per_s, r.ops_spread_percent, l.mean, l.p50, l.p90, l.p99, l.p999, l.max])
    };
    Table {
        title: "Time and latency of operations".into(),
        head: head(&[
            "workload", "mode", "s", "ops/s", "± %", "mean µs", "p50", "p90", "p99", "p99.9", "max",
        ]),
        rows: rows.iter().map(row).collect(),
        note: "Until everything is durable. Latencies are those of all calls of all rounds.".into(),
    }
}

fn blocked(rows: &[JournalRow]) -> Table {
    let row = |r: &JournalRow| {
        let b = r.blocked_us;
        line(r, &[b.count as f64, b.p50, b.p99, b.max, b.total / 1000.0])
    };
    Table {
        title: "How long checkpoints and applies kept operations out".into(),
        head: head(&["workload", "mode", "how many", "p50 µs", "p99", "max", "total ms"]),
        rows: rows.iter().filter(|r| r.blocked_us.count > 0).map(row).collect(),
        note: "From closing the gate, with the wait for operations inside, until it is open again.".into(),
    }
}

fn applying(rows: &[JournalRow]) -> Table {
    let row = |r: &JournalRow| {
        let (all, met) = (r.latency_us, r.applying_us?);
        Some(line(r, &[all.p99, met.p50, met.p90, met.p99, met.p999, met.max]))
    };
    Table {
        title: "Operations that met a checkpoint or apply".into(),
        head: head(&["workload", "mode", "p99 µs of all", "p50", "p90", "p99", "p99.9", "max"]),
        rows: rows.iter().filter_map(row).collect(),
        note: String::new(),
    }
}

fn costs(rows: &[JournalRow]) -> Table {
    let row = |r: &JournalRow| {
        let mut line = line(r, &[r.bytes_written / 1_048_576.0, r.flushes, r.checkpoints, r.commits]);
        line.push(r.log_bytes_per_op.map_or(String::new(), short));
        line
    };
    Table {
        title: "What it costs".into(),
        head: head(&["workload", "mode", "MiB written", "flushes", "checkpoints", "commits", "log bytes/op"]),
        rows: rows.iter().map(row).collect(),
        note: "A run; medians over rounds. Log bytes are whole blocks, so few operations in a commit pay more each.".into(),
    }
}

fn phases(rows: &[JournalRow]) -> Table {
    let names = ["append", "join", "drain", "commit", "apply"];
    let row = |r: &JournalRow| {
        let p = r.phases_ms.as_ref().filter(|_| r.mode == Mode::Journal)?;
        let get = |name: &str| p.get(name).copied().unwrap_or(0.0);
        let all: f64 = names.iter().map(|n| get(n)).sum::<f64>().max(1e-9);
        let share = |name: &&str| format!("{} ({:.1} %)", short(get(name)), get(name) / all * 100.0);
        let steps = COMMIT_STEPS.iter().map(|n| short(get(n)));
        Some([r.workload.clone()].into_iter().chain(names.iter().map(share)).chain(steps).collect())
    };
    Table {
        title: "Where the time of journaling goes, in ms of a run".into(),
        head: [&["workload"][..], &names, &COMMIT_STEPS].concat().iter().map(|n| (*n).to_owned()).collect(),
        rows: rows.iter().filter_map(row).collect(),
        note: "Append and join are sampled, and are time of the operations; drain, commit and apply are time of the one who \
               commits. Settle to flush are the steps of commit."
            .into(),
    }
}

fn throughput(rows: &[JournalRow]) -> Figure {
    let bar = |r: &JournalRow| {
        let half = r.ops_per_s * r.ops_spread_percent / 100.0;
        Bar { value: r.ops_per_s, range: Some((r.ops_per_s - half, r.ops_per_s + half)) }
    };
    let group = |of: &[JournalRow]| Group {
        name: of.first().map_or(String::new(), |r| r.workload.clone()),
        bars: Mode::ALL.map(|m| of.iter().find(|r| r.mode == m).map(bar)).into(),
    };
    let groups = rows.chunk_by(|a, b| a.workload == b.workload).map(group).collect();
    let series = Mode::ALL.map(|m| m.name().to_owned()).into();
    Figure::Bars(Bars { title: "Operations a second".into(), groups, series, ..Bars::default() })
}

/// Of one workload, in all modes.
fn latencies(rows: &[JournalRow]) -> Figure {
    let series = rows.iter().map(|r| Series::cumulative(r.mode.name().to_owned(), &r.latency));
    let workload = rows.first().map_or("", |r| &r.workload);
    Figure::Lines(Lines::latencies(format!("Latency of operations: {workload}"), "operations", series))
}

/// The target figures with the results of this run.
fn goals(rows: &[JournalRow]) -> Vec<String> {
    let of = |mode: Mode| rows.iter().filter(move |r| r.mode == mode && r.is_long_enough());
    let worst = |mode: Mode, f: fn(&JournalRow) -> f64| of(mode).map(f).fold(0.0, f64::max);
    let pairs =
        || of(Mode::Journal).filter_map(|j| Some((j, of(Mode::Minute).find(|c| c.workload == j.workload)?)));
    let mut out = Vec::new();
    if of(Mode::Journal).next().is_some() && of(Mode::Minute).next().is_some() {
        let p99 = worst(Mode::Journal, |r| r.blocked_us.p99);
        out.push(format!(
            "Applies keep operations out for {} µs at p99 in the worst workload, checkpoints for {} (aim: below 1000, and 10 \
             times below).",
            short(p99),
            short(worst(Mode::Minute, |r| r.blocked_us.p99)),
        ));
        let sum = |mode: Mode| of(mode).map(|r| r.blocked_us.total).sum::<f64>();
        let shorter: Vec<f64> = pairs().map(|(j, c)| c.blocked_us.p50 / j.blocked_us.p50.max(1e-9)).collect();
        out.push(format!(
            "Operations were kept out for {} ms of all runs with a journal and {} ms without: {} times less. By workload, an \
             apply is {} times shorter than a checkpoint (median; aim: 4.9).",
            short(sum(Mode::Journal) / 1000.0),
            short(sum(Mode::Minute) / 1000.0),
            short(sum(Mode::Minute) / sum(Mode::Journal).max(1e-9)),
            short(Sample::of(&shorter).median),
        ));
    }
    let tail = pairs()
        .filter_map(|(j, _)| Some((j, j.applying_us?.max / j.latency_us.p99.max(1e-9))))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((j, times)) = tail {
        out.push(format!(
            "The longest operation that met an apply took {} times the p99 of all operations of its workload, at worst ({}; \
             aim: 10).",
            short(times),
            j.workload
        ));
    }
    let create = rows.iter().find(|r| r.mode == Mode::Journal && r.workload == "create empty");
    if let Some(bytes) = create.and_then(|r| r.log_bytes_per_op) {
        out.push(format!("A create costs {} bytes of log (aim: 90).", short(bytes)));
    }
    for mode in Mode::BOTH {
        let under_load: Vec<&JournalRow> =
            rows.iter().filter(|r| r.mode == mode && r.workload.starts_with("fsync beside")).collect();
        let [without, with @ ..] = under_load.as_slice() else { continue };
        for with in with {
            out.push(format!(
                "In {} mode an fsync takes {} µs at p99, and {} in \"{}\" (aim: 20 % more at most).",
                mode.name(),
                short(without.latency_us.p99),
                short(with.latency_us.p99),
                with.workload
            ));
        }
    }
    out
}
