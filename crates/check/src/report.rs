//! The report of a check.
use segno_format::{Corrupt, Structure, Unit, text};
use serde::{Serialize, Serializer};
use std::fmt;

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Problems kept in the report; the rest are only counted.
    pub max_problems: usize,
    /// Read the content of compressed clusters, too.
    pub data: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { max_problems: 1000, data: false }
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing, but every file system that follows the format copes with it.
    Warning,
    /// The volume contradicts the format or itself.
    Error,
}

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// A superblock copy is invalid.
    Superblock,
    /// The two superblocks describe different volumes.
    SuperblockCopies,
    /// The two superblocks differ in something that a power cut between two writes explains.
    SuperblockStale,
    /// The superblock carries error records of a running file system.
    ErrorRecord,
    /// The volume is longer than its device.
    DeviceTooSmall,
    /// No checkpoint pack is valid.
    NoCheckpoint,
    /// A number in the checkpoint is impossible.
    Checkpoint,
    /// The checkpoint's flags require a check or record that the file system stopped.
    CheckpointFlag,
    /// A SIT entry is invalid.
    SitEntry,
    /// The SIT journal is invalid.
    SitJournal,
    /// A NAT entry is invalid.
    NatEntry,
    /// The NAT journal is invalid.
    NatJournal,
    /// Two node ids have the same block.
    NatDuplicate,
    /// nat_bits contradict the NAT.
    NatBits,
    /// The list of orphans is invalid, or an inode in it is not an orphan.
    Orphan,
    /// The position of a log is impossible.
    Curseg,
    /// A segment's summary has the wrong type.
    SummaryType,
    /// A summary names another owner than the one that refers to the block.
    SummaryEntry,
    /// The roll-forward chain runs in a circle.
    RollForward,
    /// A node id that is referred to is out of range or has no block.
    NodeMissing,
    /// A node is referred to twice.
    NodeShared,
    /// A node's footer belongs to another node.
    NodeFooter,
    /// A node's cold bit does not fit its inode's type.
    ColdBit,
    /// A block address lies outside the main area, or is not allowed in its place.
    BlockAddress,
    /// A block in use is free in the SIT.
    BlockFree,
    /// A data block lies in a node segment or the reverse.
    SegmentType,
    /// A block has two owners.
    BlockShared,
    /// A field of an inode is invalid.
    Inode,
    /// An inode's checksum is wrong.
    InodeChecksum,
    /// i_blocks differs from the blocks found.
    InodeBlocks,
    /// i_links differs from the names found.
    InodeLinks,
    /// The cached extent differs from the index.
    InodeExtent,
    /// The parent recorded for recovery is not the directory that has the name.
    ParentPointer,
    /// Inline data contradict their inode.
    InlineData,
    /// A symbolic link's target is invalid.
    Symlink,
    /// A device file's number is invalid.
    DeviceNumber,
    /// A compressed cluster has an impossible shape.
    Cluster,
    /// The content of a compressed cluster cannot be unpacked.
    ClusterData,
    /// i_compr_blocks differs from the blocks saved.
    ComprBlocks,
    /// Extended attributes cannot be parsed.
    Xattr,
    /// Bytes that should be zero are not.
    Padding,
    /// A directory's slots are damaged.
    Dentry,
    /// A name is empty, too long or has forbidden bytes.
    DentryName,
    /// A name's hash is wrong.
    DentryHash,
    /// The hash of a folded name is not the one that this program computes.
    FoldedHash,
    /// An entry lies in a block where no lookup finds it.
    DentryPlace,
    /// A name appears twice.
    DentryDuplicate,
    /// An entry's type is not its inode's.
    DentryType,
    /// `.` or `..` is missing or wrong.
    DentryDots,
    /// A node has a NAT entry but nothing refers to it.
    NodeLost,
    /// Blocks are valid in the SIT but nothing refers to them.
    BlockLost,
    /// A counter in the checkpoint differs from the number found.
    Counter,
    /// A quota file contradicts itself or the usage found.
    Quota,
}

