//! Volumes change hands between Linux's F2FS and ours; each side has to find what the other left.

mod cases;
mod job;
pub mod kernel;
mod report;
mod segno;
mod side;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::cases::Case;
use self::job::Job;
use self::kernel::Kernel;
use self::segno::Segno;
use self::side::{Promises, Side, Turn};
use crate::manifest::{Comparison, compare};
use crate::paths::target_dir;
use crate::twin::Machine;
use segno_testkit::Rng;

/// Printed by a script that could change nothing.
const READ_ONLY: &str = "handover: read-only";
const PROMISES: &str = "promises";
/// A field that not every file system and not every FUSE server has.
const BTIME: &str = " btime=";
/// Promises that are made before the power is cut.
const PROMISES_MIN: usize = 6;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Who {
    Kernel,
    Segno,
}

/// Pass volumes between Linux's F2FS and Segno and compare what each finds (needs root)
///
/// The writer makes a file system and fills it; the reader has to find all of it, changes it, and so on in turn. Each
/// volume is checked with fsck.f2fs whenever it changes hands, and with `segno check` where segno takes part.
#[derive(Args)]
pub struct Handover {
    #[arg(long, value_enum, default_value = "kernel")]
    writer: Who,
    #[arg(long, value_enum, default_value = "segno")]
    reader: Who,
    /// The machine that runs Linux
    #[arg(long, value_enum, default_value = "qemu")]
    machine: Machine,
    /// Volumes handed over after an unmount
    #[arg(long, default_value_t = 20)]
    images: usize,
    /// Volumes handed over after a power cut, with fsynced files
    #[arg(long, default_value_t = 10)]
    cut: usize,
    /// How often each volume changes hands
    #[arg(long, default_value_t = 2)]
    turns: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Volumes on which all files are compressed, instead of those of all formats
    #[arg(long)]
    compressed: bool,
    /// Small files on each volume, in addition to those of its operations
    #[arg(long, value_name = "N", default_value_t = 0)]
    files: u32,
    /// Only the volume of this row (repeat)
    #[arg(long, value_name = "NR")]
    only: Vec<usize>,
    /// The segno program [default: target/release/segno]
    #[arg(long, env = "SEGNO", value_name = "PROGRAM")]
    segno: Option<PathBuf>,
    /// Mount options of segno
    #[arg(long, value_name = "OPTIONS")]
    options: Option<String>,
    /// Folder for images and logs [default: target/handover]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Limit of one turn of all volumes, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 1200)]
    timeout: u64,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Handover {
    pub fn run(self) -> Result<ExitCode> {
        let work = self.work.clone().unwrap_or_else(|| target_dir().join("handover"));
        let work = work.join(format!("{:?}-{:?}-{}", self.writer, self.reader, self.seed).to_lowercase());
        if work.exists() {
            fs::remove_dir_all(&work)
                .with_context(|| format!("removing what an earlier run left in {}", work.display()))?;
        }
        fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        let work = work.canonicalize()?;
        let program = std::env::current_exe().context("finding this program")?;
        fs::copy(&program, work.join(job::PROGRAM)).context("copying this program")?;
        let mut relay = Relay {
            writer: self.side(self.writer)?,
            reader: self.side(self.reader)?,
            checker: [self.writer, self.reader].contains(&Who::Segno).then(|| self.program()).transpose()?,
            jobs: self.jobs(&work)?,
            skips: BTreeMap::new(),
            rng: Rng::new(self.seed),
        };
        relay.run(self.turns);

        if self.json {
            println!("{}", report::json(&relay, self.seed)?);
        } else {
            report::table(&relay, self.seed);
        }
        if relay.jobs.iter().any(|job| job.failure().is_some()) {
            eprintln!("handover: images, manifests and logs are kept in {}", work.display());
            for job in relay.jobs.iter().filter(|job| job.failure().is_some()) {
                eprintln!("handover: row {0} alone: the same command with --only {0}", job.number);
            }
            return Ok(ExitCode::FAILURE);
        }
        fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
        Ok(ExitCode::SUCCESS)
    }

    fn jobs(&self, work: &Path) -> Result<Vec<Job>> {
        let all: &'static [Case] = if self.compressed { &cases::COMPRESSED } else { &cases::CASES };
        let cases = cases::clean(all, self.images).map(|case| (case, false));
        let cases = cases.chain(cases::cut(all, self.cut).map(|case| (case, true)));
        cases
            .enumerate()
            .filter(|(number, _)| self.only.is_empty() || self.only.contains(number))
            .map(|(number, (case, cut))| (number, (Case { files: self.files, ..case }, cut)))
            .map(|(number, (case, cut))| Job::new(work, number, case, self.seed * 1000 + number as u64, cut))
            .collect()
    }

    fn side(&self, who: Who) -> Result<Box<dyn Side>> {
        let timeout = Duration::from_secs(self.timeout);
        Ok(match who {
            Who::Kernel => Box::new(Kernel { machine: self.machine, timeout }),
            Who::Segno => Box::new(self.program()?),
        })
    }

    fn program(&self) -> Result<Segno> {
        let program = self.segno.clone().unwrap_or_else(|| target_dir().join("release/segno"));
        let program = program.canonicalize().with_context(|| {
            format!(
                "no program {}; build it with `cargo build --release`, or name it with --segno",
                program.display()
            )
        })?;
        Ok(Segno { program, options: self.options.clone(), timeout: Duration::from_secs(self.timeout) })
    }
}

/// All volumes, and the two that pass them on.
struct Relay {
    writer: Box<dyn Side>,
    reader: Box<dyn Side>,
    /// Second opinion where segno takes part.
    checker: Option<Segno>,
    jobs: Vec<Job>,
    /// Operations that populate had to skip on each side's mounts.
    skips: BTreeMap<&'static str, BTreeSet<String>>,
    rng: Rng,
}

impl Relay {
    fn run(&mut self, turns: usize) {
        for job in &mut self.jobs {
            let made = self.writer.format(job);
            job.record(format!("{} mkfs", self.writer.name()), made);
        }
        self.check();
        self.turn(0, false);
        self.check();
        self.cut();
        for number in 1..=turns {
            self.turn(number, number == turns);
            self.check();
        }
    }

