//! The cases: the state of the volume before, the changes by Linux or another program, and the expected state
//! afterwards.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::kills::volume::Volume;
use crate::paths::{f2fs_tool, run};

const MIB: u32 = 128;
const BLOCK: u64 = 4096;

/// How Linux leaves a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    Never,
    Unmounts,
    LosesPower,
}

pub struct Case {
    pub name: &'static str,
    pub what: &'static str,
    /// Everything before Linux gets it.
    pub prepare: fn(&mut Prepared) -> Result<()>,
    pub visit: Visit,
    /// Options of Linux's mount.
    pub mount: &'static str,
    pub script: &'static str,
    /// Checks the state afterwards, and describes it.
    pub judge: fn(&Prepared) -> Result<String>,
}

const HAS_BASE: &str = "[ \"$(cat $DIR/work/base)\" = base ]; [ ! -e $DIR/work/logged ]";

/// A volume with the mark is shown and not written to.
const READS_ONLY: &str = concat!(
    "[ \"$(cat $DIR/work/base)\" = base ]; [ ! -e $DIR/work/logged ]; ",
    "if echo linux > $DIR/linux; then exit 1; fi; grep -q \" $DIR f2fs ro\" /proc/mounts; ",
    "dmesg | grep -q 'readonly mode only'"
);

const QUOTA: [&str; 2] = ["-O", "extra_attr,project_quota,quota"];

