//! Options as words, as in "journal=on,gc_policy=atgc".
use super::{AllocMode, JournalMode, MountOptions, compress, table};
use std::path::PathBuf;

/// Options that are being read from words.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    pub(super) options: MountOptions,
    /// File or device of an external journal.
    journal: Option<PathBuf>,
    /// An option was given that is for read-only mounts.
    pub(super) needs_ro: bool,
}

impl Parsed {
    /// Reads words with commas between them: the options, and the path of an external journal.
    pub fn parse(words: &str) -> Result<(MountOptions, Option<PathBuf>), String> {
        Self::parse_with(words, |_, _| None)
    }

    /// Also reads words of a front end, which `other` applies as [`Self::apply`] does.
    pub fn parse_with(
        words: &str,
        mut other: impl FnMut(&str, Option<&str>) -> Option<Result<(), String>>,
    ) -> Result<(MountOptions, Option<PathBuf>), String> {
        let mut parsed = Self::default();
        for word in words.split(',').filter(|w| !w.is_empty()) {
            let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
            match parsed.apply(name, value).or_else(|| other(name, value)) {
                Some(result) => result.map_err(|why| format!("mount option {word}: {why}"))?,
                None => return Err(format!("unknown mount option {word}")),
            }
        }
        parsed.finish()
    }

    /// Applies a word, split at its `=`. `None` if it names no option of the engine.
    pub fn apply(&mut self, name: &str, value: Option<&str>) -> Option<Result<(), String>> {
        let name = table::renamed(name).unwrap_or(name);
        let mut all = table::OF_F2FS.iter().chain(table::OWN).chain(table::EXPERIMENTS);
        all.find_map(|row| row.apply(self, name, value))
    }

    /// The options and the path of an external journal, unless two options exclude each other.
    pub fn finish(self) -> Result<(MountOptions, Option<PathBuf>), String> {
        let Self { options, journal, needs_ro } = self;
        if needs_ro && !options.read_only {
            return Err("norecovery needs a read-only mount: add ro".into());
        }
        if options.mode == AllocMode::Lfs && options.gc_policy.as_deref() == Some("atgc") {
            return Err("atgc and mode=lfs exclude each other, as in the kernel: leave one out".into());
        }
        if let Some(both) = compress::contradiction(&options.compression) {
            return Err(format!(
                "compress_extension={both} and nocompress_extension={both} exclude each other: leave one out"
            ));
        }
        Ok((options, journal))
    }

    pub(super) fn journal(&mut self, value: &str) -> Result<(), String> {
        let (mode, path) = match value {
            "off" => (JournalMode::Off, None),
            "auto" => (JournalMode::Auto, None),
            "on" => (JournalMode::On, None),
            // A device by its tag, as LABEL=NAME, has no slash.
            path if path.contains(['/', '=']) => (JournalMode::On, Some(PathBuf::from(path))),
            _ => return Err("choose off, auto, on, or the path of a file with a slash in it".into()),
        };
        (self.options.journal, self.journal) = (mode, path);
        Ok(())
    }

    pub(super) fn exclusive_streams(&mut self, value: &str) -> Result<(), String> {
        self.options.exclusive_streams = match value {
            "auto" => None,
            n => Some(n.parse().map_err(|_| "choose auto or a number")?),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Discard, FsyncLookup, FsyncMode};

    #[test]
    fn options_of_f2fs_reach_the_engine() {
        let (e, journal) = Parsed::parse(
            "ro,norecovery,fsync_mode=posix,fsync_lookup=global,mode=lfs,nodiscard,background_gc=off,noacl,cache=64M,commit=30,\
             gc_policy=factor:1/2,lifetime=off,journal=./journal",
        )
        .unwrap();
        assert!(
            e.read_only
                && e.norecovery
                && e.discard == Discard::Never
                && !e.background_gc
                && !e.acl
                && e.inline_data
        );
        assert_eq!((e.fsync_mode, e.mode), (FsyncMode::Posix, AllocMode::Lfs));
        assert_eq!(e.fsync_lookup, FsyncLookup::Global);
        assert_eq!((e.cache_bytes, e.commit_interval), (64 << 20, 30));
        assert_eq!(e.gc_policy.as_deref(), Some("factor:1/2"));
        assert!(!e.lifetime);
        assert_eq!(journal, Some(PathBuf::from("./journal")));
    }

    #[test]
    fn an_earlier_name_sets_the_option() {
        for words in ["guard_space", "node_limit"] {
            assert!(Parsed::parse(words).unwrap().0.node_limit, "{words}");
        }
    }

    #[test]
    fn refusals_name_the_option() {
        for (words, message) in [
            ("ro,sparkle", "unknown mount option sparkle"),
            ("mode=fast", "mount option mode=fast: choose adaptive or lfs"),
            ("commit=0", "mount option commit=0: a number from 1 is needed"),
            ("commit", "mount option commit: a value is needed: commit=SECONDS"),
            ("acl=1", "mount option acl=1: no value is taken"),
            ("norecovery", "norecovery needs a read-only mount: add ro"),
            (
                "gc_policy=atgc,mode=lfs",
                "atgc and mode=lfs exclude each other, as in the kernel: leave one out",
            ),
        ] {
            assert_eq!(Parsed::parse(words).unwrap_err(), message);
        }
    }
}
