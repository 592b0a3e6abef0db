//! The reserve that guarantees cleaning: with enough sections kept from users, overwrites never run out of
//! space.
//!
//! A cleaning batch in which each section gains a share `g` takes up to `2 + 1/g` sections. A gain of `g`
//! exists as long as holes make up `g * S` of all `S` sections. With six logs and three sections for
//! rounding, a reserve of `11 + 2 * sqrt(S)` suffices for any number of nodes. That is the minimum over `g`,
//! at `g = 1 / sqrt(S)`. With few nodes the checkpoint after a batch is small, and
//! `10 + ceil(S / B) + ceil(N / B)` sections of `B` blocks suffice for `N` nodes.

/// User blocks for each node if all files have 16 KiB: four of data, and the inode.
const BLOCKS_OF_SMALL_FILE: u64 = 5;
/// Sections that both bounds keep for the logs and for rounding.
const FIXED: u64 = 10;

/// Size of a volume, as the bounds use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Sections of the main area.
    pub sections: u64,
    /// Blocks of a section; at least one.
    pub blocks_per_section: u64,
    /// Blocks that users may fill.
    pub user_blocks: u64,
}

/// How many nodes a volume may hold for cleaning to be guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Any number that fits.
    All,
    /// Up to this number.
    UpTo(u64),
    /// No node at all.
    Never,
}

impl Guarded {
    /// The greatest number of nodes; `None` if there is no limit.
    #[must_use]
    pub fn most_nodes(self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::UpTo(nodes) => Some(nodes),
            Self::Never => Some(0),
        }
    }

    /// Whether `nodes` nodes are guarded.
    #[must_use]
    pub fn covers(self, nodes: u64) -> bool {
        self.most_nodes().is_none_or(|most| nodes <= most)
    }
}

impl Extent {
    /// Whole sections kept from users.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        let blocks = self.sections.saturating_mul(self.blocks_per_section);
        blocks.saturating_sub(self.user_blocks) / self.blocks_per_section.max(1)
    }

    /// The nodes that the reserve guards. Each node is a user block, so there are never more than those.
    #[must_use]
    pub fn guarded(&self) -> Guarded {
        let reserve = self.reserve();
        if reserve >= any_nodes(self.sections) {
            return Guarded::All;
        }
        let spare = reserve.saturating_sub(few_nodes(self.sections, self.blocks_per_section, 0));
        match spare.saturating_mul(self.blocks_per_section) {
            0 => Guarded::Never,
            nodes if nodes >= self.user_blocks => Guarded::All,
            nodes => Guarded::UpTo(nodes),
        }
    }

    /// Whether the reserve guards as many nodes as a volume full of small files has. Ordinary volumes have
    /// fewer.
    #[must_use]
    pub fn guards_small_files(&self) -> bool {
        self.guarded().covers(self.user_blocks / BLOCKS_OF_SMALL_FILE)
    }
}

/// The smallest reserve, in sections, that guards `nodes` nodes.
#[must_use]
pub fn least_reserve(sections: u64, blocks_per_section: u64, nodes: u64) -> u64 {
    any_nodes(sections).min(few_nodes(sections, blocks_per_section, nodes))
}

/// `11 + 2 * sqrt(sections)`, rounded up.
fn any_nodes(sections: u64) -> u64 {
    let square = sections.saturating_mul(4);
    let root = square.isqrt();
    FIXED + 1 + root + u64::from(root.saturating_mul(root) < square)
}

fn few_nodes(sections: u64, blocks_per_section: u64, nodes: u64) -> u64 {
    let per = blocks_per_section.max(1);
    FIXED.saturating_add(sections.div_ceil(per)).saturating_add(nodes.div_ceil(per))
}