pub const CASES: [Case; 15] = [
    Case {
        name: "clean",
        what: "cleanly unmounted; Linux writes to it",
        prepare: |v| v.base().and_then(|()| v.session(false)),
        visit: Visit::Unmounts,
        mount: "rw",
        script: "[ \"$(cat $DIR/work/logged)\" = logged ]; echo linux > $DIR/linux",
        judge: |v| v.is_stale("empty").and_then(|found| v.has(true, true).map(|()| found)),
    },
    Case {
        name: "S1",
        what: "crashed; Linux mounts it read-only",
        prepare: |v| v.base().and_then(|()| v.session(true)),
        visit: Visit::Unmounts,
        mount: "ro",
        script: HAS_BASE,
        judge: |v| v.is_usable().and_then(|found| v.has(true, false).map(|()| found)),
    },
    Case {
        name: "guard",
        what: "crashed; Linux may read it, and changes nothing",
        prepare: |v| v.guarded(&[]).and_then(|()| v.base()).and_then(|()| v.session(true)),
        visit: Visit::Unmounts,
        mount: "rw",
        script: READS_ONLY,
        judge: Prepared::keeps_all,
    },
    Case {
        name: "guard-quota",
        what: "the same with quota files",
        prepare: |v| v.guarded(&QUOTA).and_then(|()| v.base()).and_then(|()| v.session(true)),
        visit: Visit::Unmounts,
        mount: "rw",
        script: READS_ONLY,
        judge: Prepared::keeps_all,
    },
    Case {
        name: "guard-orphans",
        what: "the same with a checkpoint that names files without a name",
        prepare: |v| v.orphans(),
        visit: Visit::Unmounts,
        mount: "rw",
        script: READS_ONLY,
        judge: Prepared::keeps_all,
    },
    Case {
        name: "guard-torn",
        what: "the same; its newest checkpoint is torn",
        prepare: |v| {
            v.guarded(&[])?;
            v.base()?;
            v.session(true)?;
            v.tear_newest_checkpoint()
        },
        visit: Visit::Unmounts,
        mount: "rw",
        script: READS_ONLY,
        judge: |v| {
            v.is_unchanged().and_then(|()| v.is_ahead()).and_then(|found| v.has(false, false).map(|()| found))
        },
    },
    Case {
        name: "guard-clean",
        what: "unmounted; Linux writes to it",
        prepare: |v| v.guarded(&[]).and_then(|()| v.base()).and_then(|()| v.session(false)),
        visit: Visit::Unmounts,
        mount: "rw",
        script: "[ \"$(cat $DIR/work/logged)\" = logged ]; echo linux > $DIR/linux",
        judge: |v| v.is_stale("empty").and_then(|found| v.has(true, true).map(|()| found)),
    },
    Case {
        name: "S2",
        what: "crashed; Linux writes to it and unmounts",
        prepare: |v| v.base().and_then(|()| v.session(true)),
        visit: Visit::Unmounts,
        mount: "rw",
        script: concat!(
            "[ \"$(cat $DIR/work/base)\" = base ]; [ ! -e $DIR/work/logged ]; ",
            "echo linux > $DIR/linux"
        ),
        judge: |v| v.is_stale("checkpointed without it").and_then(|found| v.has(false, true).map(|()| found)),
    },
    Case {
        name: "S3",
        what: "crashed in a checkpoint; Linux makes its own from that version on",
        prepare: |v| v.base().and_then(|()| v.session(true)).and_then(|()| v.tear_newest_checkpoint()),
        visit: Visit::Unmounts,
        mount: "rw",
        script: "[ \"$(cat $DIR/work/base)\" = base ]; echo linux > $DIR/linux",
        judge: |v| {
            ensure!(v.version()? >= v.torn, "Linux's checkpoint is {}, ours was {}", v.version()?, v.torn);
            v.is_stale("checkpointed without it").and_then(|found| v.has(false, true).map(|()| found))
        },
    },
    Case {
        name: "S4",
        what: "crashed; fsck.f2fs repairs it",
        prepare: |v| v.base().and_then(|()| v.session(true)).and_then(|()| v.damage_and_repair()),
        visit: Visit::Never,
        mount: "",
        script: "",
        judge: |v| {
            let stale = v.is_stale("checkpointed without it")?;
            let found = format!("{stale} (versions {} and {})", v.torn, v.version()?);
            v.has(false, false).map(|()| found)
        },
    },
    Case {
        name: "S5",
        what: "crashed; Linux syncs a file and loses power before a checkpoint",
        prepare: |v| v.base().and_then(|()| v.session(true)),
        visit: Visit::LosesPower,
        mount: "rw",
        script: "echo linux > /mnt/linux; dd if=/mnt/linux of=$DIR/linux conv=fsync 2> /dev/null",
        judge: |v| v.is_stale("mounted elsewhere").and_then(|found| v.has(false, true).map(|()| found)),
    },
    Case {
        name: "S6",
        what: "an older image under the newer journal of a file of its own",
        prepare: |v| {
            v.beside()?;
            v.base()?;
            let old = fs::read(v.image()).context("reading the image")?;
            v.session(true)?;
            v.session(true)?;
            fs::write(v.image(), old).context("restoring the image")
        },
        visit: Visit::Never,
        mount: "",
        script: "",
        judge: |v| v.is_ahead().and_then(|found| v.has(false, false).map(|()| found)),
    },
    Case {
        name: "crashed",
        what: "crashed; nobody else has it",
        prepare: |v| v.base().and_then(|()| v.session(true)),
        visit: Visit::Never,
        mount: "",
        script: "",
        judge: |v| v.is_usable().and_then(|found| v.has(true, false).map(|()| found)),
    },
    Case {
        name: "apply",
        what: "crashed while an apply was written; nobody else has it",
        prepare: |v| v.cut_in_apply(),
        visit: Visit::Never,
        mount: "",
        script: "",
        judge: |v| v.is_usable().and_then(|found| v.has(true, false).map(|()| found)),
    },
    Case {
        name: "apply-linux",
        what: "the same; Linux finds the checkpoint before, and writes to it",
        prepare: |v| v.cut_in_apply(),
        visit: Visit::Unmounts,
        mount: "rw",
        script: "[ \"$(ls $DIR/work)\" = base ]; [ \"$(cat $DIR/work/base)\" = base ]; echo linux > $DIR/linux",
        judge: |v| v.is_stale("checkpointed without it").and_then(|found| v.has(false, true).map(|()| found)),
    },
];

/// Names that more than fill a small ring by half, at which an apply begins.
const NAMES: u64 = 60_000;
/// Bytes of nodes that an apply has written when the server is killed.
const WRITTEN: u64 = 1 << 20;
/// Open files without a name.
const ORPHANS: u32 = 40;
/// Attempts: an apply may end before the concurrent commit.
const TRIES: u32 = 10;

