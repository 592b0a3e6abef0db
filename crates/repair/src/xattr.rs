//! Extended attributes: readable ones are kept.
use crate::error::Result;
use crate::state::State;
use segno_check::bad_xattr;
use segno_format::inode::{Advise, Inline, RawInode};
use segno_format::xattr::{HEADER_BYTES, XATTR_MAGIC, XATTR_NODE_BYTES, index, iter, updated};
use std::collections::BTreeSet;

/// Makes the attributes of all inodes readable.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    state.inos().into_iter().try_for_each(|ino| one(state, ino))
}

/// Makes the attributes of an inode readable.
pub(crate) fn one(state: &mut State<'_>, ino: u32) -> Result<()> {
    let area = area(state, ino)?;
    let (sound, lost) = sound(&area, ino);
    let advise = state.block(ino)?.view::<RawInode>().advise();
    let mut wanted = sound.clone();
    wanted.resize(area.len(), 0);
    if wanted != area {
        store(state, ino, &wanted)?;
        if lost {
            state.lose(ino, "extended attributes behind a damaged one are lost");
        } else {
            state.note(ino, "bytes of its extended attributes that mean nothing are cleared");
        }
    }
    for (flag, index, why) in [
        (Advise::ENCRYPT, index::ENCRYPTION, "was marked as encrypted, but has no encryption context"),
        (Advise::VERITY, index::VERITY, "was marked as protected by fs-verity, but has no descriptor"),
    ] {
        if advise.contains(flag) && !iter(&sound, ino).flatten().any(|e| e.index == index) {
            state.inode(ino, |raw| raw.i_advise &= !flag.bits())?;
            state.lose(ino, why);
        }
    }
    Ok(())
}

fn area(state: &State<'_>, ino: u32) -> Result<Vec<u8>> {
    let block = state.block(ino)?;
    let raw: &RawInode = block.view();
    let mut area = Vec::new();
    if raw.inline().contains(Inline::XATTR) {
        area.extend_from_slice(block.0.get(state.layout(raw).xattr_range()).unwrap_or_default());
    }
    if raw.i_xattr_nid.get() != 0 {
        let node = state.block(raw.i_xattr_nid.get())?;
        area.extend_from_slice(node.0.get(..XATTR_NODE_BYTES).unwrap_or_default());
    }
    Ok(area)
}

/// The area with the entries up to the first that cannot be read, and whether some are lost.
fn sound(area: &[u8], ino: u32) -> (Vec<u8>, bool) {
    if area.iter().all(|&b| b == 0) {
        return (Vec::new(), false);
    }
    let mut read = area.to_vec();
    if let Some(magic) = read.first_chunk_mut::<4>() {
        *magic = XATTR_MAGIC.to_le_bytes();
    }
    let without_magic = read != area;
    let (mut seen, mut kept, mut lost) = (BTreeSet::new(), Vec::new(), false);
    let mut end = HEADER_BYTES;
    for entry in iter(&read, ino) {
        match entry {
            Ok(e) if bad_xattr(&e).is_none() && seen.insert((e.index, e.name)) => kept.push(e),
            Ok(_) => lost = true,
            Err(_) => {
                lost = true;
                break;
            }
        }
        end += entry.map_or(0, |e| (4 + e.name.len() + e.value.len()).next_multiple_of(4));
    }
    let known = |i: u8| matches!(i, 1..=4 | 6 | 9 | 11);
    if without_magic && !kept.iter().all(|e| known(e.index)) || kept.is_empty() {
        return (Vec::new(), lost);
    }
    if !lost {
        read.truncate(end);
        return (read, false);
    }
    let mut out = Vec::new();
    for e in kept {
        out = updated(&out, e.index, e.name, Some(e.value), ino).unwrap_or(out);
    }
    (out, true)
}

fn store(state: &mut State<'_>, ino: u32, area: &[u8]) -> Result<()> {
    let block = state.block(ino)?;
    let raw: &RawInode = block.view();
    let range = state.layout(raw).xattr_range();
    let in_inode = if raw.inline().contains(Inline::XATTR) { range.len() } else { 0 };
    let nid = raw.i_xattr_nid.get();
    let (inline, rest) = area.split_at_checked(in_inode).unwrap_or_default();
    state.change(ino, |block| {
        if let Some(to) = block.0.get_mut(range).filter(|to| to.len() == inline.len()) {
            to.copy_from_slice(inline);
        }
    })?;
    if nid != 0 {
        state.change(nid, |block| {
            if let Some(to) = block.0.get_mut(..rest.len()) {
                to.copy_from_slice(rest);
            }
        })?;
    }
    Ok(())
}
