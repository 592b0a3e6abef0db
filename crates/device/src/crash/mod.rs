//! What a power cut may leave behind: every state that a recorded log allows.
//!
//! A drive promises two things: what was written before a flush began is there when the flush has returned, and a
//! write with FUA is there when it has returned. Of everything else any subset of blocks may have arrived, each in
//! part, but never an older write over a newer one to the same block.
mod image;
mod states;
#[cfg(test)]
mod tests;

pub use image::{CrashChoice, CrashLog, Kept};
pub use states::{CrashPlan, CrashState, CrashStates};