/// A journaled volume.
pub struct Prepared {
    segno: PathBuf,
    work: PathBuf,
    volume: Volume,
    /// The journal's own file.
    side: Option<PathBuf>,
    /// Version of the checkpoint that was torn or repaired.
    pub torn: u64,
    /// Its newest checkpoint, or changes that only the journal had, are lost; `segno check` must report that.
    is_lost: bool,
    /// fsck.f2fs takes files that are open and have no name for lost.
    hides_orphans: bool,
    /// The contents of the image when it is handed over.
    given: Vec<u8>,
}

impl Prepared {
    pub fn new(segno: &Path, work: &Path) -> Result<Self> {
        fs::create_dir_all(work).with_context(|| format!("making {}", work.display()))?;
        let options = ["-o", "journal=on,nodiscard,noguard"];
        let volume = Volume::make(segno, work, MIB, &["--journal", "8M"], &options)?;
        Ok(Self {
            segno: segno.into(),
            work: work.into(),
            volume,
            side: None,
            torn: 0,
            is_lost: false,
            hides_orphans: false,
            given: Vec::new(),
        })
    }

    pub fn image(&self) -> &Path {
        self.volume.image()
    }

    /// Results of the checkers before the volume is handed over: the last checkpoint of a crashed volume is a
    /// whole volume.
    pub fn check_before(&self) -> Result<()> {
        if !self.hides_orphans {
            crate::fsck::require_clean(self.image())?;
        }
        if !self.is_lost {
            return self.volume.check();
        }
        ensure!(self.volume.check().is_err(), "a check says nothing of what is lost");
        Ok(())
    }

    /// Results of the checkers at the end.
    pub fn check_after(&self) -> Result<()> {
        crate::fsck::require_clean(self.image())?;
        self.volume.check()
    }

    /// Hands the volume over.
    pub fn give(&mut self) -> Result<()> {
        self.given = fs::read(self.image()).context("reading the image")?;
        Ok(())
    }

    /// Nothing was written since the volume was handed over.
    fn is_unchanged(&self) -> Result<()> {
        let now = fs::read(self.image()).context("reading the image")?;
        let block = BLOCK as usize;
        let differs = |(_, (was, is)): &(usize, (&[u8], &[u8]))| was != is;
        let blocks = self.given.chunks(block).zip(now.chunks(block)).enumerate();
        let changed: Vec<usize> = blocks.filter(differs).map(|(at, _)| at).collect();
        ensure!(
            changed.is_empty(),
            "{} blocks were written: {:?}",
            changed.len(),
            changed.get(..20).unwrap_or(&changed)
        );
        Ok(())
    }

    /// A journaled volume that is marked read-only while it is mounted.
    fn guarded(&mut self, mkfs: &[&str]) -> Result<()> {
        let (journal, options) = (["--journal", "8M"], ["-o", "journal=on,nodiscard"]);
        self.volume = Volume::make(&self.segno, &self.work, MIB, &[&journal, mkfs].concat(), &options)?;
        Ok(())
    }

    /// A journaled volume with open files that have no name, in a checkpoint and in the journal.
    fn orphans(&mut self) -> Result<()> {
        let options = ["-o", "journal=on,nodiscard"];
        self.volume = Volume::make(&self.segno, &self.work, MIB, &["--journal", "1M"], &options)?;
        self.base()?;
        let mut server = self.volume.mount()?;
        let mut open = Vec::new();
        for n in 0..ORPHANS {
            let path = self.volume.dir().join(format!("orphan{n}"));
            fs::write(&path, vec![b'o'; 300_000])?;
            open.push(fs::File::open(&path)?);
            fs::remove_file(&path)?;
        }
        let before = self.checkpoints()?;
        // They fill the ring, which makes a checkpoint.
        let filler = self.volume.dir().join("filler");
        for n in 0..NAMES {
            fs::File::create(&filler)?;
            fs::remove_file(&filler)?;
            if n % 1000 == 0 && self.checkpoints()? > before {
                break;
            }
        }
        put(&self.volume.dir().join("logged"), "logged")?;
        server.kill()?;
        drop(open);
        self.volume.unmount_dead()?;
        let listed =
            run(Command::new(&self.segno).args(["dump", "--json"]).arg(self.image()).arg("orphans"))?;
        let listed: Value = serde_json::from_str(&listed)?;
        let count = listed["entries"].as_array().map(Vec::len);
        ensure!(count >= Some(ORPHANS as usize), "the checkpoint names {count:?} orphans: {listed}");
        self.hides_orphans = true;
        Ok(())
    }

