//! The ceiling of `segno bench peers`: the kernel sends it the requests that it sends to Segno, and it is a file system.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Why nothing can be mounted here, if so.
fn refusal() -> Option<&'static str> {
    let has_fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let is_root = fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    (!has_fuse).then_some("/dev/fuse cannot be opened").or((!is_root).then_some("it takes root"))
}

fn transports() -> Vec<&'static str> {
    let uring = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    if uring.is_ok_and(|on| on.starts_with('Y')) {
        return vec!["classic", "io_uring"];
    }
    println!("NOT TESTED: the kernel has no FUSE over io_uring");
    vec!["classic"]
}

/// A folder with `segno` and `segno-lab`, where each looks for the other: both are links to the laboratory's
/// program.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["segno", "segno-lab"] {
            fs::hard_link(env!("CARGO_BIN_EXE_segno-lab"), dir.path().join(name)).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(self.path(program));
        let out =
            command.args(words).current_dir(self.0.path()).env("TMPDIR", self.0.path()).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

type Requests = BTreeMap<String, f64>;

/// Segno reads inodes around the one that it needs, so that it lists a few directories with attributes that the ceiling does not know yet: the
/// kernel looks each of these up.
const LISTED_COLD: [&str; 2] = ["du cold", "grep cold"];
/// Both refuse these the first time, and the kernel sends no more. It depends on other programs in which row that is.
const ONCE: [&str; 3] = ["opendir", "flush", "access"];

fn requests(report: &Value, peer: &str) -> BTreeMap<String, Requests> {
    let rows = report["results"].as_array().unwrap().iter().filter(|row| row["peer"] == peer);
    let of = |row: &Value| serde_json::from_value(row["requests_by_operation"].clone()).unwrap();
    rows.map(|row| (row["row"].as_str().unwrap().to_owned(), of(row))).collect()
}

/// Where the requests of a row differ, if they do.
fn difference(row: &str, of_segno: &Requests, of_ceiling: &Requests) -> Option<String> {
    let asked = of_segno.keys().chain(of_ceiling.keys()).filter(|op| !ONCE.contains(&op.as_str()));
    asked.into_iter().find_map(|op| {
        let [a, b] = [of_segno, of_ceiling].map(|of| of.get(op).copied().unwrap_or(0.0));
        let allowed = if LISTED_COLD.contains(&row) && op == "lookup" { 0.06 } else { 0.005 };
        let differs = (a - b).abs() > allowed;
        differs.then(|| format!("{row}: {op} {a} and {b} a unit: {of_segno:?} and {of_ceiling:?}"))
    })
}

/// The rows whose requests differ in a run, with the difference.
fn differences(programs: &Programs, transport: &str) -> BTreeMap<String, String> {
    let options = format!("transport={transport}");
    let line = "bench peers --peers ceiling --quick --rounds 1 --files 500 --groups names,files,tree,data,databases --json";
    let words: Vec<&str> = line.split(' ').chain(["--options", &options]).collect();
    let report: Value = serde_json::from_str(&programs.run("segno-lab", &words)).unwrap();
    let (segno, ceiling) = (requests(&report, "segno"), requests(&report, "ceiling"));
    assert_eq!(segno.keys().collect::<Vec<_>>(), ceiling.keys().collect::<Vec<_>>());
    assert!(segno.len() >= 26, "{segno:?}");
    let differing =
        segno.iter().filter_map(|(row, asked)| Some((row, difference(row, asked, &ceiling[row])?)));
    differing.map(|(row, difference)| (row.clone(), difference)).collect()
}

/// Readahead of the kernel, and the pages and inodes that it drops and requests again, depend on other work
/// on the machine. So each row has to be equal in one of some runs.
#[test]
fn the_ceiling_gets_the_requests_that_segno_gets() {
    const RUNS: usize = 4;
    if let Some(why) = refusal() {
        return println!("NOT TESTED: {why}");
    }
    let programs = Programs::new();
    for transport in transports() {
        let mut differing = differences(&programs, transport);
        for _ in 1..RUNS {
            if differing.is_empty() {
                break;
            }
            println!("{transport}: {differing:?}");
            let again = differences(&programs, transport);
            differing.retain(|row, _| again.contains_key(row));
        }
        assert!(differing.is_empty(), "{transport}, in each of {RUNS} runs: {differing:?}");
    }
}

/// The ceiling on an image, mounted.
struct Mounted {
    server: Child,
    dir: PathBuf,
}

impl Mounted {
    fn new(programs: &Programs, options: &str) -> Self {
        let (image, dir) = (programs.path("image"), programs.path("mnt"));
        fs::create_dir_all(&dir).unwrap();
        let mut server = Command::new(programs.path("segno-lab"))
            .args(["mount-ceiling", "-o", options])
            .args([&image, &dir])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("mounted at "), "{options}: {line}");
        Self { server, dir }
    }

    fn end(mut self) {
        assert!(Command::new("umount").arg(&self.dir).status().unwrap().success());
        assert!(self.server.wait().unwrap().success());
    }
}

/// The same changes in any directory.
fn change(dir: &Path) {
    fs::create_dir_all(dir.join("a/b")).unwrap();
    fs::write(dir.join("a/one"), vec![1; 10_000]).unwrap();
    fs::write(dir.join("a/two"), vec![2; 4096]).unwrap();
    fs::rename(dir.join("a/one"), dir.join("a/b/moved")).unwrap();
    fs::write(dir.join("replaced"), "old").unwrap();
    fs::rename(dir.join("a/two"), dir.join("replaced")).unwrap();
    fs::hard_link(dir.join("replaced"), dir.join("a/link")).unwrap();
    symlink("a/link", dir.join("symlink")).unwrap();
    let file = File::create(dir.join("holes")).unwrap();
    for (at, byte) in [(100_000, 3), (5_000, 4), (4_094, 5)] {
        file.write_all_at(&[byte; 5], at).unwrap();
    }
    file.set_len(100_001).unwrap();
    file.set_len(120_000).unwrap();
    file.sync_all().unwrap();
    fs::copy(dir.join("holes"), dir.join("copy")).unwrap();
    for name in ["gone", "unlinked"] {
        fs::write(dir.join(name), vec![6; 300_000]).unwrap();
        fs::remove_file(dir.join(name)).unwrap();
    }
    fs::create_dir(dir.join("empty")).unwrap();
    assert!(fs::remove_dir(dir.join("a")).is_err());
    fs::remove_dir(dir.join("empty")).unwrap();
}

#[test]
fn files_are_those_of_another_file_system_and_stay_for_the_next_mount() {
    if let Some(why) = refusal() {
        return println!("NOT TESTED: {why}");
    }
    let programs = Programs::new();
    let expected = tempfile::tempdir().unwrap();
    change(expected.path());
    for transport in transports() {
        File::create(programs.path("image")).unwrap().set_len(1 << 30).unwrap();
        programs.run("segno", &["mkfs", "-f", "-q", "image"]);
        let options = format!("transport={transport}");
        for mount in ["first", "second"] {
            let mounted = Mounted::new(&programs, &options);
            if mount == "first" {
                change(&mounted.dir);
            }
            let mut diff = Command::new("diff");
            diff.args(["-r", "--no-dereference"]).args([expected.path(), &mounted.dir]);
            let same = diff.output().unwrap();
            let found = String::from_utf8_lossy(&same.stdout);
            assert!(same.status.success(), "{transport}, {mount} mount: {found}");
            mounted.end();
        }
    }
}
