//! The inputs by number, the process that makes them, and the folder of a worker.
use crate::measure::{self, Job, Usage};
use crate::table::{ON_ARCHIVES, ON_BUCKETS, ON_IMAGES, ON_SPARSE, Row};
use crate::{archives, buckets, images, sparse};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Image,
    Archive,
    Sparse,
    Bucket,
}

impl Kind {
    pub fn of(number: u64) -> Self {
        match number % 9 {
            0 | 3 | 6 => Self::Image,
            1 | 4 => Self::Archive,
            7 => Self::Sparse,
            _ => Self::Bucket,
        }
    }

    /// The commands that this input is for. All have their turn: of 10,000 inputs each has more than 1000.
    pub fn rows(self, number: u64, only: Option<&str>) -> Vec<&'static Row> {
        let (rows, count) = match self {
            Self::Image => (ON_IMAGES, 12),
            Self::Archive => (ON_ARCHIVES, 3),
            Self::Sparse => (ON_SPARSE, ON_SPARSE.len()),
            Self::Bucket => (ON_BUCKETS, 5),
        };
        match only {
            Some(only) => rows.iter().filter(|row| row.name.contains(only)).collect(),
            None => rows.iter().cycle().skip(number as usize / 3 * count % rows.len()).take(count).collect(),
        }
    }
}

const INPUT: &str = "input";
/// The further device of a volume of two.
pub const MEMBER: &str = "member";
/// Output of commands. Mount a small file system there if outputs shall not take the room of inputs.
const OUT: &str = "out";
const SOUND: &str = "sound/v";

/// Makes an input for each number on standard input, in a worker's folder, and repeats the number.
pub fn make_all(seed: u64, work: &Path) -> Result<(), String> {
    let (input, member) = (work.join(INPUT), work.join(MEMBER));
    for line in std::io::stdin().lines() {
        let number: u64 = line.map_err(|e| e.to_string())?.parse().map_err(|_| "not a number")?;
        clear(&input);
        clear(&member);
        match Kind::of(number) {
            Kind::Image => images::make(seed, number, &input, &member),
            Kind::Archive => archives::make(seed, number, &input),
            Kind::Sparse => sparse::make(seed, number, &input),
            Kind::Bucket => buckets::make(seed, number, &work.join(SOUND), &input),
        }
        .map_err(|e| format!("input {number}: {e}"))?;
        println!("{number}");
    }
    Ok(())
}

fn clear(path: &Path) {
    let _may_be_absent = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// The process that makes inputs. It holds the volumes that are damaged, and is not the parent of measured processes.
pub struct Maker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Maker {
    pub fn start(seed: u64, work: &Path) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.arg("make").arg(seed.to_string()).arg(work).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).ok_or("no pipes")?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    pub fn make(&mut self, number: u64) -> Result<(), String> {
        let mut line = String::new();
        let asked = writeln!(self.input, "{number}").and_then(|()| self.output.read_line(&mut line));
        match line.trim().parse::<u64>() {
            Ok(made) if number == made => Ok(()),
            _ => Err(format!("input {number} was not made ({asked:?}): {:?}", self.child.wait())),
        }
    }
}

/// A folder with the files that all runs need.
pub struct Worker {
    dir: PathBuf,
    segno: PathBuf,
    pub has_store: bool,
}

impl Worker {
    pub fn new(dir: &Path, segno: &Path) -> Result<Self, String> {
        clear(dir);
        let text = |e: std::io::Error| format!("{}: {e}", dir.display());
        for name in ["mnt", "home", OUT] {
            fs::create_dir_all(dir.join(name)).map_err(text)?;
        }
        fs::write(dir.join("file"), vec![7; 300_000]).map_err(text)?;
        let has_store = buckets::prepare(segno, dir)?;
        if !has_store {
            println!("NOT TESTED: buckets, as {} has no object stores", segno.display());
        }
        Ok(Self { dir: dir.to_owned(), segno: segno.to_owned(), has_store })
    }

    pub fn measure(&self, kind: Kind, row: &Row) -> Result<Usage, String> {
        let input = self.dir.join(INPUT).display().to_string();
        let input = if kind == Kind::Bucket { format!("file://{input}") } else { input };
        let usage = measure::run(Job { segno: &self.segno, work: &self.dir, input: &input }, row.script);
        let made = fs::read_dir(self.dir.join(OUT)).map_err(|e| e.to_string())?;
        made.flatten().for_each(|entry| clear(&entry.path()));
        usage
    }
}
