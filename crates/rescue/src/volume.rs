//! All that is left of a volume, and which version of each node counts.
use crate::chain::Chain;
use crate::scan::OF_MKFS;
use crate::scan::{BadBlocks, Candidate, Found};
use crate::versions::Versions;
use crate::{Reader, features, geometry};
use segno_device::BlockDevice;
use segno_format::inode::{RawInode, verify_checksum};
use segno_format::sit::LogType;
use segno_format::superblock::Superblock;
use segno_format::{Block, BlockAddr, Features, Geometry, Nid};
use segno_layout::{Nat, NatState, Owner, Pack, Packs, Sit, Ssa, Summaries, Superblocks, certain};

/// The structures found on a volume.
pub struct Volume<'a> {
    /// Its blocks.
    pub reader: Reader<'a>,
    /// The superblock, if a copy is valid.
    pub superblock: Option<Superblock>,
    /// Addresses of the areas, from the superblock or guessed.
    pub geo: Option<Geometry>,
    /// Features, from the superblock or from inodes.
    pub features: Features,
    /// Seed of inode checksums.
    pub seed: Option<u32>,
    /// The checkpoint in force.
    pub pack: Option<Pack>,
    /// The NAT as of that checkpoint.
    pub nat: Option<Nat>,
    /// The SIT as of that checkpoint.
    pub sit: Option<Sit>,
    /// The SIT of the pack in force, if `sit` is that of the older one.
    pub sit_in_force: Option<Sit>,
    /// Owners of blocks.
    pub ssa: Option<Ssa<Reader<'a>>>,
    /// The nodes that fsync wrote after the checkpoint.
    pub chain: Chain,
    /// All nodes.
    pub nodes: Versions,
    /// Blocks of the source that cannot be read.
    pub bad: BadBlocks,
    /// Whether all nodes were looked for.
    pub scanned: bool,
}

impl<'a> Volume<'a> {
    /// Puts together what a scan found. With `previous`, as of the older checkpoint pack.
    #[must_use]
    pub fn find(device: &'a dyn BlockDevice, found: Found, previous: bool) -> Self {
        let scanned = !found.nodes.is_empty();
        let reader = Reader::new(device, found.base);
        let nodes = Versions::new(found.nodes);
        let superblock = certain(Superblocks::load(&reader)).in_force().cloned();
        let addr = |at: &u32| u32::try_from(i64::from(*at) - found.base).ok();
        let checkpoints: Vec<u32> = found.checkpoints.iter().filter_map(addr).collect();
        let geo =
            superblock.as_ref().map(|s| s.geo).or_else(|| geometry::guess(&reader, &nodes, &checkpoints));
        let (features, seed) = match &superblock {
            Some(sb) => (sb.features, Some(sb.inode_checksum_seed())),
            None => features::infer(&reader, &nodes),
        };
        let (newer, older) =
            geo.map_or((None, None), |geo| certain(Packs::load(&reader, &geo)).into_ordered());
        let (pack, in_force) = if previous { (older, newer) } else { (newer, None) };
        let summaries = pack.as_ref().map(Summaries::load);
        let both = geo.zip(pack.as_ref()).zip(summaries.as_ref());
        let mut nat = both.map(|((geo, pack), sums)| certain(Nat::load(&reader, &geo, pack, sums)));
        let fits = |nid: Nid, addr, ino| nodes.at_addr(addr).is_some_and(|n| n.nid == nid.0 && n.ino == ino);
        if let Some(nat) = nat.as_mut().filter(|_| scanned) {
            nat.judge(|nid, e| fits(nid, e.addr(), e.ino.get()));
        }
        let sit = both.map(|((geo, pack), sums)| certain(Sit::load(&reader, &geo, pack, sums)));
        let sit_in_force = geo
            .zip(in_force)
            .map(|(geo, pack)| certain(Sit::load(&reader, &geo, &pack, &Summaries::load(&pack))));
        let ssa = geo.map(|geo| Ssa::new(reader, geo, pack.as_ref().zip(summaries.as_ref())));
        let chain = match geo.zip(pack.as_ref()).filter(|_| !previous) {
            Some((geo, pack)) => Chain::find(pack, &geo, &nodes),
            None => Chain::default(),
        };
        let valid = pack.as_ref().map_or(0, |p| p.cp().valid_block_count.get());
        let (nat, sit) = (nat.filter(|n| !n.is_lost()), sit.filter(|s| !s.is_lost(valid)));
        Self {
            reader,
            superblock,
            geo,
            features,
            seed,
            pack,
            nat,
            sit,
            sit_in_force,
            ssa,
            chain,
            nodes,
            bad: found.bad,
            scanned,
        }
    }

    /// The volume at the start of a device, without a scan: nodes are found by the NAT alone.
    #[must_use]
    pub fn unscanned(device: &'a dyn BlockDevice) -> Self {
        Self::find(device, Found::default(), false)
    }

