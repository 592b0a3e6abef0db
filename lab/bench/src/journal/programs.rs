//! Programs on mounts in both modes: `git clone` of a repository of some size, and a build.
use super::Scale;
use super::mode::Mode;
use super::row::Extra;
use super::tree;
use crate::budget::Budget;
use crate::mounts::{FileSystem, Site, is_installed};
use crate::page::{Figure, Table, short};
use crate::progress::Progress;
use crate::report::Report;
use crate::sample::{Sample, alternate};
use crate::work::fs::Mounted;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const BYTES: u64 = 4 << 30;
/// Functions of a crate.
const FUNCTIONS: u32 = 300;

#[derive(Clone, Copy)]
enum Work {
    Clone,
    Build,
}

/// Seconds until the program ended, and until everything was durable.
type Durations = (f64, f64);

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Clone => "git clone",
            Self::Build => "cargo build",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Clone => "git",
            Self::Build => "cargo",
        }
    }

    /// The source data, outside the mount.
    fn prepare(self, host: &Path, scale: &Scale, seed: u64) -> Result<()> {
        match self {
            Self::Clone => repository(&host.join("repository"), scale, seed),
            Self::Build => project(&host.join("project"), scale),
        }
    }

    fn run(self, host: &Path, dir: &Path) -> Result<()> {
        match self {
            // No hard links, so that everything is written.
            Self::Clone => {
                let from = format!("file://{}", host.join("repository").display());
                carry_out("git", &["clone", "-q", &from, "clone"], dir)
            }
            Self::Build => carry_out("cargo", &["build", "-q", "--offline"], &dir.join("project")),
        }
    }
}

/// Rows and a table of the selected programs; a note names those that are not installed.
pub fn measure(
    scale: &Scale,
    seed: u64,
    wanted: &dyn Fn(&str) -> bool,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<()> {
    let mut rows = Vec::new();
    for work in [Work::Clone, Work::Build].into_iter().filter(|w| wanted(w.name())) {
        if !is_installed(work.program()) {
            report.notes.push(format!("{} is left out: {} is not installed.", work.name(), work.program()));
            continue;
        }
        let found = alternate(&Mode::BOTH, scale.rounds, &Budget::unlimited(), |mode, round| {
            progress.step(&format!("{} on a mount: {}, round {}", work.name(), mode.name(), round + 1));
            once(work, mode, scale, seed)
        })?;
        for (mode, rounds) in &found {
            let (ended, durable): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
            let (ended, durable) = (Sample::of(&ended), Sample::of(&durable));
            let extra = [("program_s", ended.median)];
            report.push(&Extra::new(work.name().to_owned(), *mode, durable.median, &extra))?;
            let cells =
                [ended, durable].map(|s| format!("{} ± {} %", short(s.median), short(s.spread_percent())));
            rows.push([vec![work.name().to_owned(), mode.name().to_owned()], cells.into()].concat());
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    report.figures.push(Figure::Table(Table {
        title: "Programs through a mount, seconds".into(),
        head: ["program", "mode", "until it ended", "until all was durable"].map(str::to_owned).into(),
        rows,
        note: format!(
            "A repository of {} files is cloned, and a program of {} crates with {FUNCTIONS} functions each is built. Durable is \
             when the volume is unmounted.",
            scale.tree_files, scale.build_crates
        ),
    }));
    Ok(())
}

fn once(work: Work, mode: Mode, scale: &Scale, seed: u64) -> Result<Durations> {
    let site = Site::new(None, BYTES, mode.words())?;
    site.format(FileSystem::Segno)?;
    let host = site.root.join("host");
    fs::create_dir_all(&host)?;
    work.prepare(&host, scale, seed)?;
    site.mount(FileSystem::Segno)?;
    let took = on_mount(work, &site, &host);
    let unmounting = Instant::now();
    site.unmount(FileSystem::Segno)?;
    took.map(|took| (took, took + unmounting.elapsed().as_secs_f64()))
}

fn on_mount(work: Work, site: &Site, host: &Path) -> Result<f64> {
    if let Work::Build = work {
        carry_out("cp", &["-r", &host.join("project").to_string_lossy(), "."], &site.dir())?;
    }
    let begun = Instant::now();
    work.run(host, &site.dir())?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A repository with one commit of a tree.
fn repository(at: &Path, scale: &Scale, seed: u64) -> Result<()> {
    fs::create_dir_all(at)?;
    tree::make(&Mounted::new(at.to_owned()), scale.tree_files, seed)?;
    carry_out("git", &["init", "-q"], at)?;
    carry_out("git", &["add", "."], at)?;
    let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    carry_out("git", &[&who[..], &["commit", "-q", "-m", "tree"]].concat(), at)
}

/// A program of several crates without external dependencies.
fn project(at: &Path, scale: &Scale) -> Result<()> {
    let (mut main, mut needs) = (String::new(), String::new());
    for n in 0..scale.build_crates {
        let part = at.join(format!("part{n}/src"));
        fs::create_dir_all(&part)?;
        let mut source = String::new();
        for f in 0..FUNCTIONS {
            writeln!(
                source,
                "pub fn f{f}(x: u64) -> String {{ format!(\"{{}} {f}\", x.wrapping_mul({n} + {f})) }}"
            )?;
        }
        fs::write(part.join("lib.rs"), source)?;
        fs::write(at.join(format!("part{n}/Cargo.toml")), manifest(&format!("part{n}"), ""))?;
        writeln!(needs, "part{n} = {{ path = \"part{n}\" }}")?;
        writeln!(main, "println!(\"{{}}\", part{n}::f0({n}));")?;
    }
    fs::create_dir_all(at.join("src"))?;
    fs::write(at.join("src/main.rs"), format!("fn main() {{\n{main}}}\n"))?;
    fs::write(at.join("Cargo.toml"), manifest("whole", &format!("[dependencies]\n{needs}[workspace]\n")))?;
    Ok(())
}

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
}

/// Runs a program without environment variables that refer to other directories.
fn carry_out(name: &str, args: &[&str], dir: &Path) -> Result<()> {
    let out = Command::new(name)
        .args(args)
        .current_dir(dir)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("GIT_DIR")
        .stdin(Stdio::null())
        .output()
        .with_context(|| name.to_owned())?;
    ensure!(
        out.status.success(),
        "{name} {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&out.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_one_that_cargo_takes() {
        let dir = tempfile::tempdir().unwrap();
        let scale = Scale { build_crates: 2, ..super::super::tests::scale() };
        project(dir.path(), &scale).unwrap();
        carry_out("cargo", &["metadata", "--offline", "--no-deps", "--format-version=1"], dir.path())
            .unwrap();
    }
}
