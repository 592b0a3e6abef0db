//! Mount options. [`table`] has a row for each, including those of the engine and of the server. [`foreign`]
//! has a row for each word that is no option. Everything else here applies, lists or describes the rows.
pub mod compress;
mod described;
#[cfg(test)]
mod docs;
mod foreign;
pub mod help;
#[cfg(test)]
mod kernel;
#[cfg(test)]
mod kernel_table;
pub mod pages;
mod suggest;
mod table;

use crate::storage::{DeviceOption, PartOption};
use crate::{store, tag};
use anyhow::{Result, anyhow, bail, ensure};
use described::Described;
use rustix::mount::MountFlags;
use segno_clean::policy::POLICIES;
use segno_engine::MountOptions;
use segno_engine::options::Parsed;
use segno_fuse::{AtDeath, FLAGS, Flag, FuseOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The settings of a mount, as `-o` selects them.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub engine: MountOptions,
    /// Options of the server, except for values that depend on the device and on `engine`.
    pub fuse: FuseOptions,
    /// Mount again if the server is killed.
    pub restart: bool,
    /// Another process does that for this one.
    pub kept: bool,
    /// Bypasses the host's page cache.
    pub direct: bool,
    /// Receives the messages of a detached server.
    pub log: Option<PathBuf>,
    /// Where the volume is in the image.
    pub part: PartOption,
    /// Devices after the first.
    pub devices: Vec<PathBuf>,
    /// File or device of an external journal.
    pub journal: Option<PathBuf>,
    /// Of volumes on an object store.
    pub store: store::Settings,
    /// Words without effect that `segno mount -v` names.
    pub ignored: Vec<Noted>,
    /// Words about compression, for volumes that have none.
    pub compression: Vec<String>,
    /// Names of options that have another name now, with that name.
    renamed: Vec<(String, &'static str)>,
    /// Words that were given, by the name of their option.
    given: BTreeMap<&'static str, String>,
}

/// A word without effect, and why it has none.
#[derive(Clone, Debug)]
pub struct Noted {
    pub word: String,
    pub reason: &'static str,
}

impl Settings {
    /// The defaults.
    pub fn new(root: bool) -> Self {
        Self { fuse: FuseOptions::of_user(root), ..Self::default() }
    }

    /// Reads the words after `-o`, in order, for the user of this process.
    pub fn of_caller(words: &[String]) -> Result<Self> {
        Self::parse(words, rustix::process::geteuid().is_root())
    }

    /// Reads the words after `-o`, in order.
    pub fn parse(words: &[String], root: bool) -> Result<Self> {
        let (mut settings, mut engine) = (Self::new(root), Parsed::default());
        for word in words.iter().flat_map(|w| w.split(',')).filter(|w| !w.is_empty()) {
            settings.apply(&mut engine, word)?;
        }
        (settings.engine, settings.journal) = engine.finish().map_err(|why| anyhow!(why))?;
        settings.engine.dirsync = settings.fuse.is_dirsync();
        ensure!(
            !settings.restart || !root || settings.fuse.fuse_only || settings.engine.read_only,
            "restart=remount needs blk=off: the kernel keeps a mount of type fuseblk until no file of it is open"
        );
        if settings.restart {
            settings.fuse.at_death = AtDeath::MakeRoom;
        }
        ensure!(
            !settings.store.writeback || settings.store.cache.is_some(),
            "store_writeback needs store_cache=/DIR, a directory on local disk"
        );
        Ok(settings)
    }

    /// Prints the present names of options that were given by an earlier one.
    pub fn print_renamed(&self) {
        for (old, new) in &self.renamed {
            eprintln!("segno: mount option {old} is called {new} now");
        }
    }

    /// Finds all devices that the words and the options of a command name; returns the one with the superblock.
    pub fn find_devices(&mut self, image: &Path, options: &DeviceOption) -> Result<PathBuf> {
        let further = [self.devices.as_slice(), &options.further].concat();
        let all = DeviceOption { part: self.part.and(&options.part), further };
        self.journal = self.journal.as_deref().map(tag::resolve).transpose()?;
        let (first, further) = all.apart(image)?;
        self.devices = further;
        Ok(first)
    }

    /// All options with the value in force, as one object: the value that was given, or else the default.
    pub fn in_force(&self) -> Value {
        let entry = |option: Described| {
            let given = self.given.get(option.name);
            let value = match given.map(|word| (word, word.split_once('='))) {
                None => option.default,
                Some((_, Some((_, value)))) => value,
                Some((word, None)) => {
                    if word == option.name {
                        "on"
                    } else {
                        "off"
                    }
                }
            };
            (option.name.to_owned(), json!({ "value": value, "given": given }))
        };
        Value::Object(table::all().map(entry).collect())
    }

    fn apply(&mut self, engine: &mut Parsed, word: &str) -> Result<()> {
        if foreign::is_comment(word) {
            return Ok(());
        }
        if let Some(row) = foreign::ignored(word) {
            let noted = row.noted.then(|| Noted { word: word.to_owned(), reason: row.reason });
            self.ignored.extend(noted);
            return Ok(());
        }
        if let Some(advice) = foreign::advice(word) {
            bail!("mount option {word} is not supported: {advice}");
        }
        let resolved = foreign::resolve(word);
        let (old, value) = resolved.split_once('=').map_or((resolved, None), |(n, v)| (n, Some(v)));
        let new = table::renamed(old, value);
        self.renamed.extend(new.map(|new| (old.to_owned(), new)));
        let name = new.unwrap_or(old);
        if compress::is_option(name) {
            self.compression.push(word.to_owned());
        }
        match table::apply(self, engine, name, value) {
            Some(result) => {
                result.map_err(|why| anyhow!("mount option {word}: {why}"))?;
                let is_it = |o: &Described| o.name == name || o.opposite.as_deref() == Some(name);
                let given = value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}"));
                self.given.extend(table::all().find(is_it).map(|o| (o.name, given)));
                Ok(())
            }
            None => match suggest::closest(name) {
                Some(option) => bail!("unknown mount option {word}; did you mean {option}?"),
                None => bail!("unknown mount option {word}"),
            },
        }
    }
}

