//! Mending a superblock copy that is damaged while the other is good.
use crate::error::Result;
use crate::volume::Volume;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};

impl Volume {
    /// Writes the superblock that the mount used over a copy that fails its checks.
    pub(super) fn mend_superblock(&self) -> Result<()> {
        for copy in SUPERBLOCK_COPIES {
            let mut block = self.dev.read(copy)?;
            if RawSuperblock::from_block(&block.0).parse(copy.0.into()).is_err() {
                self.sb.raw.store(&mut block.0);
                self.dev.write(copy, &[&block])?;
                self.dev.flush()?;
            }
        }
        Ok(())
    }
}
