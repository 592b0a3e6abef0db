//! The entries of the NAT against the SIT and each other.
use crate::CheckError;
use crate::evidence::{Bitmap, Nat, Volume};
use crate::report::{Kind, Sink};
use segno_format::nat::RawNatEntry;
use segno_format::{BlockAddr, Corrupt, Nid, Structure};

/// What mkfs stores for the two virtual inodes, which have no block.
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
    for (nid, expected) in (0..).zip(expected) {
        let found = nat.entry(Nid(nid)).addr();
        if found != expected {
            let why = "address of a nid without a block";
            let e = Corrupt::nid(Structure::NatBlock, nid, why, found.0.into(), expected.0.into());
            sink.add(Kind::NatEntry, e);
        }
    }
}

fn check_owner(volume: &Volume<'_>, nid: Nid, entry: &RawNatEntry, sink: &mut Sink) {
    let owner = entry.owner();
    if volume.nat.get(owner).is_none_or(|e| e.owner() != owner) {
        let why = "owner is not an inode in use";
        sink.add(Kind::NatEntry, Corrupt::nid(Structure::NatBlock, nid.0, why, owner.0.into(), nid.0.into()));
    }
}

/// A node has a valid block of its own; the blocks of those before are in `places`.
pub(crate) fn check_place(
    volume: &Volume<'_>,
    nid: Nid,
    entry: &RawNatEntry,
    places: &mut Bitmap,
    sink: &mut Sink,
) {
    let (addr, ino) = (entry.addr(), entry.owner().0);
    let bad = |why, found: u64, expected: u64| Corrupt::nid(Structure::NatBlock, nid.0, why, found, expected);
    let Some((seg, off)) = volume.geo.seg_of(addr) else {
        let e = bad("address outside the main area", addr.0.into(), volume.geo.main_blkaddr.into());
        sink.add_for(ino, Kind::NatEntry, e);
        return;
    };
    if !places.insert((addr.0 - volume.geo.main_blkaddr).into()) {
        sink.add_for(ino, Kind::NatDuplicate, bad("another nid has the same block", addr.0.into(), 0));
    } else if !volume.sit.is_valid(seg, off) {
        sink.add_for(ino, Kind::BlockFree, bad("block is free in the SIT", addr.0.into(), 1));
    }
}
