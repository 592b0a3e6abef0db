//! Device states after a power cut: every state that a recorded log allows.
//!
//! A drive guarantees two things: writes that returned before a flush started are durable when the flush returns, and a FUA
//! write is durable when it returns. Of all other writes any subset of blocks may survive, each possibly torn, but an older
//! write never replaces a newer one to the same block. Each [`crate::Window`] is a separate drive: a flush of one
//! leaves the writes of the others in flight.
mod image;
mod regions;
mod states;
#[cfg(test)]
mod tests;

pub use image::{CrashChoice, CrashLog, Kept};
pub use states::{CrashPlan, CrashState, CrashStates};
