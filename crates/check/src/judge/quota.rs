//! Quota files against the usage that the walk counted.
use crate::CheckError;
use crate::evidence::{Charge, QuotaFile, QuotaInode, Volume};
use crate::report::{Kind, Rules, Sink};
use segno_format::checkpoint::CpFlags;
use segno_format::inode::RawInode;
use segno_format::quota::QUOTA_KINDS;
use segno_format::{BLOCK_SIZE, Block, Features, Structure, Unit};
use std::collections::HashMap;

/// The usage of all ids, and the quota files that should record it.
#[derive(Default)]
pub(crate) struct Usage {
    charges: [HashMap<u32, Charge>; QUOTA_KINDS],
    pub files: [Option<QuotaInode>; QUOTA_KINDS],
}

/// The ids charged for an inode: user, group and project.
#[must_use]
pub fn payers(raw: &RawInode, features: Features) -> [u32; QUOTA_KINDS] {
    let projid = if features.contains(Features::PRJQUOTA) { raw.projid() } else { 0 };
    [raw.i_uid.get(), raw.i_gid.get(), projid]
}

/// Whether a quota file of a size meets Linux's requirements. Bytes after the end of `bytes` read as zeros.
#[must_use]
pub fn is_sound_quota(bytes: &[u8], size: u64, kind: usize) -> bool {
    let block = |b: u64| {
        let bytes = bytes.chunks(BLOCK_SIZE).nth(b as usize).unwrap_or_default();
        Ok(bytes.first_chunk().map_or_else(Block::zeroed, |bytes| Block(*bytes)))
    };
    let file = QuotaFile { ino: 0, size, block: &block };
    matches!(file.read(kind), Ok(Ok(_)))
}

impl Usage {
    /// Charges an inode with `blocks` blocks to the ids `payers`.
    pub(crate) fn add(&mut self, payers: [u32; QUOTA_KINDS], blocks: u64) {
        for (charges, id) in self.charges.iter_mut().zip(payers) {
            let charge = charges.entry(id).or_default();
            charge.inodes = charge.inodes.saturating_add(1);
            // The inode block itself is free of charge.
            let bytes = blocks.saturating_sub(1).saturating_mul(BLOCK_SIZE as u64);
            charge.bytes = charge.bytes.saturating_add(bytes);
        }
    }
}

/// Compares every quota file with the charges, unless the checkpoint's flags allow a difference. On a volume
/// with other errors the charges are not known.
pub(crate) fn check(volume: &Volume<'_>, usage: &Usage, sink: &mut Sink) -> Result<(), CheckError> {
    if !sink.is_clean() || volume.pack.flags.contains(CpFlags::QUOTA_NEED_FSCK) {
        return Ok(());
    }
    for (kind, (inode, charges)) in usage.files.iter().zip(&usage.charges).enumerate() {
        let Some(inode) = inode else { continue };
        let block = |b| match inode.blocks.get(&b) {
            Some(addr) if addr.is_real() => volume.reader.block(*addr),
            _ => Ok(Block::zeroed()),
        };
        match (QuotaFile { ino: inode.ino, size: inode.size, block: &block }).read(kind)? {
            Ok(stored) => compare(inode.ino, &stored, charges, sink),
            Err(e) => sink.add_for(inode.ino, Kind::Quota, e),
        }
    }
    Ok(())
}

fn compare(ino: u32, stored: &HashMap<u32, Charge>, charges: &HashMap<u32, Charge>, sink: &mut Sink) {
    let mut ids: Vec<u32> = stored.keys().chain(charges.keys()).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let of = |map: &HashMap<u32, Charge>| map.get(&id).copied().unwrap_or_default();
        let (found, expected) = (of(stored), of(charges));
        let mut rules = Rules::new(Kind::Quota, Structure::Quota, Unit::Id, id);
        rules.equal("inodes charged", found.inodes, expected.inodes);
        rules.equal("bytes charged", found.bytes, expected.bytes);
        sink.add_broken(Some(ino), rules);
    }
}
