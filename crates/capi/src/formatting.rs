//! Making volumes.
use crate::args::{path, text};
use crate::error::done;
use segno::{Device, FormatOptions};
use std::ffi::{c_char, c_int};

/// Formats a volume with the defaults of mkfs.f2fs. With `bytes`, a sparse image file of that size is created, which must not
/// exist; with 0 the file or block device must exist and be empty, unless `force` is not 0. `label` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_format(
    image: *const c_char,
    bytes: u64,
    label: *const c_char,
    force: c_int,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let image = unsafe { path(image) }?;
        // SAFETY: as above.
        let label = unsafe { text(label, "label") }?.unwrap_or_default().to_owned();
        let options = FormatOptions { label, force: force != 0, ..Default::default() };
        segno::catch_panic(|| {
            let device = if bytes == 0 { Device::open(image) } else { Device::create(image, bytes) };
            segno::format(&device?, &options)
        })?;
        Ok(())
    })
}
