//! A plan as its writes, and carrying it out.
use crate::action::Action;
use crate::error::{RepairError, Result};
use segno_device::{BlockDevice, Overlay};
use segno_format::Block;
use std::io;
use std::sync::Arc;

/// A repair that was computed and not written yet.
///
/// A power cut while it is written leaves the volume as it was before or as it is after the repair.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The changes, described.
    pub actions: Vec<Action>,
    /// Writes; a flush follows each step.
    pub(crate) steps: Vec<Vec<(u64, Block)>>,
}

impl Plan {
    /// Whether something is lost.
    #[must_use]
    pub fn has_loss(&self) -> bool {
        self.actions.iter().any(|a| a.loss)
    }

    /// Addresses of all blocks that are written, in the order of the writes.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.steps.iter().flatten().map(|(addr, _)| *addr)
    }

    pub(crate) fn push_first(&mut self, step: Vec<(u64, Block)>) {
        self.steps.insert(0, step);
    }

    /// The volume after the repair, in memory.
    pub(crate) fn on_overlay(&self, device: &Arc<dyn BlockDevice>) -> Result<Overlay> {
        let overlay = Overlay::new(device.clone());
        let written = self.apply(&overlay);
        written.map_err(|_| {
            RepairError::Invariant(
                "every write of a plan is inside the device, and at the pointer of its zone",
            )
        })?;
        Ok(overlay)
    }

    /// Writes the repair.
    pub fn apply(&self, device: &dyn BlockDevice) -> io::Result<()> {
        for step in &self.steps {
            for (addr, block) in step {
                device.write(*addr, &[block])?;
            }
            device.flush()?;
        }
        Ok(())
    }
}
