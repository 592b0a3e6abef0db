//! Random identities.
use crate::{Result, StoreError};
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of the system.
pub(crate) fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // Up to 256 bytes arrive whole once the generator is seeded.
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes),
        other => Err(StoreError::Runtime(format!("no random numbers: {other:?}"))),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
