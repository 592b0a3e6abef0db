//! The journal of an image: made, described, replayed, discarded.
use super::{json, output, refusal};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{JournalArea, MountOptions, Owner, Volume};
use segno_format::Ino;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

struct Journaled {
    dir: tempfile::TempDir,
}

impl Journaled {
    /// A volume of 64 MiB, of which a journal takes 8.
    fn new() -> Self {
        let out = Self { dir: tempfile::tempdir().unwrap() };
        output(&["mkfs", "-q", "--size", "64M", "--journal", "8M", &out.image()]);
        out
    }
    fn image(&self) -> String {
        self.dir.path().join("image").to_str().unwrap().to_owned()
    }
    fn side(&self) -> String {
        self.dir.path().join("side").to_str().unwrap().to_owned()
    }
    /// Commits files, and stops without an unmount.
    fn crash(&self, mode: JournalMode, names: &[&str]) {
        self.crash_with(MountOptions { journal: mode, ..MountOptions::default() }, names);
    }
    fn crash_with(&self, opts: MountOptions, names: &[&str]) {
        let dev: Arc<dyn BlockDevice> = open(self.image().as_ref());
        let opts = MountOptions { background: false, ..opts };
        let v = Volume::mount(dev, opts).unwrap();
        for name in names {
            let ino = v.mknod(Ino::ROOT, name.as_bytes(), 0o100_644, (0, 0), Owner::default()).unwrap().ino;
            v.write(ino, 0, name.as_bytes()).unwrap();
            v.sync().unwrap();
        }
    }
    fn crash_beside(&self, names: &[&str]) {
        std::fs::File::create(self.side()).unwrap().set_len(8 * MIB).unwrap();
        self.crash(JournalMode::External(JournalArea::whole(open(self.side().as_ref()))), names);
    }
    fn info(&self) -> serde_json::Value {
        json(&["journal", "info", "--json", &self.image()])
    }
    fn names(&self) -> String {
        output(&["ls", &self.image()])
    }
}

fn open(path: &Path) -> Arc<FileDevice> {
    Arc::new(FileDevice::open(path, OpenOptions::default()).unwrap())
}

/// The journal has the only copy of the names.
#[test]
fn rescue_replays_it_in_memory() {
    let v = Journaled::new();
    v.crash(JournalMode::Auto, &["one", "two"]);
    let (before, target) = (std::fs::read(v.image()).unwrap(), v.dir.path().join("rescued"));
    let out = super::segno(&["rescue", &v.image(), target.to_str().unwrap()]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        out.status.success() && said.starts_with("segno: note: the journal was replayed in memory\n"),
        "{said}"
    );
    for name in ["one", "two"] {
        assert_eq!(std::fs::read_to_string(target.join(name)).unwrap(), name);
    }
    assert!(std::fs::read(v.image()).unwrap() == before, "the source was written");
}

#[test]
fn mkfs_makes_one_that_is_clean() {
    let j = Journaled::new();
    let info = j.info();
    assert_eq!((&info["state"], &info["place"]), (&"usable".into(), &"gap".into()));
    assert_eq!((info["start"].as_u64(), info["bytes"].as_u64()), (Some(56 * MIB), Some(8 * MIB)));
    assert_eq!(info["journal"]["clean"], true);
    assert_eq!(info["to_replay"]["groups"], 0);
    assert!(output(&["journal", "info", &j.image()]).contains("state         clean\n"));
    assert_eq!(output(&["journal", "replay", &j.image()]), "nothing to replay\n");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    let (code, said) = refusal(&["mkfs", "-f", "--journal", "4K", &j.image()]);
    assert!(code == 1 && said.contains("too small: give it 40.0 KiB at least"), "{code} {said}");
    let (code, said) = refusal(&["mkfs", "-f", "--journal", "63M", &j.image()]);
    assert!(code == 1 && said.contains("too"), "{code} {said}");
    assert_eq!(j.info()["state"], "usable", "a refused format changes nothing");
}

#[test]
fn a_volume_without_room_for_one_says_so() {
    let scratch = super::Scratch::new();
    let (code, said) = refusal(&["journal", "info", &scratch.image()]);
    assert!(code == 1 && said.contains("no gap for a journal"), "{code} {said}");
}

#[test]
fn what_a_crash_left_is_shown_and_replayed() {
    let j = Journaled::new();
    j.crash(JournalMode::Auto, &["a", "b", "c"]);
    assert_eq!(j.names(), "a\nb\nc\n", "replayed in memory");
    let info = j.info();
    assert_eq!(info["state"], "usable");
    assert_eq!(info["to_replay"]["epochs"], 3);
    assert_eq!(info["to_replay"]["groups"], 3);
    assert_eq!(info["to_replay"]["inodes"], 4, "the root directory and three files");
    assert!(info["used_bytes"].as_u64().unwrap() >= 3 * 4096);
    let said = output(&["journal", "info", &j.image()]);
    assert!(said.contains("to replay     3 epochs in 3 groups"), "{said}");
    assert_eq!(json(&["journal", "replay", "--json", &j.image()])["epochs"], 3);
    assert_eq!(j.names(), "a\nb\nc\n");
    assert_eq!(output(&["cat", &j.image(), "b"]), "b");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    assert_eq!((&j.info()["journal"]["clean"], &j.info()["to_replay"]["groups"]), (&true.into(), &0.into()));
}

