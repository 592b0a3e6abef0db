//! Compares the published figures of F2FSJ with those of this run.
use super::loss::Lost;
use super::mode::Mode;
use super::page::{compared, ratio_of_journaling};
use super::recovery::Recovered;
use super::row::JournalRow;
use crate::page::{Table, short};
use crate::place::Place;
use crate::sample::Sample;

/// All that the published figures are compared with.
pub struct Found<'a> {
    pub rows: &'a [JournalRow],
    pub place: &'a Place,
    pub lost: Vec<Lost>,
    pub recovered: Vec<Recovered>,
}

/// Published figures by workload: our name, the paper's name, the factor by which journaling takes less time, the change of the mean latency in percent.
const STEPS: [(&str, &str, &str, &str); 4] = [
    ("mkdir", "mkdir", "2.4", "− 23"),
    ("rmdir", "rmdir", "1.7", "− 35"),
    ("create 4 KiB", "create-4KB", "3.6", "− 13"),
    ("unlink 4 KiB", "unlink-4KB", "4.9", "− 33"),
];
const THROUGHPUT: &str = "1.11 to 1.69 times";
/// Recovered files in percent.
const RECOVERED: [(Mode, &str); 3] =
    [(Mode::Journal, "99.9"), (Mode::Minute, "90.9"), (Mode::Second, "98.9")];
const RECOVERY: &str = "5.4 to 6.8 times faster";

const WHY_TIME: &str = "each commit waits for a flush, and an apply takes longer than a checkpoint, as operations run meanwhile and \
    share the processors; a checkpoint every 60 seconds makes nothing durable in between";
const WHY_LATENCY: &str = "an operation takes microseconds of processor time and no system call here, so recording its change is a \
    larger part of it, and the wait for a checkpoint a smaller one";
const WHY_THROUGHPUT: &str = "other workloads, which end with everything durable here, and processors that commits and applies share with \
    operations";
const WHY_RECOVERED: &str = "it is not known when the paper's cuts fall; here uniformly in 100 seconds, and before the first checkpoint all is \
    lost. A commit or checkpoint takes no time here. The journal commits metadata every second; data is written every 5";
const WHY_RECOVERY: &str =
    "no device takes time here, and the time of the checkpoint that ends recovery is part of both";

pub fn table(found: &Found<'_>) -> Table {
    let engine = format!("engine, {}", found.place.describe());
    let mut rows: Vec<[String; 5]> = Vec::new();
    let mut compare = |figure: &str, paper: &str, measured: Option<String>, source: &str, why: &str| {
        let row =
            |measured| [figure.to_owned(), paper.to_owned(), measured, source.to_owned(), why.to_owned()];
        rows.extend(measured.map(row));
    };
    for (ours, name, paper, _) in STEPS {
        let measured = against(found.rows, ours, ratio_of_journaling, |v| format!("{} ×", short(v)));
        compare(
            &format!("journal time, {name}"),
            &format!("{paper} times less"),
            measured,
            &engine,
            WHY_TIME,
        );
    }
    for (ours, name, _, paper) in STEPS {
        let measured = against(found.rows, ours, change_of_latency, |v| format!("{v:+.0} %"));
        compare(&format!("mean latency, {name}"), &format!("{paper} %"), measured, &engine, WHY_LATENCY);
    }
    compare("throughput", THROUGHPUT, throughput(found.rows), &engine, WHY_THROUGHPUT);
    for (mode, paper) in RECOVERED {
        let measured = found.lost.iter().find(|l| l.mode == mode).map(recovered);
        let what = format!("files recovered, {}", mode.name());
        compare(&what, &format!("{paper} %"), measured, "engine in memory, simulated clock", WHY_RECOVERED);
    }
    compare("recovery time", RECOVERY, recovery_time(&found.recovered), "engine in memory", WHY_RECOVERY);
    Table {
        title: "Claims of F2FSJ and this run".into(),
        head: ["claim", "paper", "measured", "source", "why they differ"].map(str::to_owned).into(),
        rows: rows.into_iter().map(Vec::from).collect(),
        note: "The paper's figures (OSDI 2025) are second-hand. Measured against checkpoints every 60 seconds and every second, in \
               this order. No figure is of a mount or of F2FS in Linux."
            .into(),
    }
}

/// A figure of the journal against each of the classic modes.
fn against(
    rows: &[JournalRow],
    workload: &str,
    figure: fn(&JournalRow, &JournalRow) -> Option<f64>,
    show: fn(f64) -> String,
) -> Option<String> {
    let find = |mode: Mode| rows.iter().find(|r| r.workload == workload && r.mode == mode);
    let journal = find(Mode::Journal)?;
    let cells = Mode::CLASSIC.map(|m| find(m).map(|c| compared(c, journal, figure, show)));
    Some(cells.into_iter().collect::<Option<Vec<String>>>()?.join("; "))
}

