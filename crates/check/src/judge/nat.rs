//! The entries of the NAT against the SIT and each other.
use crate::CheckError;
use crate::evidence::{Bitmap, Nat, Volume};
use crate::report::{Kind, Rules, Sink};
use segno_format::nat::RawNatEntry;
use segno_format::{BlockAddr, Nid, Structure, Unit};

/// Address that mkfs stores for the two virtual inodes, which have no block.
const DUMMY_ADDR: u32 = 1;

/// Checks the entries and the places they name. Returns the addresses of all nodes, by block of the main area.
pub(crate) fn check_places(volume: &Volume<'_>, sink: &mut Sink) -> Result<Bitmap, CheckError> {
    check_virtual(&volume.nat, sink);
    let mut places = Bitmap::new(volume.geo.main_blocks());
    volume.nat.scan(|nid, entry| {
        check_owner(volume, nid, &entry, sink);
        check_place(volume, nid, &entry, &mut places, sink);
    })?;
    Ok(places)
}

/// Checks the entries of nids that have no block.
pub(crate) fn check_virtual(nat: &Nat<'_>, sink: &mut Sink) {
    let expected = [BlockAddr::NULL, BlockAddr(DUMMY_ADDR), BlockAddr(DUMMY_ADDR)];
    for (nid, expected) in (0u32..).zip(expected) {
        let mut rules = Rules::new(Kind::NatEntry, Structure::NatBlock, Unit::Nid, nid);
        rules.equal("address of a nid without a block", nat.entry(Nid(nid)).addr().0, expected.0);
        sink.add_broken(None, rules);
    }
}

fn check_owner(volume: &Volume<'_>, nid: Nid, entry: &RawNatEntry, sink: &mut Sink) {
    let owner = entry.owner();
    let is_inode = volume.nat.get(owner.nid()).is_some_and(|e| e.owner() == owner);
    let mut rules = Rules::new(Kind::NatEntry, Structure::NatBlock, Unit::Nid, nid.0);
    rules.require(is_inode, "owner is not an inode in use", owner.0, nid.0);
    sink.add_broken(None, rules);
}

/// Checks that a node has a valid block that no earlier node uses; `places` has the blocks of earlier nodes.
pub(crate) fn check_place(
    volume: &Volume<'_>,
    nid: Nid,
    entry: &RawNatEntry,
    places: &mut Bitmap,
    sink: &mut Sink,
) {
    let (addr, geo) = (entry.addr(), &volume.geo);
    let mut rules = Rules::new(Kind::NatEntry, Structure::NatBlock, Unit::Nid, nid.0);
    if let Some((seg, off)) = geo.seg_of(addr) {
        let new = places.insert((addr.0 - geo.main_blkaddr).into());
        rules.of(Kind::NatDuplicate).require(new, "another nid has the same block", addr.0, 0u64);
        let valid = !new || volume.sit.is_valid(seg, off);
        rules.of(Kind::BlockFree).require(valid, "block is free in the SIT", addr.0, 1u64);
    } else {
        rules.require(false, "address outside the main area", addr.0, geo.main_blkaddr);
    }
    sink.add_broken(Some(entry.owner().0), rules);
}
