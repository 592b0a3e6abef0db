//! Every command of docs/guide, run in the order of its page, with its output compared.
//!
//! A page is all files of docs/guide/*.md; a new one needs no line here. In a block marked `console` a line
//! that begins with `$ ` is a command for bash, continued by lines that begin with `> `; the lines below it
//! are its output, standard error included. `…` stands for any text of a line; a line with nothing else
//! stands for any lines. A command has to succeed: one that should fail ends with `|| echo "exit code $?"`.
//! Pages start in an empty directory and share nothing. A line of a block marked `fstab` has options that
//! `segno mount` accepts. A page with `file://` needs the feature `store`, which is on by default. A block
//! marked `console user` is run as an ordinary user. Pages find `super.img`, which only Android's build
//! makes, in their directory. `UPDATE_DOCS=1` writes the output that was found.
use super::{output, refusal};
use segno_testkit::super_image::{fill, super_image};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Names under which a page may call the program.
const NAMES: [&str; 4] = ["segno", "fsck.segno", "mkfs.segno", "mount.segno"];
/// Languages of blocks that have no commands.
/// Language of blocks that are run as an ordinary user.
const BY_USER: &str = "console user";
const SILENT: [&str; 8] = ["text", "rust", "toml", "ini", "json", "yaml", "python", "c"];
/// Pages that run at a time: they wait for mounts more than they compute.
const WORKERS: usize = 3;

/// A command with the lines of its output in the page, as a range of line numbers.
struct Step {
    command: String,
    /// As an ordinary user.
    by_user: bool,
    output: std::ops::Range<usize>,
}

struct Page {
    path: PathBuf,
    lines: Vec<String>,
    steps: Vec<Step>,
    fstab: Vec<String>,
}

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let mut page = Self { path, lines: Vec::new(), steps: Vec::new(), fstab: Vec::new() };
        let mut language: Option<String> = None;
        for (n, line) in lines.iter().enumerate() {
            match (line.strip_prefix("```"), language.as_deref()) {
                (Some(_), Some(_)) => language = None,
                (Some(word), None) => language = Some(word.to_owned()),
                (None, Some(console @ ("console" | BY_USER))) => page.line(n, line, console == BY_USER),
                (None, Some("fstab")) => page.fstab.push(line.clone()),
                (None, Some(other)) => {
                    let place = format!("{}:{}", page.path.display(), n + 1);
                    let known = SILENT.contains(&other.split(',').next().unwrap());
                    assert!(known, "{place}: a block needs one of the languages {SILENT:?}");
                    assert!(!line.starts_with("$ "), "{place}: commands are in blocks marked console");
                }
                (None, None) => {}
            }
        }
        page.lines = lines;
        page
    }

    /// A line of a block of commands.
    fn line(&mut self, n: usize, line: &str, by_user: bool) {
        if let Some(command) = line.strip_prefix("$ ") {
            self.steps.push(Step { command: command.to_owned(), by_user, output: n + 1..n + 1 });
            return;
        }
        let step = self.steps.last_mut().unwrap_or_else(|| panic!("{}: {line}", self.path.display()));
        match line.strip_prefix("> ") {
            Some(more) if step.output.is_empty() => {
                step.command = format!("{}\n{more}", step.command);
                step.output = n + 1..n + 1;
            }
            _ => step.output.end = n + 1,
        }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap().to_string_lossy().into_owned()
    }

    /// The requirement of this page that is not met here.
    fn missing(&self) -> Option<&'static str> {
        let has = |words: &str| self.steps.iter().any(|s| s.command.contains(words));
        let can_mount = || fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
        if has("file://") && !cfg!(feature = "store") {
            return Some("segno is built without the feature store");
        }
        (has("segno mount") && !can_mount()).then_some("/dev/fuse cannot be opened")
    }

    /// Runs all commands. Returns what differs, and the page as it would be right.
    fn run(&self, super_image: &[u8]) -> (Vec<String>, String) {
        let place = Place::new();
        if self.steps.iter().any(|s| s.command.contains("super.img")) {
            fs::write(place.dir.path().join("super.img"), super_image).unwrap();
        }
        let mut differences = Vec::new();
        let (mut right, mut next) = (Vec::new(), 0);
        for step in &self.steps {
            let expected = &self.lines[step.output.clone()];
            let (code, found) = place.run(&step.command, step.by_user);
            right.extend_from_slice(&self.lines[next..step.output.start]);
            next = step.output.end;
            if code == Some(0) && matches(expected, &found) {
                right.extend_from_slice(expected);
            } else {
                let (line, wanted, got) = (step.output.start, expected.join("\n"), found.join("\n"));
                let command = &step.command;
                differences.push(format!(
                    "{}:{line}: $ {command}\nexit code {code:?}\n-- in the page\n{wanted}\n-- found\n{got}",
                    self.name()
                ));
                right.extend(found);
            }
        }
        right.extend_from_slice(&self.lines[next..]);
        (differences, right.join("\n") + "\n")
    }
}