fn change_of_latency(classic: &JournalRow, journal: &JournalRow) -> Option<f64> {
    Some((journal.latency_us.mean / classic.latency_us.mean - 1.0) * 100.0)
}

fn throughput(rows: &[JournalRow]) -> Option<String> {
    let of = |mode: Mode| {
        let pairs = rows.chunk_by(|a, b| a.workload == b.workload).filter_map(|all| {
            let find = |m: Mode| all.iter().find(|r| r.mode == m && r.is_long_enough());
            Some(find(Mode::Journal)?.ops_per_s / find(mode)?.ops_per_s)
        });
        Sample::of(&pairs.collect::<Vec<f64>>())
    };
    let cells = Mode::CLASSIC.map(of);
    let text = |s: &Sample| {
        format!("{} to {} times, median {} of {} rows", short(s.min), short(s.max), short(s.median), s.n)
    };
    cells.iter().all(|s| s.n > 0).then(|| cells.each_ref().map(text).join("; "))
}

fn recovered(lost: &Lost) -> String {
    format!(
        "{:.1} % with content, {:.1} % by name; {} s of work lost on average, {} at most",
        lost.files.share_percent(),
        lost.names.share_percent(),
        short(lost.files.mean()),
        short(lost.files.longest)
    )
}

fn recovery_time(found: &[Recovered]) -> Option<String> {
    let cells: Vec<String> =
        found.iter().map(|r| format!("{} times for {} files", short(r.faster()), r.files)).collect();
    (!cells.is_empty()).then(|| cells.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::row::{Once, Phases, combine};
    use super::*;
    use crate::{Histogram, Recorded};

    /// A run of 10 operations with commits and checkpoints of this many milliseconds in all.
    fn row(mode: Mode, checkpoints: u64, commit_ms: u64, checkpoint_ms: u64, latency: u64) -> JournalRow {
        let times = Histogram::default();
        times.record(latency);
        let phases = Phases {
            commit: [commit_ms * 1_000_000; 4],
            apply: checkpoint_ms * 1_000_000,
            ..Phases::default()
        };
        let once = Once {
            workload: "mkdir".into(),
            seconds: latency as f64,
            ops: 10,
            latency: times.recorded(),
            applying: Recorded::default(),
            blocked: Recorded::default(),
            bytes_written: 0,
            flushes: 0,
            log_bytes: None,
            checkpoints,
            commits: 0,
            phases,
        };
        combine(mode, 1, &[&once])
    }

    /// In all modes, with so many checkpoints every 60 seconds.
    fn rows(checkpoints: u64) -> [JournalRow; 3] {
        [
            row(Mode::Minute, checkpoints, 0, 400, 20),
            row(Mode::Second, 300, 0, 1000, 40),
            row(Mode::Journal, 10, 25, 100, 10),
        ]
    }

    fn measured(rows: &[JournalRow], figure: &str) -> Option<String> {
        let place = Place::memory(1 << 20);
        let found = Found { rows, place: &place, lost: Vec::new(), recovered: Vec::new() };
        table(&found).rows.into_iter().find(|r| r[0] == figure).map(|r| r[2].clone())
    }

    /// Four steps of 25 ms and applies of 100 are 200 ms of journaling.
    #[test]
    fn a_figure_is_of_whole_commits_and_applies_against_both_classic_modes() {
        let rows = rows(5);
        assert_eq!(measured(&rows, "journal time, mkdir").as_deref(), Some("2 ×; 5 ×"));
        assert_eq!(measured(&rows, "mean latency, mkdir").as_deref(), Some("-50 %; -75 %"));
        let throughput = "2 to 2 times, median 2 of 1 rows; 4 to 4 times, median 4 of 1 rows";
        assert_eq!(measured(&rows, "throughput").as_deref(), Some(throughput));
        assert_eq!(measured(&rows, "journal time, rmdir"), None, "not run");
    }

    #[test]
    fn a_row_with_fewer_than_five_checkpoints_gives_no_ratio() {
        let rows = rows(4);
        assert_eq!(measured(&rows, "journal time, mkdir").as_deref(), Some("too few (4 and 10); 5 ×"));
        assert_eq!(measured(&rows, "throughput"), None);
    }

    #[test]
    fn the_result_page_has_every_published_figure() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/results/journal.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (_, name, time, latency) in STEPS {
            for line in [
                format!("| journal time, {name} | {time} times less |"),
                format!("| mean latency, {name} | {latency} % |"),
            ] {
                assert!(page.contains(&line), "{line}");
            }
        }
        for (mode, share) in RECOVERED {
            let line = format!("| files recovered, {} | {share} % |", mode.name());
            assert!(page.contains(&line), "{line}");
        }
        for line in [format!("| throughput | {THROUGHPUT} |"), format!("| recovery time | {RECOVERY} |")] {
            assert!(page.contains(&line), "{line}");
        }
    }
}