/// Words that shells complete after `-o`.
pub fn words() -> Vec<String> {
    let policies = POLICIES.iter().map(|p| format!("gc_policy={}", p.name));
    table::all().flat_map(|option| option.words()).chain(policies).collect()
}

/// Flags of mount(2) that a remount can change: the word that sets each, the word that clears it, and the bit.
pub fn remountable() -> impl Iterator<Item = (&'static str, &'static str, MountFlags)> {
    [("ro", "rw", MountFlags::RDONLY)].into_iter().chain(FLAGS.iter().map(Flag::remount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_fuse::Choice;

    fn parse(words: &str) -> Result<Settings> {
        Settings::parse(&[words.to_owned()], false)
    }

    #[test]
    fn what_fstab_holds_is_accepted() {
        let s =
            parse("defaults,nofail,x-systemd.automount,_netdev,user,noauto,comment=a,relatime,rw").unwrap();
        assert!(s.fuse.extra.is_empty() && !s.engine.read_only);
    }

    #[test]
    fn a_mount_is_of_type_fuse_if_asked_for() {
        for (words, fuse_only) in [("", false), ("blk=off,blk=auto", false), ("blk=off", true)] {
            assert_eq!(parse(words).unwrap().fuse.fuse_only, fuse_only, "{words}");
        }
    }

    #[test]
    fn of_opposite_flags_the_later_wins() {
        assert_eq!(parse("nodev,noexec,strictatime,dev").unwrap().fuse.extra, ["noexec", "dev"]);
        let root = Settings::parse(&["nosuid".into(), "threads=3".into()], true).unwrap();
        assert_eq!(parse("transport=classic").unwrap().fuse.transport, Choice::Classic);
        assert_eq!((root.fuse.extra, root.fuse.threads), (vec!["dev".to_owned(), "nosuid".to_owned()], 3));
        assert!(root.fuse.allow_other && !parse("").unwrap().fuse.allow_other);
    }

    #[test]
    fn factors_fit_into_a_list_of_options() {
        let settings = Settings::parse(&["gc_policy=factor:1/2,ro".to_owned()], true).unwrap();
        assert_eq!(settings.engine.gc_policy.as_deref(), Some("factor:1/2"));
        assert!(settings.engine.read_only);
    }

    #[test]
    fn refusals_name_the_option() {
        for (words, message) in [
            ("ro,sparkle", "unknown mount option sparkle"),
            ("sparkle=1", "unknown mount option sparkle=1"),
            ("mode=fast", "mount option mode=fast: choose adaptive or lfs"),
            ("transport=x", "mount option transport=x: choose auto, classic or io_uring"),
            ("blk=on", "mount option blk=on: choose auto or off"),
            ("commit=0", "mount option commit=0: a number from 1 is needed"),
            ("norecovery", "norecovery needs a read-only mount: add ro"),
            ("comit=9", "unknown mount option comit=9; did you mean commit=SECONDS?"),
            ("commit", "mount option commit: a value is needed: commit=SECONDS"),
            ("acl=1", "mount option acl=1: no value is taken"),
        ] {
            assert_eq!(parse(words).unwrap_err().to_string(), message);
        }
    }
}
