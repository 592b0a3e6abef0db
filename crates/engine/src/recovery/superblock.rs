//! Mending a superblock copy that is damaged while the other is good, or was not marked when the other was.
use crate::error::Result;
use crate::volume::Volume;
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};

impl Volume {
    /// Writes the superblock that the mount used over a copy that fails its checks or has another mark.
    pub(super) fn mend_superblock(&self) -> Result<()> {
        for copy in SUPERBLOCK_COPIES {
            let mut block = self.dev.read(copy)?;
            let found = RawSuperblock::from_block(&block.0).parse(copy.0.into());
            if found.map_or(true, |sb| sb.guarded != self.sb.guarded) {
                self.sb.raw.store(&mut block.0);
                self.dev.write(copy, &[&block])?;
                self.dev.flush()?;
            }
        }
        Ok(())
    }
}
