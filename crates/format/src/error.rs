//! Damage in bytes from a device: structure, place, and expected value.
use core::fmt;

/// The on-disk structures, by the names users know from f2fs-tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// A copy of the superblock.
    Superblock,
    /// A checkpoint pack.
    Checkpoint,
    /// A block of the node address table.
    NatBlock,
    /// NAT entries kept in a summary block.
    NatJournal,
    /// A block of the segment information table.
    SitBlock,
    /// SIT entries kept in a summary block.
    SitJournal,
    /// A summary block: which node each block of a segment belongs to.
    Summary,
    /// The list of inodes to free at the next mount.
    OrphanBlock,
    /// The end of a node block, which names the inode of the node.
    NodeFooter,
    /// An inode block.
    Inode,
    /// A node of data block addresses.
    DirectNode,
    /// A node of node ids.
    IndirectNode,
    /// A block of directory entries.
    DentryBlock,
    /// Directory entries in the inode.
    InlineDentry,
    /// Extended attributes.
    Xattr,
    /// A POSIX ACL.
    Acl,
    /// A cluster of compressed blocks.
    Cluster,
    /// The target of a symbolic link.
    Symlink,
    /// The chain of nodes that fsync wrote after the checkpoint.
    RollForward,
    /// The metadata journal.
    Journal,
    /// A quota file.
    Quota,
    /// The volume as a whole, such as its size.
    Volume,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Superblock => "superblock",
            Self::Checkpoint => "checkpoint pack",
            Self::NatBlock => "NAT block",
            Self::NatJournal => "NAT journal",
            Self::SitBlock => "SIT block",
            Self::SitJournal => "SIT journal",
            Self::Summary => "segment summary",
            Self::OrphanBlock => "orphan block",
            Self::NodeFooter => "node footer",
            Self::Inode => "inode",
            Self::DirectNode => "direct node",
            Self::IndirectNode => "indirect node",
            Self::DentryBlock => "dentry block",
            Self::InlineDentry => "inline directory",
            Self::Xattr => "extended attributes",
            Self::Acl => "POSIX ACL",
            Self::Cluster => "compressed cluster",
            Self::Symlink => "symbolic link",
            Self::Journal => "journal",
            Self::RollForward => "roll-forward chain",
            Self::Quota => "quota file",
            Self::Volume => "volume",
        })
    }
}

/// Unit of the place of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "as they are shown")]
pub enum Unit {
    #[error("block")]
    Block,
    #[error("nid")]
    Nid,
    #[error("inode")]
    Inode,
    #[error("segment")]
    Segment,
    #[error("id")]
    Id,
}

/// Damage: structure, place, reason. Its kind is `what`: programs decide by it, never by `why`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what} at {unit} {at}: {why} (found {found}, expected {expected})")]
pub struct Corrupt {
    /// Which structure is damaged.
    pub what: Structure,
    /// What `at` counts.
    pub unit: Unit,
    /// Where it is.
    pub at: u64,
    /// The rule that does not hold.
    pub why: &'static str,
    /// The value found.
    pub found: u64,
    /// The value, or limit, that was expected.
    pub expected: u64,
}

impl Corrupt {
    /// Damage in a block.
    #[must_use]
    pub fn block(what: Structure, at: u64, why: &'static str, found: u64, expected: u64) -> Self {
        Self { what, unit: Unit::Block, at, why, found, expected }
    }

    /// Damage in a node, known by nid.
    #[must_use]
    pub fn nid(what: Structure, at: u32, why: &'static str, found: u64, expected: u64) -> Self {
        Self { what, unit: Unit::Nid, at: u64::from(at), why, found, expected }
    }

    /// Damage in a segment's tables.
    #[must_use]
    pub fn seg(what: Structure, at: u32, why: &'static str, found: u64, expected: u64) -> Self {
        Self { what, unit: Unit::Segment, at: u64::from(at), why, found, expected }
    }
}
