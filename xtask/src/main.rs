//! Project chores that need more than cargo: the kernel twin, external test suites, hand-over tests.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod boot;
mod errno;
mod figures;
mod foreign;
mod fsck;
mod handover;
mod images;
mod kills;
mod manifest;
mod memory;
mod paths;
mod populate;
mod repaired;
mod stale;
mod suites;
mod twin;
mod virtiofs;
mod waf;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Kernel twin, external test suites and hand-over tests of Segno")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    KernelTwin(twin::KernelTwin),
    Boot(boot::BootTest),
    F2fsTool(paths::F2fsTool),
    Figures(figures::Figures),
    Fsck(fsck::Fsck),
    Manifest(manifest::Manifest),
    ManifestDiff(manifest::ManifestDiff),
    Populate(populate::Populate),
    Durable(populate::Durable),
    Pjdfstest(suites::Pjdfstest),
    Fsx(suites::Fsx),
    Foreign(foreign::Foreign),
    Handover(handover::Handover),
    Images(images::Images),
    Kills(kills::Kills),
    Memory(memory::Memory),
    Repaired(repaired::Repaired),
    Stale(stale::Stale),
    Virtiofs(virtiofs::Virtiofs),
    Waf(waf::Waf),
    Words(words::Words),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::KernelTwin(twin) => twin.run(),
        Command::Boot(boot) => boot.run(),
        Command::F2fsTool(tool) => tool.run(),
        Command::Figures(figures) => figures.run(),
        Command::Fsck(fsck) => fsck.run(),
        Command::Manifest(manifest) => manifest.run(),
        Command::ManifestDiff(diff) => diff.run(),
        Command::Populate(populate) => populate.run(),
        Command::Durable(durable) => durable.run(),
        Command::Pjdfstest(suite) => suite.run(),
        Command::Fsx(fsx) => fsx.run(),
        Command::Foreign(foreign) => foreign.run(),
        Command::Handover(handover) => handover.run(),
        Command::Images(images) => images.run(),
        Command::Kills(kills) => kills.run(),
        Command::Memory(memory) => memory.run(),
        Command::Repaired(repaired) => repaired.run(),
        Command::Stale(stale) => stale.run(),
        Command::Virtiofs(virtiofs) => virtiofs.run(),
        Command::Waf(waf) => waf.run(),
        Command::Words(words) => words.run(),
    };
    result.unwrap_or_else(|error| {
        // Names of files may be in it, and those may hold anything.
        let text: String = format!("{error:#}").chars().map(printable).collect();
        eprintln!("xtask: {text}");
        ExitCode::FAILURE
    })
}

fn printable(letter: char) -> char {
    if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter }
}