#[test]
fn committed_changes_are_discarded_only_by_force() {
    let j = Journaled::new();
    j.crash(JournalMode::Auto, &["a", "b"]);
    let (code, said) = refusal(&["journal", "discard", &j.image()]);
    assert!(code == 1 && said.contains("holds 2 groups of committed changes"), "{code} {said}");
    assert_eq!(j.info()["to_replay"]["groups"], 2);
    assert_eq!(json(&["journal", "discard", "--force", "--json", &j.image()])["groups_lost"], 2);
    assert_eq!(j.info()["state"], "none");
    assert!(
        output(&["journal", "info", &j.image()]).starts_with("no journal; there is room for one of 8.0 MiB")
    );
    assert_eq!(j.names(), "");
    assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    assert_eq!(refusal(&["journal", "discard", &j.image()]).0, 1, "there is none any more");
    j.crash(JournalMode::On, &["z"]);
    assert_eq!(j.info()["to_replay"]["groups"], 1, "a new one is made");
}

#[test]
fn an_empty_or_stale_one_goes_without_force() {
    let j = Journaled::new();
    output(&["journal", "discard", &j.image()]);
    j.crash(JournalMode::On, &["a"]);
    // Without its journal the volume is changed and checkpointed by somebody else.
    let hidden = std::fs::read(j.image()).unwrap();
    output(&["journal", "discard", "--force", &j.image()]);
    output(&["put", &j.image(), "/dev/null", "/other"]);
    let file = std::fs::OpenOptions::new().write(true).open(j.image()).unwrap();
    let at = 56 * MIB as usize;
    std::os::unix::fs::FileExt::write_all_at(&file, &hidden[at..], at as u64).unwrap();
    drop(file);
    let info = j.info();
    assert_eq!(info["state"], "stale");
    assert!(info["stale_because"].as_str().unwrap().contains("checkpointed without it"), "{info}");
    let (code, said) = refusal(&["journal", "replay", &j.image()]);
    assert!(code == 1 && said.contains("has no effect"), "{code} {said}");
    assert_eq!(j.names(), "other\n");
    output(&["journal", "discard", &j.image()]);
    assert_eq!(j.info()["state"], "none");
}

#[test]
fn one_in_a_file_of_its_own() {
    let j = Journaled::new();
    j.crash_beside(&["a"]);
    let info = json(&["journal", "info", "--json", &j.image(), "--journal", &j.side()]);
    assert_eq!((&info["place"], &info["path"]), (&"file".into(), &j.side().into()));
    assert_eq!(info["to_replay"]["epochs"], 1);
    output(&["journal", "replay", &j.image(), "--journal", &j.side()]);
    assert_eq!(j.names(), "a\n");
    // A file that is no journal is not made one.
    std::fs::write(j.dir.path().join("other"), vec![7; 1 << 20]).unwrap();
    let other = j.dir.path().join("other").to_str().unwrap().to_owned();
    assert_eq!(refusal(&["journal", "replay", &j.image(), "--journal", &other]).0, 1);
    assert!(std::fs::read(&other).unwrap().iter().all(|&b| b == 7));
}

#[test]
fn what_a_guard_marked_is_written_again_with_the_journal_or_by_force() {
    for beside in [false, true] {
        let j = Journaled::new();
        if beside {
            output(&["mkfs", "-q", "-f", "--size", "64M", &j.image()]);
        }
        let side = || {
            std::fs::File::create(j.side()).unwrap().set_len(8 * MIB).unwrap();
            JournalMode::External(JournalArea::whole(open(j.side().as_ref())))
        };
        let crash = |name| {
            let journal = if beside { side() } else { JournalMode::On };
            j.crash_with(MountOptions { journal, guard: true, ..MountOptions::default() }, &[name]);
        };
        let with = |args: &[&str]| -> Vec<String> {
            let place = if beside { vec!["--journal".into(), j.side()] } else { Vec::new() };
            args.iter().map(|a| (*a).to_owned()).chain([j.image()]).chain(place).collect()
        };
        let run = |args: &[&str]| output(&with(args).iter().map(String::as_str).collect::<Vec<_>>());
        crash("a");
        assert!(run(&["journal", "info"]).starts_with("guard "));
        let listed = super::segno(&["ls", &j.image()]);
        let (names, said) =
            (String::from_utf8(listed.stdout).unwrap(), String::from_utf8(listed.stderr).unwrap());
        assert_eq!(names, if beside { "" } else { "a\n" });
        assert!(said.contains(if beside { "--journal" } else { "replayed in memory" }), "{said}");
        if beside {
            let (code, said) = refusal(&["put", &j.image(), "/dev/null", "/other"]);
            assert!(code == 1 && said.contains("--journal"), "{code} {said}");
            assert_eq!(refusal(&["journal", "discard", &j.image()]).0, 1, "not without force");
        }
        run(&["journal", "replay"]);
        output(&["put", &j.image(), "/dev/null", "/other"]);
        assert_eq!(j.names(), "a\nother\n");
        crash("b");
        if beside {
            output(&["journal", "discard", "--force", &j.image()]);
        } else {
            run(&["journal", "discard", "--force"]);
        }
        output(&["put", &j.image(), "/dev/null", "/more"]);
        assert_eq!(j.names(), "a\nmore\nother\n");
        assert!(output(&["check", &j.image()]).ends_with("clean\n"));
    }
}
