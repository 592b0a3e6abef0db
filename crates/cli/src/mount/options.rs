//! Mount options: F2FS's, our own, the kernel's, and those that mean nothing here but come from fstab.
use crate::size;
use anyhow::{Result, anyhow, ensure};
use segno_engine::MountOptions;
use segno_engine::options::{AllocMode, CheckpointMode, FsyncLookup, FsyncMode, JournalMode};
use segno_fuse::Choice;
use std::path::PathBuf;
use std::str::FromStr;

/// Flags of mount(2) with their opposites; the later one of a pair wins.
const FLAGS: [(&str, &str); 5] =
    [("dev", "nodev"), ("suid", "nosuid"), ("exec", "noexec"), ("sync", "async"), ("dirsync", "nodirsync")];

/// What fstab and mount(8) pass on, and tuning of the kernel's F2FS that has no counterpart here.
const IGNORED: &[&str] = &[
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    // Access times are not kept, whatever is asked for.
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "diratime",
    "nodiratime",
    "iversion",
    "noiversion",
    "mand",
    "nomand",
    "quota",
    "noquota",
    "usrquota",
    "grpquota",
    "prjquota",
    "heap",
    "no_heap",
    "extent_cache",
    "noextent_cache",
    "age_extent_cache",
    "flush_merge",
    "noflush_merge",
    "checkpoint_merge",
    "nocheckpoint_merge",
    "gc_merge",
    "nogc_merge",
    "barrier",
    "data_flush",
    "active_logs=6",
    "alloc_mode=default",
    "alloc_mode=reuse",
    "memory=normal",
    "memory=low",
    "checkpoint=enable",
    "discard_unit=block",
];
const IGNORED_PREFIXES: &[&str] = &["x-", "X-", "comment="];

/// What `-o` asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    pub engine: MountOptions,
    /// Flags for the kernel.
    pub flags: Vec<String>,
    pub allow_other: bool,
    pub auto_unmount: bool,
    /// Mount as `fuseblk` where sync(2) takes that.
    pub blk: bool,
    /// Let the ioctl of crash tests shut the volume down.
    pub shutdown: bool,
    /// Go past the page cache of the machine.
    pub direct: bool,
    /// Server threads; 0 lets the server choose.
    pub threads: usize,
    pub transport: Choice,
    /// What the server says behind the command goes here.
    pub log: Option<PathBuf>,
    /// Devices after the first, when they are not where the superblock says.
    pub devices: Vec<PathBuf>,
    /// A journal in a file or device of its own.
    pub journal: Option<PathBuf>,
}

impl Settings {
    /// The defaults. Root's mounts behave like any other file system of the machine: device nodes and set-uid bits
    /// count and every user may enter.
    pub fn new(root: bool) -> Self {
        let flags = if root { vec!["dev".to_owned(), "suid".to_owned()] } else { Vec::new() };
        Self {
            engine: MountOptions::default(),
            flags,
            allow_other: root,
            auto_unmount: false,
            blk: true,
            shutdown: false,
            direct: false,
            threads: 0,
            transport: Choice::Auto,
            log: None,
            devices: Vec::new(),
            journal: None,
        }
    }

    /// Reads the words after `-o`, in order.
    pub fn parse(words: &[String], root: bool) -> Result<Self> {
        let mut settings = Self::new(root);
        for word in words.iter().flat_map(|w| w.split(',')).filter(|w| !w.is_empty()) {
            settings.apply(word)?;
        }
        ensure!(
            !settings.engine.norecovery || settings.engine.read_only,
            "norecovery needs a read-only mount: add ro"
        );
        ensure!(
            !settings.auto_unmount || settings.allow_other,
            "auto_unmount needs allow_other (and user_allow_other in /etc/fuse.conf)"
        );
        Ok(settings)
    }

    fn apply(&mut self, word: &str) -> Result<()> {
        if self.apply_switch(word) || self.apply_flag(word) || is_ignored(word) {
            return Ok(());
        }
        let known = match word.split_once('=') {
            Some((name, value)) => {
                self.apply_value(name, value).map_err(|why| anyhow!("mount option {word}: {why}"))?
            }
            None => false,
        };
        ensure!(known, "unknown mount option {word}");
        Ok(())
    }

    fn apply_switch(&mut self, word: &str) -> bool {
        let e = &mut self.engine;
        let (field, value) = match word {
            "ro" => (&mut e.read_only, true),
            "norecovery" | "disable_roll_forward" => (&mut e.norecovery, true),
            "guard" => (&mut e.guard, true),
            "discard" => (&mut e.discard, true),
            "nodiscard" => (&mut e.discard, false),
            "inline_data" => (&mut e.inline_data, true),
            "noinline_data" => (&mut e.inline_data, false),
            "inline_dentry" => (&mut e.inline_dentry, true),
            "noinline_dentry" => (&mut e.inline_dentry, false),
            "inline_xattr" => (&mut e.inline_xattr, true),
            "noinline_xattr" => (&mut e.inline_xattr, false),
            "acl" => (&mut e.acl, true),
            "noacl" => (&mut e.acl, false),
            "user_xattr" => (&mut e.user_xattr, true),
            "nouser_xattr" => (&mut e.user_xattr, false),
            "disable_ext_identify" => (&mut e.ext_identify, false),
            "allow_other" => (&mut self.allow_other, true),
            "noallow_other" => (&mut self.allow_other, false),
            "auto_unmount" => (&mut self.auto_unmount, true),
            "shutdown" => (&mut self.shutdown, true),
            "direct" => (&mut self.direct, true),
            "nobarrier" => {
                e.fsync_mode = FsyncMode::Nobarrier;
                return true;
            }
            _ => return false,
        };
        *field = value;
        true
    }

