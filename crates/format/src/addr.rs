//! Numbers with types: block addresses, node ids, numbers of segments and of sections.
use core::fmt;

/// Address of a 4 KiB block, counted from the start of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockAddr(pub u32);

impl BlockAddr {
    /// A hole: no block.
    pub const NULL: Self = Self(0);
    /// Reserved and counted, but without a place yet; reads as zeros.
    pub const NEW: Self = Self(u32::MAX);
    /// First slot of a compressed cluster.
    pub const COMPRESS: Self = Self(u32::MAX - 1);

    /// Whether this names a place on the device rather than one of the three markers.
    #[must_use]
    pub fn is_real(self) -> bool {
        self != Self::NULL && self != Self::NEW && self != Self::COMPRESS
    }

    /// The address `n` blocks further on; saturates so that a hostile value stays out of range.
    #[must_use]
    pub fn offset(self, n: u32) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl fmt::Display for BlockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NULL => f.write_str("NULL_ADDR"),
            Self::NEW => f.write_str("NEW_ADDR"),
            Self::COMPRESS => f.write_str("COMPRESS_ADDR"),
            Self(a) => write!(f, "{a}"),
        }
    }
}

/// A number that is shown as it is.
macro_rules! number {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Node id: index into the NAT.
    Nid
}
number! {
    /// Inode number: names a file, a directory or another inode, and owns nodes.
    Ino
}
number! {
    /// Segment number, counted from the start of the main area.
    SegNo
}
number! {
    /// Section number, counted from the start of the main area.
    SecNo
}

impl Nid {
    /// No node.
    pub const NONE: Self = Self(0);
    /// The smallest nid that can have a node: that of the root directory.
    pub const ROOT: Self = Self(3);

    /// The inode whose own node has this nid.
    /// Only for the nid of an inode: its footer or NAT entry names it as its own owner, it was allocated for a new inode, or it is virtual.
    #[must_use]
    pub fn as_ino(self) -> Ino {
        Ino(self.0)
    }
}

impl Ino {
    /// No inode.
    pub const NONE: Self = Self(0);
    /// The virtual inode that owns node blocks.
    pub const NODE: Self = Self(1);
    /// The virtual inode that owns metadata blocks.
    pub const META: Self = Self(2);
    /// The root directory.
    pub const ROOT: Self = Self(3);

    /// The nid of the inode's own node, which is the same number.
    #[must_use]
    pub fn nid(self) -> Nid {
        Nid(self.0)
    }
}

impl From<Ino> for Nid {
    fn from(ino: Ino) -> Self {
        ino.nid()
    }
}

impl SegNo {
    /// "No segment", as stored in the unused slots of the checkpoint.
    pub const NONE: Self = Self(u32::MAX);

    /// As an index into per-segment tables.
    #[must_use]
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

impl SecNo {
    /// As an index into per-section tables.
    #[must_use]
    pub fn idx(self) -> usize {
        self.0 as usize
    }

    /// The section `n` further on; saturates.
    #[must_use]
    pub fn offset(self, n: u32) -> Self {
        Self(self.0.saturating_add(n))
    }
}
