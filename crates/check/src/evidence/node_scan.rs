//! All nodes by their addresses.
use crate::CheckError;
use crate::evidence::{Bitmap, Item, MultisetHash, Ssa, Volume};
use segno_format::Nid;
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::nat::{RawNatEntry, nat_index};
use std::collections::HashMap;

/// The nodes of a volume, collected in one pass over the NAT.
pub(crate) struct NodeScan {
    /// Their addresses, by block of the main area.
    pub places: Bitmap,
    /// Those of inodes.
    pub inodes: Bitmap,
    /// By NAT block, where one is not zero.
    versions: HashMap<u32, Box<[u8; NAT_PER_BLOCK as usize]>>,
    pub stored_in_use: Vec<u16>,
}

impl NodeScan {
    /// `None` if an entry contradicts the SIT or another entry.
    pub(crate) fn take(
        volume: &Volume<'_>,
        ssa: &Ssa<'_>,
        hash: &mut MultisetHash,
    ) -> Result<Option<Self>, CheckError> {
        let blocks = volume.geo.main_blocks();
        let mut scan = Self {
            places: Bitmap::new(blocks),
            inodes: Bitmap::new(blocks),
            versions: HashMap::new(),
            stored_in_use: Vec::new(),
        };
        let mut fits = true;
        scan.stored_in_use = volume.nat.scan(|nid, entry| {
            fits = fits && scan.add(volume, nid, &entry);
            hash.expect(Item::node(nid, entry.owner().0, entry.addr()));
            if ssa.has_entry(entry.addr()) {
                hash.expect(Item::node_block(entry.addr(), nid.0));
            }
        })?;
        Ok(fits.then_some(scan))
    }

    fn add(&mut self, volume: &Volume<'_>, nid: Nid, entry: &RawNatEntry) -> bool {
        let Some((seg, off)) = volume.geo.seg_of(entry.addr()) else { return false };
        let block = u64::from(entry.addr().0 - volume.geo.main_blkaddr);
        if entry.owner().nid() == nid {
            self.inodes.insert(block);
        }
        let (b, i) = nat_index(nid);
        if entry.version != 0
            && let Some(version) =
                self.versions.entry(b).or_insert_with(|| Box::new([0; NAT_PER_BLOCK as usize])).get_mut(i)
        {
            *version = entry.version;
        }
        volume.sit.is_valid(seg, off) && self.places.insert(block)
    }

    pub(crate) fn version(&self, nid: Nid) -> u8 {
        let (b, i) = nat_index(nid);
        self.versions.get(&b).and_then(|block| block.get(i)).copied().unwrap_or_default()
    }
}