    /// One side's turn on all volumes: find what was left, then change it, unless it is the last.
    fn turn(&mut self, number: usize, last: bool) {
        let side = if number.is_multiple_of(2) { &self.writer } else { &self.reader };
        eprintln!("handover: turn {number}, {}", side.name());
        let turns: Vec<_> = good(&self.jobs)
            .map(|job| Turn { job, label: format!("turn{number}"), script: turn_script(job, number, last) })
            .collect();
        let results = side.visit(&turns);
        drop(turns);
        let name = side.name();
        for (job, result) in self.jobs.iter_mut().filter(|job| job.failure().is_none()).zip(results) {
            let log = job.read(&format!("turn{number}.log")).unwrap_or_default();
            if log.contains(READ_ONLY) {
                job.read_only = Some(name);
            }
            let skips = self.skips.entry(name).or_default();
            skips.extend(skips_in(&log));
            let result = result.and_then(|()| if number == 0 { Ok(()) } else { judge(job, number, skips) });
            job.record(format!("{name} turn {number}"), result);
        }
    }

    /// The writer loses power in the middle of work.
    fn cut(&mut self) {
        let turns: Vec<_> = good(&self.jobs)
            .filter(|job| job.cut)
            .map(|job| Turn {
                job,
                label: "cut".to_owned(),
                script: format!("$XTASK durable --seed {} --count 100000 $DIR $OUT/{PROMISES}", job.seed),
            })
            .collect();
        if turns.is_empty() {
            return;
        }
        eprintln!("handover: power cut, {}", self.writer.name());
        let delay = Duration::from_millis(self.rng.below(900));
        let results = self.writer.cut(&turns, &Promises { log: PROMISES, lines: PROMISES_MIN, delay });
        drop(turns);
        let name = self.writer.name();
        for (job, result) in
            self.jobs.iter_mut().filter(|job| job.cut && job.failure().is_none()).zip(results)
        {
            job.record(format!("{name} cut"), result);
        }
    }