impl Kind {
    /// How bad problems of this kind are.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::SuperblockStale
            | Self::ErrorRecord
            | Self::CheckpointFlag
            | Self::ParentPointer
            | Self::FoldedHash
            | Self::Padding => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// A cluster of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileCluster {
    /// Path of the file; `None` without a name. Bytes that are not UTF-8 are escaped.
    pub path: Option<String>,
    /// All bytes of the path in hexadecimal, if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Cluster, counted from the start of the file.
    pub cluster: u64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The broken rule, for programs.
    pub kind: Kind,
    /// How bad it is.
    pub severity: Severity,
    /// The damaged structure.
    #[serde(serialize_with = "by_name")]
    pub structure: Structure,
    /// What `at` counts.
    #[serde(serialize_with = "by_name")]
    pub unit: Unit,
    /// Where it is.
    pub at: u64,
    /// The inode it belongs to, where that is known.
    pub ino: Option<u32>,
    /// Where it is in a file, of problems of content.
    pub file: Option<FileCluster>,
    /// The rule that does not hold.
    pub why: &'static str,
    /// The value on the volume.
    pub found: u64,
    /// The value that the rule requires, or its limit.
    pub expected: u64,
}

fn by_name<S: Serializer>(name: &impl fmt::Display, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(name)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            return self.in_file(f, file);
        }
        write!(f, "{} at {} {}", self.structure, self.unit, self.at)?;
        if let Some(ino) = self.ino.filter(|&i| self.unit != Unit::Nid || self.at != u64::from(i)) {
            write!(f, ", inode {ino}")?;
        }
        write!(f, ": {}", self.why)?;
        self.values(f)
    }
}

impl Problem {
    fn in_file(&self, f: &mut fmt::Formatter<'_>, file: &FileCluster) -> fmt::Result {
        match (&file.path, self.ino) {
            (Some(path), _) => f.write_str(&text::of_field(path, file.path_bytes.is_some()))?,
            (None, ino) => write!(f, "inode {}", ino.unwrap_or_default())?,
        }
        let (cluster, at, why) = (file.cluster, self.at, self.why);
        write!(f, ": cluster {cluster} (block {at:#x}) has a wrong {why}")?;
        self.values(f)
    }

    /// The found and the expected value, for a rule that compares values.
    fn values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.found == self.expected {
            return Ok(());
        }
        write!(f, " (found {}, expected {})", self.found, self.expected)
    }
}

/// Node blocks that fsync wrote after the checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RollForward {
    /// Node blocks in the chain.
    pub nodes: u64,
    /// Those marked by fsync; 0 means that recovery has nothing to do.
    pub fsynced: u64,
}

/// The contents of the volume, as counted by the check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Version of the checkpoint that was checked.
    pub checkpoint_ver: u64,
    /// Pack it was read from: 1 or 2.
    pub pack: u8,
    /// Whether it was written by a clean unmount.
    pub clean_unmount: bool,
    /// Inodes of all types, orphans included.
    pub inodes: u64,
    /// Directories.
    pub dirs: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Device nodes, pipes and sockets.
    pub special_files: u64,
    /// Inodes without a name that the next mount frees.
    pub orphans: u64,
    /// Node blocks, including inodes.
    pub nodes: u64,
    /// Data blocks with a place.
    pub data_blocks: u64,
    /// Slots that are counted without a place (`NEW_ADDR`, `COMPRESS_ADDR`).
    pub reserved_blocks: u64,
    /// Segments without a valid block.
    pub free_segments: u64,
    /// Segments of the main area.
    pub main_segments: u64,
    /// The fsyncs that the next mount recovers.
    pub roll_forward: RollForward,
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The first problems found, as many as [`CheckOptions::max_problems`].
    pub problems: Vec<Problem>,
    /// All errors, also those not kept.
    pub errors: u64,
    /// Those among the errors that are damaged content of files, which no repair restores.
    pub data_errors: u64,
    /// All warnings, also those not kept.
    pub warnings: u64,
    /// False when the superblock or checkpoint was too damaged to look further.
    pub complete: bool,
    /// Counts of the contents.
    pub summary: Summary,
}