    /// Whether an address can be a block of the main area.
    #[must_use]
    pub fn in_main(&self, addr: BlockAddr) -> bool {
        match &self.geo {
            Some(geo) => geo.in_main(addr) && addr.0 < self.reader.end(),
            None => addr.is_real() && addr.0 < self.reader.end(),
        }
    }

    /// Whether no file of the checkpoint in force has a block, so that it may have been discarded.
    #[must_use]
    pub fn is_free(&self, addr: BlockAddr) -> bool {
        let sit = self.sit_in_force.as_ref().or(self.sit.as_ref());
        let valid = self.geo.as_ref().zip(sit).and_then(|(geo, sit)| sit.is_valid(geo, addr));
        valid == Some(false)
    }

    /// The owner of a block according to the summaries.
    #[must_use]
    pub fn owner(&self, addr: BlockAddr) -> Option<Owner> {
        certain(self.ssa.as_ref()?.owner(addr))
    }

    /// The NAT's state of a nid.
    #[must_use]
    pub fn nat(&self, nid: u32) -> NatState {
        self.nat.as_ref().map_or(NatState::Unknown, |nat| nat.get(Nid(nid)))
    }

    /// The live version of a node, and whether the NAT or the roll-forward chain names it. `right` selects
    /// the versions that are possible.
    pub fn live(&self, nid: u32, right: impl Fn(&Candidate) -> bool) -> Option<(Candidate, bool)> {
        if let Some(addr) = self.chain.overlay.get(&nid) {
            return self.node_at(BlockAddr(*addr)).filter(|n| right(n)).map(|n| (n, true));
        }
        match self.nat(nid) {
            NatState::Free(_) => return None,
            NatState::Used(e) => {
                let named = self.node_at(e.addr()).filter(|n| n.nid == nid && right(n));
                if named.is_some() {
                    return named.map(|n| (n, true));
                }
            }
            NatState::Unknown => {}
        }
        let versions = || self.nodes.of(nid).filter(|n| right(n));
        let ranked = versions().find(|n| self.in_use(n)).or_else(|| versions().find(|n| self.promised(n)));
        ranked.or_else(|| versions().next()).map(|n| (*n, false))
    }

    /// Whether the SIT has the block of a node in use, in a segment of nodes.
    pub(crate) fn in_use(&self, n: &Candidate) -> bool {
        let Some((geo, sit)) = self.geo.as_ref().zip(self.sit.as_ref()) else { return false };
        let log = geo.seg_of(n.place()).and_then(|(seg, _)| sit.log(seg));
        log.is_some_and(LogType::is_node) && sit.is_valid(geo, n.place()) == Some(true)
    }

    /// Whether neither the tables nor its version show that a node is part of the checkpoint in force.
    #[must_use]
    pub fn is_unranked(&self, n: &Candidate) -> bool {
        let named = match self.nat(n.nid) {
            NatState::Used(e) => e.addr() == n.place(),
            NatState::Free(_) | NatState::Unknown => false,
        };
        let chained = self.chain.overlay.get(&n.nid) == Some(&n.addr);
        !(chained || named || self.promised(n) || self.in_use(n))
    }

    /// The node at an address, read now if there was no scan.
    #[must_use]
    pub fn node_at(&self, addr: BlockAddr) -> Option<Candidate> {
        if self.scanned {
            return self.nodes.at_addr(addr).copied();
        }
        Candidate::of(&self.reader.block(addr)?, addr.0, self.reader.end())
    }

    /// Whether a node's version shows that it is part of the checkpoint in force.
    ///
    /// Linux and Segno store the version of the checkpoint that the node follows, so a node of a pack has a
    /// lower version than the pack. f2fs-tools write nodes and rewrite the pack without raising its version,
    /// so their nodes have the pack's version. These nodes have no link to a next block and no checksum of a
    /// pack; every node logged after the pack has at least one of the two.
    #[must_use]
    pub fn promised(&self, n: &Candidate) -> bool {
        let Some(pack) = &self.pack else { return true };
        let ahead = (n.cp_ver as u32).wrapping_sub(pack.version() as u32).cast_signed();
        ahead < 0 || n.cp_ver == OF_MKFS || (ahead == 0 && !n.in_log() && n.cp_ver >> 32 == 0)
    }

    /// Reads an inode block and checks its checksum.
    #[must_use]
    pub fn inode(&self, n: &Candidate) -> Option<(Block, Checked)> {
        let block = self.reader.block(n.place())?;
        let footer = block.view::<RawInode>().footer;
        if footer.nid.get() != n.nid || footer.ino.get() != n.ino {
            return None;
        }
        let checked = match (self.features.contains(Features::INODE_CHKSUM), self.seed) {
            (true, Some(seed)) if block.view::<RawInode>().has_extra(12) => {
                match verify_checksum(&block, self.features, seed) {
                    Ok(()) => Checked::Right,
                    Err(_) => Checked::Wrong,
                }
            }
            _ => Checked::Absent,
        };
        Some((block, checked))
    }
}

/// State of an inode's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is right.
    Right,
    /// It is wrong.
    Wrong,
    /// The inode has no checksum, or the seed is not known.
    Absent,
}
