//! Runs damaged volumes through a program in another language: `hostile_files SEED FROM TO PROGRAM [ARGUMENT]…`. The program gets
//! the path of an image on a line of standard input, and answers "opened" or "refused" when it has used it. One that ends, answers
//! anything else, or takes more than a minute, is a finding, and is started again. Exits with 1 if there was one.
use segno_sim::hostile::{image, write_image};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The program, and the lines that it wrote.
struct Subject {
    child: Child,
    answers: Receiver<String>,
}

impl Subject {
    fn start(command: &[String]) -> Result<Self, String> {
        let (program, args) = command.split_first().ok_or("which program?")?;
        let child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| format!("{program}: {e}"))?;
        let (send, answers) = channel();
        let lines = child.stdout.take().map(BufReader::new).ok_or("no standard output")?;
        std::thread::spawn(move || lines.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Self { child, answers })
    }

    /// Whether it opened the image; an error is a finding.
    fn judge(&mut self, path: &Path) -> Result<bool, String> {
        let told = self.child.stdin.as_mut().map(|i| writeln!(i, "{}", path.display()));
        let answer = self.answers.recv_timeout(PATIENCE);
        match answer.as_deref() {
            Ok("opened") => Ok(true),
            Ok("refused") => Ok(false),
            Ok(other) => Err(format!("answered {other:?}")),
            Err(e) => {
                let _may_have_ended = self.child.kill();
                Err(format!("no answer ({e}, {told:?}): {:?}", self.child.wait()))
            }
        }
    }
}

fn run(args: &[String]) -> Result<bool, String> {
    let number = |at: usize, or: u64| args.get(at).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (seed, from, to) = (number(0, 1), number(1, 0), number(2, 1000));
    let command = args.get(3..).unwrap_or_default();
    let path = std::env::temp_dir().join(format!("segno-hostile-{}.img", std::process::id()));
    let mut subject = Subject::start(command)?;
    let (mut opened, mut findings, started) = (0u64, 0u64, Instant::now());
    for number in from..to {
        write_image(&image(seed, number)?, &path)?;
        match subject.judge(&path) {
            Ok(true) => opened += 1,
            Ok(false) => {}
            Err(what) => {
                findings += 1;
                println!("seed {seed}, number {number}: {what}");
                subject = Subject::start(command)?;
            }
        }
    }
    drop(subject.child.stdin.take());
    let ended = subject.child.wait().map_err(|e| e.to_string())?;
    let _ours = std::fs::remove_file(&path);
    let (images, seconds) = (to - from, started.elapsed().as_secs());
    println!(
        "{images} images in {seconds} s, {opened} opened, {findings} findings, the program ended with {ended}"
    );
    Ok(findings == 0 && ended.success())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
