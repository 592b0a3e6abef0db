//! Writes manual pages and completions for the shells: `cargo run -p segno-cli --example manual -- DIR`.
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use segno_cli::{command_line, manual};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dir: PathBuf = env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: manual DIR"))?.into();
    pages(&dir.join("man"))?;
    let completions = dir.join("completions");
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command_line(), "segno", &completions)?;
    }
    Ok(())
}

/// `man1`, `man5` and `man8`.
fn pages(dir: &Path) -> io::Result<()> {
    for section in ["man1", "man5", "man8"] {
        fs::create_dir_all(dir.join(section))?;
    }
    let mut cli = command_line().disable_help_subcommand(true);
    cli.build();
    write(dir, 1, cli.clone())?;
    for command in cli.get_subcommands().filter(|c| !c.is_hide_set()) {
        write(dir, 1, command.clone().version(segno_cli::VERSION))?;
    }
    for program in manual::system_programs() {
        write(dir, 8, program)?;
    }
    fs::write(dir.join("man5/segno.5"), manual::file_formats())
}

fn write(dir: &Path, section: u8, command: clap::Command) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("man{section}/{name}.{section}"));
    let mut text = Vec::new();
    Man::new(command).section(section.to_string()).date("").render(&mut text)?;
    fs::write(path, text)
}