    fn apply_flag(&mut self, word: &str) -> bool {
        let Some((set, unset)) = FLAGS.iter().find(|(a, b)| word == *a || word == *b) else { return false };
        self.flags.retain(|f| f != set && f != unset);
        self.flags.push(word.to_owned());
        true
    }

    /// Takes an option with a value; false if there is none of that name.
    fn apply_value(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let e = &mut self.engine;
        match name {
            "fsync_mode" => {
                e.fsync_mode = match value {
                    "strict" => FsyncMode::Strict,
                    "posix" => FsyncMode::Posix,
                    "nobarrier" => FsyncMode::Nobarrier,
                    _ => return Err("choose strict, posix or nobarrier".into()),
                }
            }
            "fsync_lookup" => {
                e.fsync_lookup = FsyncLookup::of_name(value).ok_or("choose list, global or shadow")?;
            }
            "mode" => {
                e.mode = match value {
                    "adaptive" => AllocMode::Adaptive,
                    "lfs" => AllocMode::Lfs,
                    _ => return Err("choose adaptive or lfs".into()),
                }
            }
            "checkpoint" => {
                e.checkpoint = match value {
                    "auto" => CheckpointMode::Auto,
                    "blocking" => CheckpointMode::Blocking,
                    "concurrent" => CheckpointMode::Concurrent,
                    _ => return Err("choose auto, blocking or concurrent".into()),
                }
            }
            "background_gc" => {
                e.background_gc = match value {
                    "on" | "sync" => true,
                    "off" => false,
                    _ => return Err("choose on or off".into()),
                }
            }
            "gc_policy" => {
                segno_clean::policy::parse(value)?;
                e.gc_policy = Some(value.to_owned());
            }
            "journal" => {
                self.journal = None;
                e.journal = match value {
                    "off" => JournalMode::Off,
                    "auto" => JournalMode::Auto,
                    "on" => JournalMode::On,
                    path if path.contains('/') => {
                        self.journal = Some(PathBuf::from(path));
                        JournalMode::On
                    }
                    _ => return Err("choose off, auto, on, or the path of a file with a slash in it".into()),
                }
            }
            "cache" => e.cache_bytes = usize::try_from(size::parse(value)?).map_err(|_| "too large")?,
            "commit" => e.commit_interval = from_one(value)?,
            "transport" => {
                self.transport = match value {
                    "auto" => Choice::Auto,
                    "classic" => Choice::Classic,
                    "io_uring" => Choice::IoUring,
                    _ => return Err("choose auto, classic or io_uring".into()),
                }
            }
            "writeback_contexts" => e.contexts = value.parse()?,
            "exclusive_streams" if value == "auto" => e.exclusive_streams = None,
            "exclusive_streams" => {
                e.exclusive_streams = Some(value.parse().map_err(|_| "choose auto or a number")?);
            }
            "blk" => {
                self.blk = match value {
                    "auto" => true,
                    "off" => false,
                    _ => return Err("choose auto or off".into()),
                }
            }
            "threads" => self.threads = from_one(value)?,
            "log" => self.log = Some(std::path::absolute(value).map_err(|e| e.to_string())?),
            "device" => self.devices.push(PathBuf::from(value)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn from_one<T: FromStr + PartialOrd + From<u8>>(value: &str) -> Result<T, String> {
    value.parse().ok().filter(|n| *n >= T::from(1)).ok_or_else(|| "a number from 1 is needed".into())
}

fn is_ignored(word: &str) -> bool {
    IGNORED.contains(&word) || IGNORED_PREFIXES.iter().any(|p| word.starts_with(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Settings> {
        Settings::parse(&[words.to_owned()], false)
    }

    #[test]
    fn options_of_f2fs_reach_the_engine() {
        let s = parse(
            "ro,norecovery,fsync_mode=posix,fsync_lookup=global,mode=lfs,nodiscard,background_gc=off,noacl,cache=64M,commit=30,gc_policy=weighted",
        )
        .unwrap();
        let e = &s.engine;
        assert!(e.read_only && e.norecovery && !e.discard && !e.background_gc && !e.acl && e.inline_data);
        assert_eq!((e.fsync_mode, e.mode), (FsyncMode::Posix, AllocMode::Lfs));
        assert_eq!(e.fsync_lookup, FsyncLookup::Global);
        assert_eq!((e.cache_bytes, e.commit_interval), (64 << 20, 30));
        assert_eq!(e.gc_policy.as_deref(), Some("weighted"));
    }

    #[test]
    fn what_fstab_holds_is_accepted() {
        let s =
            parse("defaults,nofail,x-systemd.automount,_netdev,user,noauto,comment=a,relatime,rw").unwrap();
        assert!(s.flags.is_empty() && !s.engine.read_only);
    }

    #[test]
    fn a_mount_is_of_type_fuse_if_asked_for() {
        assert!(
            parse("").unwrap().blk
                && parse("blk=off,blk=auto").unwrap().blk
                && !parse("blk=off").unwrap().blk
        );
    }

    #[test]
    fn of_opposite_flags_the_later_wins() {
        assert_eq!(parse("nodev,noexec,strictatime,dev").unwrap().flags, ["noexec", "dev"]);
        let root = Settings::parse(&["nosuid".into(), "threads=3".into()], true).unwrap();
        assert_eq!(parse("transport=classic").unwrap().transport, Choice::Classic);
        assert_eq!((root.flags, root.threads), (vec!["dev".to_owned(), "nosuid".to_owned()], 3));
        assert!(root.allow_other && !parse("").unwrap().allow_other);
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
            ("auto_unmount", "auto_unmount needs allow_other (and user_allow_other in /etc/fuse.conf)"),
            ("remount", "unknown mount option remount"),
        ] {
            assert_eq!(parse(words).unwrap_err().to_string(), message);
        }
    }
}