/// A directory for the commands of a page.
struct Place {
    dir: tempfile::TempDir,
    bin: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap(), bin: tempfile::tempdir().unwrap() };
        for dir in [&place.dir, &place.bin] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in NAMES {
            symlink(env!("CARGO_BIN_EXE_segno"), place.bin.path().join(name)).unwrap();
        }
        place
    }

    /// Exit code and output.
    fn run(&self, command: &str, by_user: bool) -> (Option<i32>, Vec<String>) {
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let is_root = rustix::process::geteuid().is_root();
        let before = if by_user && is_root { &user[..] } else { &["env"] };
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}:/usr/sbin:/sbin", self.bin.path().display());
        let out = Command::new(before[0])
            .args(&before[1..])
            .args(["bash", "-c", &format!("umask 022; exec 2>&1\n{command}")])
            .current_dir(self.dir.path())
            .envs([("PATH", path.as_str()), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("COLUMNS", "80")])
            .env_remove("SOURCE_DATE_EPOCH")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout)
            .replace(&self.dir.path().display().to_string(), "/tmp/guide");
        // A busy machine takes its time.
        let lines = text.lines().filter(|line| !line.contains(" is being written out and closed ("));
        (out.status.code(), lines.map(str::to_owned).collect())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let dirs = mounts.lines().filter_map(|l| l.split(' ').nth(1));
        for dir in dirs.filter(|d| Path::new(d).starts_with(self.dir.path())) {
            // A page that failed leaves its mount. A mount that cannot be unmounted here stays visible to the
            // user.
            let _ended = Command::new(env!("CARGO_BIN_EXE_segno")).args(["umount", dir]).output();
        }
    }
}

/// Whether output fits a page.
fn matches(expected: &[String], found: &[String]) -> bool {
    match expected {
        [] => found.is_empty(),
        [any, rest @ ..] if any == "…" => (0..=found.len()).any(|n| matches(rest, &found[n..])),
        [line, rest @ ..] => {
            found.split_first().is_some_and(|(first, found)| fits(line, first) && matches(rest, found))
        }
    }
}

/// Whether a line fits a pattern.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|start| line.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

/// The super image of a phone that never had an update: the second slot is empty.
fn phone() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let volume = |name: &str| {
        let (tree, image) = (path("tree"), path(name));
        fs::create_dir_all(format!("{tree}/etc")).unwrap();
        fs::write(format!("{tree}/build.prop"), format!("ro.product.{name}.name=demo\n")).unwrap();
        let time = ["-T", "1700000000", "--owner", "root", "--read-only"];
        output(&[&["build", "-q", "-l", name][..], &time, &[&tree, &image]].concat());
        fs::read(image).unwrap()
    };
    let volumes = ["system", "vendor"].map(volume);
    let sectors = volumes[0].len() as u64 / 512;
    let part = |at: u64| [(at + 4096, sectors - 2048, 0), (at, 2048, 0)];
    let (system, vendor) = (part(2048), part(65_536));
    let slot =
        [("system_a", 0, &system[..]), ("system_b", 0, &[]), ("vendor_a", 0, &vendor), ("vendor_b", 0, &[])];
    let mut image = super_image(&[&slot], 64 << 20);
    fill(&mut image, &system, &volumes[0]);
    fill(&mut image, &vendor, &volumes[1]);
    image
}

fn pages() -> Vec<Page> {
    let files = fs::read_dir(guide()).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

#[test]
fn every_command_has_the_output_of_the_guide() {
    let (pages, image, next) = (pages(), phone(), AtomicUsize::new(0));
    assert!(pages.len() > 10, "the guide was not found");
    let only = std::env::var("GUIDE_PAGE").unwrap_or_default();
    let worker = || {
        let mut differences = Vec::new();
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !page.name().contains(&only) {
                continue;
            }
            if let Some(missing) = page.missing() {
                println!("NOT TESTED: {}: {missing}", page.name());
                continue;
            }
            let (differ, right) = page.run(&image);
            if std::env::var_os("UPDATE_DOCS").is_some() && !differ.is_empty() {
                fs::write(&page.path, right).unwrap();
            }
            differences.extend(differ);
        }
        differences
    };
    let differences: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn lines_for_fstab_have_options_that_exist() {
    let mut found = 0;
    for page in pages() {
        for line in page.fstab.iter().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            assert_eq!((fields.len(), fields[2]), (6, "segno"), "{}: {line}", page.name());
            let (_, said) = refusal(&["mount", "-f", "-o", fields[3], "/nonexistent/image", "/nonexistent"]);
            assert!(!said.contains("mount option") && said.contains("/nonexistent"), "{line}: {said}");
            found += 1;
        }
    }
    assert!(found > 2, "{found}");
}

#[test]
fn every_page_is_listed() {
    let contents = fs::read_to_string(guide().join("README.md")).unwrap();
    for page in pages().iter().map(Page::name).filter(|n| n != "README.md") {
        assert!(contents.contains(&format!("]({page})")), "docs/guide/README.md does not name {page}");
    }
}

#[test]
fn links_lead_to_files() {
    for page in pages() {
        let text = page.lines.join("\n");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            let there = target.starts_with("https://") || file.is_empty() || guide().join(file).exists();
            assert!(there, "{}: {target}", page.name());
        }
    }
}

#[test]
fn output_fits_patterns() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (pattern, output, expected) in [
        ("a b", "a b", true),
        ("a …", "a b", true),
        ("…a…c", "xabc", true),
        ("a…", "b", false),
        ("a", "ab", false),
        ("a…a", "a", false),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…", "a", true),
        ("a", "a\nb", false),
    ] {
        assert_eq!(matches(&lines(pattern), &lines(output)), expected, "{pattern:?} {output:?}");
    }
}
