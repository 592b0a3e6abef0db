//! The rule that all devices share: an access lies entirely inside the device.
use std::io;

/// Refuses `count` blocks at `addr` unless they lie within a device of `device_blocks`.
pub fn check(device_blocks: u64, addr: u64, count: u64) -> io::Result<()> {
    if addr.checked_add(count).is_some_and(|end| end <= device_blocks) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{count} blocks at block {addr} lie beyond the end of the device ({device_blocks} blocks)"),
    ))
}

/// Refuses a write, FUA write or discard on a read-only device.
pub(crate) fn check_writable(read_only: bool) -> io::Result<()> {
    if read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_inside_passes() {
        for (addr, count) in [(0, 0), (0, 8), (7, 1), (8, 0)] {
            check(8, addr, count).unwrap();
        }
        for (addr, count) in [(8, 1), (0, 9), (9, 0), (7, 2), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(check(8, addr, count).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
