//! Quota files: usage is counted again, limits are kept.
use crate::error::{RepairError, Result};
use crate::finish::Totals;
use crate::state::State;
use segno_check::{is_sound_quota, payers};
use segno_format::inode::RawInode;
use segno_format::quota::{QUOTA_KINDS, QuotaTable};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Features};
use std::collections::BTreeMap;

/// Maximum bytes read of a quota file; Linux's are far smaller.
const MOST_BYTES: u64 = 1 << 30;

/// Usage of one id: inodes and bytes.
type Usage = BTreeMap<u32, (u64, u64)>;

/// Makes the quota files agree with the volume.
pub(crate) fn run(state: &mut State<'_>, totals: &Totals) -> Result<()> {
    if !state.vol.sb.features.contains(Features::QUOTA_INO) {
        return Ok(());
    }
    let files = state.vol.sb.quota_inos();
    let usage = usage(state, totals)?;
    for (kind, (ino, used)) in files.into_iter().zip(&usage).enumerate() {
        let Some(ino) = ino else { continue };
        if !state.inodes.contains(&ino) {
            return Err(RepairError::refused(format!("quota file {ino} is lost")));
        }
        one(state, ino, kind, used)?;
    }
    Ok(())
}

fn usage(state: &State<'_>, totals: &Totals) -> Result<[Usage; QUOTA_KINDS]> {
    let mut usage: [Usage; QUOTA_KINDS] = Default::default();
    let hidden = state.quota_inos();
    for (ino, blocks) in totals.blocks.iter().filter(|(ino, _)| !hidden.contains(ino)) {
        let block = state.block(*ino)?;
        let raw: &RawInode = block.view();
        for (used, id) in usage.iter_mut().zip(payers(raw, state.vol.sb.features)) {
            let (inodes, bytes) = used.entry(id).or_default();
            *inodes += 1;
            // The inode block itself is free of charge.
            *bytes += blocks.saturating_sub(1) * BLOCK_SIZE as u64;
        }
    }
    Ok(usage)
}

fn one(state: &mut State<'_>, ino: u32, kind: usize, used: &Usage) -> Result<()> {
    let raw: RawInode = *state.block(ino)?.view();
    if !raw.has_index() {
        return Err(RepairError::refused(format!("quota file {ino} has no blocks")));
    }
    let bytes = read(state, ino, raw.i_size.get())?;
    let len = usize::try_from(QuotaTable::len_of(&bytes)).unwrap_or(usize::MAX).min(bytes.len());
    let parsed = QuotaTable::parse(bytes.get(..len).unwrap_or_default(), kind, ino);
    let sound = parsed.is_ok() && QuotaTable::len_of(&bytes) <= raw.i_size.get();
    let old = parsed.unwrap_or_default();
    let mut table = old.clone();
    table.entries.values_mut().for_each(|e| (e.inodes, e.bytes) = (0, 0));
    for (&id, &(inodes, bytes)) in used {
        let entry = table.entries.entry(id).or_default();
        (entry.inodes, entry.bytes) = (inodes, bytes);
    }
    if sound && same(&old, &table) && is_sound_quota(&bytes, raw.i_size.get(), kind) {
        return Ok(());
    }
    if !sound {
        state.lose(ino, "the quota file is made anew; limits in it are lost");
    } else {
        state.note(ino, "usage or lists of free blocks in the quota file were wrong");
    }
    store(state, ino, &table.to_bytes(kind))
}

/// Whether all entries in use are equal.
fn same(a: &QuotaTable, b: &QuotaTable) -> bool {
    let entries =
        |t: &QuotaTable| t.entries.clone().into_iter().filter(|(_, e)| !e.is_empty()).collect::<Vec<_>>();
    entries(a) == entries(b)
}

fn read(state: &State<'_>, ino: u32, size: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for slot in state.slots(ino)?.into_iter().filter(|s| s.b < size.min(MOST_BYTES) / BLOCK_SIZE as u64 + 1) {
        let at = slot.b as usize * BLOCK_SIZE;
        bytes.resize(at, 0);
        bytes.extend_from_slice(&state.data_block(ino, slot.b, slot.addr)?.0);
    }
    Ok(bytes)
}

fn store(state: &mut State<'_>, ino: u32, bytes: &[u8]) -> Result<()> {
    let blocks = bytes.len().div_ceil(BLOCK_SIZE) as u64;
    for slot in state.slots(ino)?.into_iter().filter(|s| s.b >= blocks) {
        state.set_slot(ino, slot.nid, slot.i, BlockAddr::NULL)?;
    }
    for (b, part) in (0u64..).zip(bytes.chunks(BLOCK_SIZE)) {
        let mut block = Block::zeroed();
        if let Some(to) = block.0.get_mut(..part.len()) {
            to.copy_from_slice(part);
        }
        let Some((nid, i)) = state.place_for(ino, b)? else {
            return Err(RepairError::refused(format!("quota file {ino} cannot grow")));
        };
        if !state.slots(ino)?.iter().any(|s| s.b == b) {
            state.set_slot(ino, nid, i, BlockAddr::NEW)?;
        }
        state.data.insert((ino, b), block);
    }
    state.inode(ino, |raw| {
        raw.i_size.set(bytes.len() as u64);
        raw.i_ext.len.set(0);
    })?;
    Ok(())
}
