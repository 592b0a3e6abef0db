//! Manual pages that the command line alone does not give, and the examples of `--help`.
use crate::command_line::VERSION;
use crate::commands::mount::helper;
use crate::commands::{check, mkfs};
use crate::mount::options::pages;
use clap::{Args, Command};

/// Commands with an example. `tests/it/examples.rs` runs them in this order, in a directory that has `tree/hello` and `mnt`.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("mkfs", "segno mkfs --size 1G --label demo --journal 64M disk.img"),
    ("put", "segno put disk.img tree"),
    ("ls", "segno ls -l disk.img tree"),
    ("cat", "segno cat disk.img tree/hello"),
    ("stat", "segno stat disk.img tree/hello"),
    ("extents", "segno extents --image disk.img tree/hello"),
    ("get", "segno get disk.img tree copy"),
    ("mkdir", "segno mkdir -p disk.img /new/dir"),
    ("touch", "segno touch -d 2026-11-20T13:05Z disk.img /new/file"),
    ("chmod", "segno chmod -R disk.img u=rwX,go=rX /new"),
    ("chown", "segno chown disk.img 1000:100 /new/file"),
    ("ln", "segno ln -s disk.img file /new/link"),
    ("setfattr", "segno setfattr -n user.origin -v camera disk.img /new/file"),
    ("getfattr", "segno getfattr -d disk.img /new/file"),
    ("mv", "segno mv disk.img /new/file /new/dir"),
    ("rm", "segno rm -r disk.img /new"),
    ("shell", "segno shell -c ls disk.img"),
    ("info", "segno info --json disk.img"),
    ("label", "segno label disk.img backup"),
    ("install-helper", "segno install-helper tree"),
    ("map", "segno map -o map.svg disk.img"),
    ("report", "segno report -o report.html disk.img"),
    ("journal", "segno journal info disk.img"),
    ("check", "segno check disk.img"),
    ("build", "segno build --label system -T 1700000000 tree system.img"),
    ("extract", "segno extract system.img extracted"),
    ("sparse", "segno sparse pack disk.img sparse.img"),
    ("dump", "segno dump disk.img cp"),
    ("find", "segno find disk.img"),
    ("rescue", "segno rescue disk.img rescued"),
    ("undelete", "segno undelete --list disk.img"),
    ("mount", "segno mount -o cache=64M disk.img mnt"),
    ("mounts", "segno mounts --json"),
    ("sync", "segno sync mnt"),
    ("stats", "segno stats --explain mnt"),
    ("top", "segno top mnt"),
    ("metrics", "segno metrics --format prometheus mnt"),
    ("ctl", "segno ctl mnt gc=urgent"),
    ("umount", "segno umount mnt"),
    #[cfg(feature = "vhost")]
    ("export", "segno export --vhost-user vm.sock disk.img"),
];

/// The programs of section 8, run after the commands.
pub const SYSTEM_EXAMPLES: &[(&str, &str)] = &[
    ("mkfs.segno", "mkfs.segno -f -l demo disk.img"),
    ("fsck.segno", "fsck.segno -a disk.img"),
    ("mount.segno", "mount.segno disk.img mnt -o noatime,cache=64M"),
];

/// Adds the examples to the help texts.
pub fn with_examples(mut cli: Command) -> Command {
    for (name, example) in EXAMPLES {
        cli = cli.mut_subcommand(name, |c| with_example(c, example));
    }
    cli
}

fn with_example(command: Command, example: &str) -> Command {
    let before = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    command.after_help(format!("{before}Example:\n  {example}"))
}

/// The programs of section 8, which mount(8), fsck(8) and mkfs(8) call.
#[must_use]
pub fn system_programs() -> Vec<Command> {
    let named = |name: &'static str, from: fn(Command) -> Command| from(Command::new(name).version(VERSION));
    let programs = [
        helper::command(),
        named("fsck.segno", check::Args::augment_args),
        named("mkfs.segno", mkfs::Args::augment_args),
    ];
    let example = |c: &Command| SYSTEM_EXAMPLES.iter().find(|(name, _)| *name == c.get_name());
    programs
        .into_iter()
        .map(|c| match example(&c) {
            Some((_, example)) => with_example(c, example),
            None => c,
        })
        .collect()
}

/// segno(5): the volumes and the mount options, in the language of man(7).
#[must_use]
pub fn file_formats() -> String {
    let mut out = format!(
        ".TH segno 5 \"\" \"segno {}\" \"File Formats\"\n\
         .SH NAME\nsegno \\- volumes in the F2FS format and their mount options\n\
         .SH DESCRIPTION\n\
         A volume of\n.BR segno (1)\nhas the on\\-disk format of the F2FS of Linux. Either program mounts volumes of the other.\n\
         A metadata journal, if there is one, is behind the end of the volume or in a file of its own; Linux does not read it.\n\
         .PP\nIn\n.BR fstab (5)\nthe type is\n.IR segno :\n.PP\n.EX\n\
         /srv/disk.img  /srv/data  segno  nofail,cache=512M  0  0\n.EE\n",
        VERSION
    );
    for section in pages::sections() {
        out += &format!(".SH {}\n", section.title.to_uppercase());
        for (word, text) in section.entries {
            out += &format!(".TP\n\\fB{}\\fR\n{}\n", roff(&word), roff(&text));
        }
    }
    out + ".SH SEE ALSO\n.BR segno (1),\n.BR mount (8),\n.BR fstab (5)\n"
}

/// Text that troff prints as it stands.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example() {
        let cli = crate::command_line();
        // Two that another program has, and one that needs an object store.
        let other = ["bench", "crashtest", "store"];
        let without = cli.get_subcommands().map(Command::get_name).filter(|n| !other.contains(n));
        let missing: Vec<&str> = without.filter(|n| !EXAMPLES.iter().any(|(name, _)| name == n)).collect();
        assert!(missing.is_empty(), "no example of {missing:?}");
    }

    #[test]
    fn every_program_of_section_8_has_an_example() {
        for program in system_programs() {
            let help = program.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("  {} ", program.get_name())), "{}", program.get_name());
        }
    }

    #[test]
    fn examples_are_accepted() {
        for (name, example) in EXAMPLES {
            let words: Vec<&str> = example.split(' ').collect();
            assert_eq!(words[1], *name);
            crate::command_line().try_get_matches_from(words).unwrap();
        }
    }

    #[test]
    fn options_are_in_the_page_of_section_5() {
        let page = file_formats();
        for text in ["\\fBfsync_mode=strict|posix|nobarrier\\fR", "\\fBreserve_root=*", ".SH REFUSED"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.lines().all(|l| !l.starts_with('\'')));
    }
}