    fn check(&mut self) {
        for job in self.jobs.iter_mut().filter(|job| job.failure().is_none()) {
            let checked = fsck(job);
            job.record("fsck.f2fs", checked);
            if let Some(segno) = &self.checker {
                let checked = segno.check(job);
                job.record("segno check", checked);
            }
        }
    }
}

fn good(jobs: &[Job]) -> impl Iterator<Item = &Job> {
    jobs.iter().filter(|job| job.failure().is_none())
}

fn turn_script(job: &Job, number: usize, last: bool) -> String {
    let manifest = format!("$XTASK manifest --maps --ctime $DIR --out $OUT/turn{number}");
    let seed = job.seed + 100 * number as u64;
    let Case { operations, files, budget, .. } = job.case;
    // The data ranges of data that is not written yet may change when it is written.
    let populate = format!("$XTASK populate --seed {seed} --budget {budget} $DIR");
    let settle = format!("sync -f $DIR && {manifest}.left");
    match (number, last) {
        (0, _) => format!(
            "[ -z \"$READ_ONLY\" ] || {{ echo 'it can be mounted read-only only'; exit 1; }}\n\
             {populate} --ops {operations} --files {files} && {settle}"
        ),
        (_, true) => format!("{manifest}.found"),
        (_, false) => format!(
            "{manifest}.found\n\
             if [ -n \"$READ_ONLY\" ]; then echo {READ_ONLY}; cp $OUT/turn{number}.found $OUT/turn{number}.left\n\
             else {populate} --ops {} --modify && {settle}; fi",
            operations / 2
        ),
    }
}

/// Whether the volume was found as it had been left.
fn judge(job: &Job, number: usize, skips: &mut BTreeSet<String>) -> Result<()> {
    let before = job.read(&format!("turn{}.left", number - 1))?;
    let found = job.read(&format!("turn{number}.found"))?;
    let mut comparison = Comparison::default();
    if [&before, &found].iter().any(|manifest| !manifest.contains(BTIME)) {
        comparison.ignored.push("btime".to_owned());
        if before.contains(BTIME) {
            skips.insert("btime: not told".to_owned());
        }
    }
    if job.case.mkfs.iter().any(|word| word.contains("compression")) {
        // Linux's SEEK_DATA takes the first page of a compressed cluster for a hole.
        comparison.ignored.push("map".to_owned());
    }
    let differences = if job.cut && number == 1 {
        comparison.subset = true;
        comparison.ignored.push("link".to_owned());
        let mut differences = compare(whole_lines(&job.read(PROMISES)?), &found, &comparison)?;
        differences.extend(compare(
            &untouched(&before, &job.read("promises.touched")?),
            &found,
            &comparison,
        )?);
        differences
    } else {
        compare(&before, &found, &comparison)?
    };
    if let [first, ..] = &differences[..] {
        bail!("{} differences, the first: {first}", differences.len());
    }
    Ok(())
}

/// All lines but an incomplete last one: nothing was promised by a line that the power cut interrupted.
fn whole_lines(log: &str) -> &str {
    log.rfind('\n').and_then(|end| log.get(..=end)).unwrap_or_default()
}

/// The lines of files that were not changed before the power cut; directories may have got new names.
fn untouched(manifest: &str, touched: &str) -> String {
    let touched: BTreeSet<&str> = touched.lines().collect();
    let kept = manifest.lines().filter(|line| {
        let path = line.split(' ').next().unwrap_or_default();
        !line.contains(" type=dir ") && !touched.contains(path)
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// The operations that populate skipped, without their counts.
fn skips_in(log: &str) -> impl Iterator<Item = String> {
    let skipped = log.lines().filter_map(|line| line.strip_prefix("populate: skipped "));
    skipped.map(|line| line.rsplit_once(", ").map_or(line, |(what, _)| what).to_owned())
}

fn fsck(job: &Job) -> Result<()> {
    let report = crate::fsck::check(job.image())?;
    fs::write(job.file("fsck.log"), &report.output).context("keeping what fsck.f2fs said")?;
    report.verdict().map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::{skips_in, untouched, whole_lines};

    #[test]
    fn skips_are_named_once() {
        let log = "populate: skipped casefold flag: EOPNOTSUPP, 7 times\npopulate: seed 1, 250 operations\n";
        assert_eq!(skips_in(log).collect::<Vec<_>>(), ["casefold flag: EOPNOTSUPP"]);
    }

    #[test]
    fn a_line_that_the_power_cut_ended_promises_nothing() {
        assert_eq!(whole_lines("a type=file\nb type=fi"), "a type=file\n");
        assert_eq!(whole_lines("a type=file\n"), "a type=file\n");
        assert_eq!((whole_lines("a ty"), whole_lines("")), ("", ""));
    }

    #[test]
    fn directories_and_touched_files_are_left_out() {
        let manifest =
            ". type=dir mode=0755\na type=file size=1\nb type=file size=2\nc type=fifo mode=0600\n";
        assert_eq!(untouched(manifest, "b\n"), "a type=file size=1\nc type=fifo mode=0600\n");
    }
}
