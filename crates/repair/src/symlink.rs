//! Targets of symbolic links.
use crate::error::Result;
use crate::state::State;
use segno_format::inode::{Advise, Inline, RawInode};
use segno_format::{BLOCK_SIZE, BlockAddr};

/// Longest target.
const MOST: u64 = BLOCK_SIZE as u64 - 1;

/// Makes the lengths of all targets right.
pub(crate) fn run(state: &mut State<'_>) -> Result<()> {
    state.inos().into_iter().try_for_each(|ino| one(state, ino))
}

/// The target ends where it is cut by its length, by a NUL byte, or by the end of its block.
fn one(state: &mut State<'_>, ino: u32) -> Result<()> {
    let block = state.block(ino)?;
    let raw: &RawInode = block.view();
    if !raw.is_symlink() {
        return Ok(());
    }
    let size = raw.i_size.get();
    let (stored, has_block) = if raw.inline().contains(Inline::DATA) {
        (block.0.get(state.layout(raw).inline_range()).unwrap_or_default().to_vec(), false)
    } else {
        let first = state.slots(ino)?.into_iter().find(|s| s.b == 0).map_or(BlockAddr::NULL, |s| s.addr);
        (state.data_block(ino, 0, first)?.0.to_vec(), first.is_real())
    };
    // A target is written with its length, so a block without one has lost it.
    let unknown = has_block && size == 0;
    let limit = if unknown { MOST } else { size.min(MOST) };
    let bytes = stored.get(..limit as usize).unwrap_or(&stored);
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()) as u64;
    let opaque = raw.advise().contains(Advise::ENCRYPT);
    let wanted = if opaque { limit } else { end };
    if wanted != size || unknown {
        state.inode(ino, |raw| raw.i_size.set(wanted))?;
        if wanted == 0 {
            for slot in state.slots(ino)? {
                state.set_slot(ino, slot.nid, slot.i, BlockAddr::NULL)?;
            }
        }
        crate::fields::inline(state, ino)?;
        state.lose(ino, format!("the length {size} of the link's target was impossible; it is now {wanted}"));
    }
    Ok(())
}
