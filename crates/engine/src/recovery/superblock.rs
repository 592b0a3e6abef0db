//! Repair of a superblock copy that is damaged, or whose guard mark differs from the other.
use crate::error::Result;
use crate::recovery::Recovery;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};

impl Recovery<'_> {
    /// Overwrites a copy that fails its checks or has a different mark with the superblock of the mount.
    pub(super) fn repair_superblock(&self) -> Result<()> {
        for copy in SUPERBLOCK_COPIES {
            let mut block = self.base.dev.read(copy)?;
            let found = RawSuperblock::from_block(&block.0).parse(copy.0.into());
            if found.map_or(true, |sb| sb.guarded != self.base.sb.guarded) {
                self.base.sb.raw.store(&mut block.0);
                self.base.dev.write(copy, &[&block])?;
                self.base.dev.flush()?;
            }
        }
        Ok(())
    }
}