    /// A journaled volume with its journal in a file.
    fn beside(&mut self) -> Result<()> {
        let side = self.work.join("side");
        let file = fs::File::create(&side).context("making the journal's file")?;
        file.set_len(8 << 20).context("making the journal's file")?;
        let option = format!("journal={},nodiscard,noguard", side.display());
        fs::remove_file(self.image()).context("removing the image")?;
        self.volume = Volume::make(&self.segno, &self.work, MIB, &[], &["-o", &option])?;
        self.side = Some(side);
        Ok(())
    }

    /// A file that a checkpoint has.
    fn base(&mut self) -> Result<()> {
        let server = self.volume.mount()?;
        put(&self.volume.dir().join("base"), "base")?;
        self.volume.unmount(server)
    }

    /// A file that the journal has, and a checkpoint if this is an unmount.
    fn session(&mut self, crash: bool) -> Result<()> {
        let mut server = self.volume.mount()?;
        put(&self.volume.dir().join("logged.new"), "logged")?;
        fs::rename(self.volume.dir().join("logged.new"), self.volume.dir().join("logged"))?;
        fs::File::open(self.volume.dir())?.sync_all().context("syncing the directory")?;
        if !crash {
            return self.volume.unmount(server);
        }
        server.kill()?;
        self.volume.unmount_dead()?;
        let groups = self.info()?["to_replay"]["groups"].as_u64();
        ensure!(groups > Some(0), "the crash left nothing in the journal: {:#}", self.info()?);
        Ok(())
    }

