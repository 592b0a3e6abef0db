//! Making and checking volumes.
use crate::args::{path, paths, string};
use crate::error::{EINVAL, Failure, call, done};
use segno::{Device, FormatOptions, Severity};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

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
        let mut options = FormatOptions::new().force(force != 0);
        if !label.is_null() {
            // SAFETY: as above.
            let label = unsafe { string(label, "label") }?.to_str();
            options = options.label(label.ok_or_else(|| Failure::new(EINVAL, "the label is not UTF-8"))?);
        }
        segno::catch_panic(|| {
            let device = if bytes == 0 { Device::open(image) } else { Device::create(image, bytes) };
            segno::format(&device?, &options)
        })?;
        Ok(())
    })
}

/// Receives a problem that `segno_check` found: whether it is an error or a warning, and its description.
pub type segno_finding =
    Option<unsafe extern "C" fn(context: *mut c_void, is_error: c_int, text: *const c_char)>;

/// Checks a volume that is not open, and changes nothing. The result is 0 if no error was found, 1 if there are errors, and
/// negative if the check was not possible. `finding` may be null; otherwise it is called for up to 1000 problems, with
/// `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_check(
    image: *const c_char,
    finding: segno_finding,
    context: *mut c_void,
) -> c_int {
    let check = || {
        // SAFETY: the caller's promise of segno.h.
        let image = unsafe { path(image) }?;
        // SAFETY: as above.
        unsafe { check_devices(&[image], finding, context) }
    };
    // 0, 1 or a negative errno value.
    call(check) as c_int
}

/// Checks a volume of several devices like `segno_check`: `devices` has the paths of all of them, the one with the superblock first,
/// and ends with a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_check_several(
    devices: *const *const c_char,
    finding: segno_finding,
    context: *mut c_void,
) -> c_int {
    let check = || {
        // SAFETY: the caller's promise of segno.h.
        let devices = unsafe { paths(devices) }?;
        // SAFETY: as above.
        unsafe { check_devices(&devices, finding, context) }
    };
    // 0, 1 or a negative errno value.
    call(check) as c_int
}

/// # Safety
/// `finding` may be called with `context` until this returns.
unsafe fn check_devices(
    devices: &[&Path],
    finding: segno_finding,
    context: *mut c_void,
) -> Result<i64, Failure> {
    let report = segno::catch_panic(|| segno::check(&Device::open_several_read_only(devices)?))?;
    for problem in &report.problems {
        let text = CString::new(problem.to_string().replace('\0', "\u{fffd}")).unwrap_or_default();
        if let Some(finding) = finding {
            let is_error = c_int::from(problem.severity == Severity::Error);
            // SAFETY: the caller's function, with the caller's context; the text lives until it returns.
            unsafe { finding(context, is_error, text.as_ptr()) };
        }
    }
    Ok(i64::from(!report.is_clean()))
}
