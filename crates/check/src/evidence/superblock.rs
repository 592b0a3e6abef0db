//! Both superblock copies.
use crate::CheckError;
use crate::evidence::Reader;
use segno_format::F2FS_MAGIC;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};

/// Both copies as stored. A device on which neither has the magic number has no volume.
pub(crate) fn load(reader: &Reader<'_>) -> Result<[RawSuperblock; 2], CheckError> {
    if reader.len() < SUPERBLOCK_COPIES.len() as u64 {
        return Err(CheckError::NotF2fs);
    }
    let [first, second] = SUPERBLOCK_COPIES;
    let read = |addr| Ok::<_, CheckError>(RawSuperblock::from_block(&reader.block(addr)?.0));
    let raw = [read(first)?, read(second)?];
    let is_f2fs = raw.iter().any(|sb| sb.magic.get() == F2FS_MAGIC);
    if is_f2fs { Ok(raw) } else { Err(CheckError::NotF2fs) }
}
