//! Repair of a superblock copy that is damaged, or whose guard mark differs from the other.
use crate::error::Result;
use crate::recovery::Recovery;
use segno_format::superblock::Superblock;
use segno_layout::Superblocks;

impl Recovery<'_> {
    /// Overwrites a copy that fails its checks or has a different mark with the superblock of the mount.
    pub(super) fn repair_superblock(&self) -> Result<()> {
        let copies = Superblocks::load(&*self.base.dev)?;
        let agrees = |sb: &Superblock| sb.guarded == self.base.sb.guarded;
        if copies.parsed.iter().all(|copy| copy.as_ref().is_ok_and(agrees)) {
            return Ok(());
        }
        for (copy, block) in copies.update(&self.base.sb.raw) {
            self.base.dev.write(copy, &[&block])?;
            self.base.dev.flush()?;
        }
        Ok(())
    }
}