impl Report {
    /// Whether no error was found; warnings do not count.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors == 0
    }

    /// Whether a problem of that kind was kept.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.problems.iter().any(|p| p.kind == kind)
    }
}

/// Collects problems while the passes run.
pub(crate) struct Sink {
    max: usize,
    report: Report,
}

impl Sink {
    pub(crate) fn new(opts: &CheckOptions) -> Self {
        Self { max: opts.max_problems, report: Report::default() }
    }

    /// A problem that belongs to no inode in particular.
    pub(crate) fn add(&mut self, kind: Kind, what: Corrupt) {
        self.push(kind, what, None, None);
    }

    /// A problem of an inode.
    pub(crate) fn add_for(&mut self, ino: u32, kind: Kind, what: Corrupt) {
        self.push(kind, what, Some(ino), None);
    }

    /// Rules that do not hold, of an inode or of none.
    pub(crate) fn add_broken(&mut self, ino: Option<u32>, rules: Rules) {
        rules.broken.into_iter().for_each(|(kind, what)| self.push(kind, what, ino, None));
    }

    /// Damaged content of a file's cluster.
    pub(crate) fn add_content(&mut self, ino: u32, path: Option<Vec<u8>>, cluster: u64, what: Corrupt) {
        self.report.data_errors = self.report.data_errors.saturating_add(1);
        let (path, path_bytes) = path.map(|path| text::field(&path)).unzip();
        let file = FileCluster { path, path_bytes: path_bytes.flatten(), cluster };
        self.push(Kind::ClusterData, what, Some(ino), Some(file));
    }

    fn push(&mut self, kind: Kind, c: Corrupt, ino: Option<u32>, file: Option<FileCluster>) {
        let severity = kind.severity();
        let count = match severity {
            Severity::Error => &mut self.report.errors,
            Severity::Warning => &mut self.report.warnings,
        };
        *count = count.saturating_add(1);
        if self.report.problems.len() < self.max {
            let Corrupt { what: structure, unit, at, why, found, expected } = c;
            self.report.problems.push(Problem {
                kind,
                severity,
                structure,
                unit,
                at,
                ino,
                file,
                why,
                found,
                expected,
            });
        }
    }

    /// Whether no error has been found so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.report.is_clean()
    }

    pub(crate) fn into_report(self, summary: Summary, complete: bool) -> Report {
        Report { complete, summary, ..self.report }
    }
}

/// Checks one place of a volume and keeps the broken rules.
pub(crate) struct Rules {
    kind: Kind,
    structure: Structure,
    unit: Unit,
    at: u64,
    pub broken: Vec<(Kind, Corrupt)>,
}

impl Rules {
    pub(crate) fn new(kind: Kind, structure: Structure, unit: Unit, at: impl Into<u64>) -> Self {
        Self { kind, structure, unit, at: at.into(), broken: Vec::new() }
    }

    /// Changes the kind of the rules that follow; the place is unchanged.
    pub(crate) fn of(&mut self, kind: Kind) -> &mut Self {
        self.kind = kind;
        self
    }

    /// A rule; whether it holds.
    pub(crate) fn require(
        &mut self,
        holds: bool,
        why: &'static str,
        found: impl Into<u64>,
        expected: impl Into<u64>,
    ) -> bool {
        if !holds {
            let (what, unit, at) = (self.structure, self.unit, self.at);
            self.add(Corrupt { what, unit, at, why, found: found.into(), expected: expected.into() });
        }
        holds
    }

    /// Adds damage that was found without a rule.
    pub(crate) fn add(&mut self, damage: Corrupt) {
        self.broken.push((self.kind, damage));
    }

    /// The rule that two values are equal.
    pub(crate) fn equal(
        &mut self,
        why: &'static str,
        found: impl Into<u64>,
        expected: impl Into<u64>,
    ) -> bool {
        let (found, expected) = (found.into(), expected.into());
        self.require(found == expected, why, found, expected)
    }

    /// A flag that must not be set.
    pub(crate) fn refuse(&mut self, set: bool, why: &'static str) {
        self.equal(why, set, false);
    }

    /// Whether all rules hold.
    pub(crate) fn hold(&self) -> bool {
        self.broken.is_empty()
    }
}