    /// Creates names until their journal is half full, which begins an apply. Then commits concurrently, and
    /// kills the server before the apply ends.
    fn cut_in_apply(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let mount = ["-o", "journal=on,nodiscard,noguard"];
            self.volume = Volume::make(&self.segno, &self.work, MIB, &["--journal", "1M"], &mount)?;
            self.base()?;
            let mut server = self.volume.mount()?;
            let before = self.allocated()?;
            let mut made = 0;
            // Commits go to space that was written before, so what is new is an apply's.
            while self.allocated()? < before + WRITTEN {
                ensure!(made < NAMES, "no apply has begun");
                fs::File::create(self.volume.dir().join(format!("n{made}")))?;
                made += 1;
            }
            put(&self.volume.dir().join("logged"), "logged")?;
            server.kill()?;
            self.volume.unmount_dead()?;
            // An apply that had ended would have taken them over.
            if self.info()?["to_replay"]["inodes"].as_u64() > Some(made) {
                return Ok(());
            }
        }
        bail!("each apply had ended before the commit beside it")
    }

    /// Bytes of the image that were ever written.
    fn allocated(&self) -> Result<u64> {
        Ok(fs::metadata(self.image())?.blocks() * 512)
    }

    fn info(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.journal_command(&["info", "--json"])?)?)
    }

    fn journal_command(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.segno);
        command.arg("journal").args(args).arg(self.image());
        if let Some(side) = &self.side {
            command.arg("--journal").arg(side);
        }
        run(&mut command)
    }

    fn volume_info(&self) -> Result<Value> {
        Ok(serde_json::from_str(&run(Command::new(&self.segno).args(["info", "--json"]).arg(self.image()))?)?)
    }

    /// Checkpoints of the mount.
    fn checkpoints(&self) -> Result<u64> {
        let stats = run(Command::new(&self.segno).args(["stats", "--json"]).arg(self.volume.dir()))?;
        let stats: Value = serde_json::from_str(&stats)?;
        stats["checkpoints"].as_u64().context("no number of checkpoints")
    }

    /// `checkpoint_ver` of the checkpoint in force.
    pub fn version(&self) -> Result<u64> {
        self.volume_info()?["checkpoint"]["checkpoint_ver"].as_u64().context("no checkpoint_ver")
    }

    /// The newest checkpoint did not arrive: its last block is of an older one.
    fn tear_newest_checkpoint(&mut self) -> Result<()> {
        self.torn = self.version()?;
        let info = self.volume_info()?;
        let number = |value: &Value| value.as_u64().with_context(|| format!("no number: {value}"));
        let start = number(&info["superblock"]["cp_blkaddr"])?;
        let pack = number(&info["checkpoint"]["pack"])? - 1;
        let blocks = number(&info["checkpoint"]["cp_pack_total_block_count"])?;
        let image = fs::File::options().read(true).write(true).open(self.image())?;
        let mut older = [0; BLOCK as usize];
        image.read_exact_at(&mut older, (start + (1 - pack) * 512) * BLOCK)?;
        image.write_all_at(&older, (start + pack * 512 + blocks - 1) * BLOCK)?;
        ensure!(self.version()? < self.torn, "the torn checkpoint is still in force");
        self.is_lost = true;
        Ok(())
    }

    /// fsck.f2fs finds something to repair, and writes a checkpoint.
    fn damage_and_repair(&mut self) -> Result<()> {
        self.torn = self.version()?;
        let mut fsck = f2fs_tool("fsck.f2fs")?;
        miscount_links(self.image(), b"base")?;
        let told = fsck.arg("-f").arg("-y").arg(self.image()).output().context("fsck.f2fs")?;
        let text = String::from_utf8_lossy(&told.stdout);
        fs::write(self.work.join("fsck.log"), &*text)?;
        if !text.contains("[FIX]") {
            bail!("fsck.f2fs repaired nothing:\n{text}");
        }
        self.is_lost = true;
        Ok(())
    }

    /// The journal has no effect, for a reason in which these words are.
    pub fn is_stale(&self, words: &str) -> Result<String> {
        let info = self.info()?;
        let why = info["stale_because"].as_str().unwrap_or_default();
        ensure!(info["state"] == "stale" && why.contains(words), "the journal is not stale: {info:#}");
        Ok(why.to_owned())
    }

    /// The journal follows a newer checkpoint than the volume has; it is given up.
    fn is_ahead(&self) -> Result<String> {
        let info = self.info()?;
        ensure!(info["state"] == "ahead", "the journal is not ahead: {info:#}");
        self.journal_command(&["discard", "--force"])?;
        Ok(info["stale_because"].as_str().unwrap_or_default().to_owned())
    }

    /// Linux wrote nothing, and the journal is replayed.
    fn keeps_all(&self) -> Result<String> {
        self.is_unchanged()?;
        let found = self.is_usable()?;
        self.has(true, false)?;
        Ok(found)
    }

    fn is_usable(&self) -> Result<String> {
        let info = self.info()?;
        ensure!(info["state"] == "usable", "the journal is not usable: {info:#}");
        let groups = info["to_replay"]["groups"].as_u64();
        ensure!(groups > Some(0), "nothing is to be replayed: {info:#}");
        Ok(format!("{} groups replayed", groups.unwrap_or(0)))
    }

    /// Checks the files that our next mount has: always the base, the journal's file if `logged`, Linux's if
    /// `linux`.
    pub fn has(&self, logged: bool, linux: bool) -> Result<()> {
        let server = self.volume.mount()?;
        let root = self.volume.dir();
        let root = root.parent().unwrap_or(&root);
        let read = |name: &str| fs::read_to_string(root.join(name)).ok();
        let found = [read("work/base"), read("work/logged"), read("linux")];
        let wanted =
            [Some("base".to_owned()), logged.then(|| "logged".into()), linux.then(|| "linux\n".into())];
        self.volume.unmount(server)?;
        ensure!(found == wanted, "found {found:?}, not {wanted:?}");
        Ok(())
    }
}

fn put(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let mut file = fs::File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.write_all(text.as_bytes())?;
    file.sync_all().with_context(|| format!("syncing {}", path.display()))
}

/// Gives every inode of that name, current and old, a wrong number of links.
fn miscount_links(image: &Path, name: &[u8]) -> Result<()> {
    const LINKS: u64 = 12;
    const NAME: usize = 88;
    let wanted = [&(name.len() as u32).to_le_bytes(), name].concat();
    let file = fs::File::options().read(true).write(true).open(image)?;
    let (mut block, mut found) = ([0; BLOCK as usize], 0);
    for at in (0..u64::from(MIB) << 20).step_by(block.len()) {
        file.read_exact_at(&mut block, at)?;
        if block.get(NAME..).is_some_and(|rest| rest.starts_with(&wanted)) {
            file.write_all_at(&5_u32.to_le_bytes(), at + LINKS)?;
            found += 1;
        }
    }
    ensure!(found > 0, "no inode of that name");
    Ok(())
}
