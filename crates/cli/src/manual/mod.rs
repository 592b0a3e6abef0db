//! Manual pages, and the examples of `--help`.
mod facts;
mod formats;
mod page;
mod programs;
mod roff;

use crate::time;
use segno::Time;

pub use facts::{EXAMPLES, SYSTEM_EXAMPLES};
pub use formats::file_formats;
pub use page::{Page, pages};
pub use programs::{system_programs, with_examples};

/// The day of a second since 1970, as manual pages have it.
#[must_use]
pub fn date(secs: u64) -> String {
    let time = time::text(Time { secs: secs.cast_signed(), nsec: 0 });
    time.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

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
        let page = file_formats("");
        for text in ["\\fBfsync_mode=strict|posix|nobarrier\\fR", "\\fBreserve_root=*", ".SH REFUSED"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.lines().all(|l| !l.starts_with('\'')));
    }
}
