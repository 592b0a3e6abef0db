//! Checking volumes, with replay, and repairing them.
use crate::args::{path, paths, versioned};
use crate::error::{EINVAL, Failure, c_text, done, number};
use crate::storage::Storage;
use segno::{CheckOptions, CheckReport, Checker, Device, Severity};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

/// Receives a problem that a check found: whether it is an error or a warning, and its description.
pub type segno_finding =
    Option<unsafe extern "C" fn(context: *mut c_void, is_error: c_int, text: *const c_char)>;

/// Receives what a repair does: whether something is lost that the volume had, or may have had, and a description.
pub type segno_action =
    Option<unsafe extern "C" fn(context: *mut c_void, is_loss: c_int, text: *const c_char)>;

/// # Safety
/// The function of the caller, if there is one, may be called with `context`.
unsafe fn tell(function: segno_action, context: *mut c_void, grave: bool, text: &str) {
    if let Some(function) = function {
        // SAFETY: the caller's function, with the caller's context; the text lives until it returns.
        unsafe { function(context, c_int::from(grave), c_text(text).as_ptr()) };
    }
}

/// Checks a volume that is not open, and changes nothing. The result is 0 if no error was found, 1 if there
/// are errors, and negative if the check was not possible. `finding` may be null; otherwise it is called for
/// up to 1000 problems, with `context`. Changes that a crash left to replay are not checked, see
/// `segno_check_replayed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_check(
    image: *const c_char,
    finding: segno_finding,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    number(|| unsafe { check_devices(&[path(image)?], finding, context) })
}

/// Checks a volume of several devices like `segno_check`: `devices` has the paths of all of them, the one with the superblock first,
/// and ends with a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_check_several(
    devices: *const *const c_char,
    finding: segno_finding,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    number(|| unsafe { check_devices(&paths(devices)?, finding, context) })
}

/// # Safety
/// As [`tell`].
unsafe fn check_devices(
    devices: &[&Path],
    finding: segno_finding,
    context: *mut c_void,
) -> Result<c_int, Failure> {
    let report = segno::catch_panic(|| segno::check(&Device::open_several_read_only(devices)?))?;
    // SAFETY: the requirements of this function.
    unsafe { tell_problems(&report, finding, context) };
    Ok(c_int::from(!report.is_clean()))
}

/// # Safety
/// As [`tell`].
unsafe fn tell_problems(report: &CheckReport, finding: segno_finding, context: *mut c_void) {
    for problem in &report.problems {
        // SAFETY: the requirements of this function.
        unsafe { tell(finding, context, problem.severity == Severity::Error, &problem.to_string()) };
    }
}

/// Of `segno_check_options.flags`: read only the tables of a volume that was unmounted cleanly, if nothing is wrong with them.
pub const SEGNO_CHECK_QUICK: u32 = 1;
/// Of `segno_check_options.flags`: read the content of compressed files, too.
pub const SEGNO_CHECK_DATA: u32 = 2;
/// Of `segno_check_options.flags`: `segno_repair` writes nothing, so that its actions are a plan.
pub const SEGNO_REPAIR_PLAN: u32 = 4;
const KNOWN: u32 = SEGNO_CHECK_QUICK | SEGNO_CHECK_DATA | SEGNO_REPAIR_PLAN;

/// In the result of `segno_check_replayed`: there are errors.
pub const SEGNO_FOUND_ERRORS: c_int = 1;
/// In the result of `segno_check_replayed`: changes left by a crash were replayed in memory. `segno_replay`
/// writes them.
pub const SEGNO_FOUND_REPLAY: c_int = 2;
/// In the result of `segno_check_replayed`: `segno_repair` has something to do.
pub const SEGNO_FOUND_REPAIRABLE: c_int = 4;

/// How to check, repair or replay. Zeros and null pointers are the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_check_options {
    /// `sizeof(segno_check_options)`: later versions may add fields.
    pub size: u32,
    /// `SEGNO_CHECK_QUICK` and others.
    pub flags: u32,
    /// File or device of the external journal; null for none.
    pub journal: *const c_char,
    /// Further devices of the volume, as in `segno_open_options`.
    pub devices: *const *const c_char,
}

/// The storage to check, and the flags.
struct Subject<'a> {
    storage: Storage<'a>,
    flags: u32,
}

impl Subject<'_> {
    /// # Safety
    /// The pointers are null, or as segno.h requires.
    unsafe fn new(image: *const c_char, options: *const segno_check_options) -> Result<Self, Failure> {
        // SAFETY: the requirements of this function.
        let given = unsafe { versioned(options, "segno_check_options", &[]) }?;
        let none = segno_check_options { size: 0, flags: 0, journal: ptr::null(), devices: ptr::null() };
        let segno_check_options { flags, journal, devices, .. } = given.unwrap_or(none);
        match flags & !KNOWN {
            // SAFETY: as above.
            0 => Ok(Self { storage: unsafe { Storage::named(image, journal, devices) }?, flags }),
            unknown => {
                Err(Failure::new(EINVAL, format!("unknown flags {unknown:#x} in segno_check_options")))
            }
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn checker(&self, writable: bool) -> segno::Result<Checker> {
        let checker = Checker::new(&self.storage.open(writable)?);
        let journal = self.storage.open_journal(writable)?;
        Ok(if let Some(journal) = journal { checker.journal(&journal) } else { checker })
    }

    fn options(&self) -> CheckOptions {
        CheckOptions { data: self.has(SEGNO_CHECK_DATA), ..Default::default() }
    }
}

/// Checks a volume that is not open like `segno_check`, with the changes left by a crash replayed in memory,
/// and changes nothing. The result is 0 if there is nothing to do, a combination of `SEGNO_FOUND_ERRORS` and
/// others, and negative if the check was not possible. It is an error, too, if the changes left by a crash
/// cannot be replayed, or an external journal is needed. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_check_replayed(
    image: *const c_char,
    options: *const segno_check_options,
    finding: segno_finding,
    context: *mut c_void,
) -> c_int {
    number(|| {
        // SAFETY: the caller's promise of segno.h.
        let subject = unsafe { Subject::new(image, options) }?;
        let judged = segno::catch_panic(|| {
            let checker = subject.checker(false)?.quick(subject.has(SEGNO_CHECK_QUICK));
            checker.check(&subject.options(), |_| ())
        })?;
        // SAFETY: as above.
        unsafe { tell_problems(&judged.report, finding, context) };
        for why in [judged.replay_error(), judged.lost_checkpoint(), judged.lost_changes()].iter().flatten() {
            // SAFETY: as above.
            unsafe { tell(finding, context, true, why) };
        }
        let found = [
            (!judged.is_clean(), SEGNO_FOUND_ERRORS),
            (judged.replayed, SEGNO_FOUND_REPLAY),
            (judged.is_repairable() && judged.keeps_journal().is_none(), SEGNO_FOUND_REPAIRABLE),
        ];
        Ok(found.into_iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum())
    })
}

/// Repairs a volume that is not open. The result is 0 if there is nothing to repair, 1 if it was repaired,
/// and negative if that was not possible: `-EUCLEAN` where the repair would give up an external journal or a
/// lost checkpoint. `action` may be null; otherwise it is called, with `context`, for each action, before the
/// action is written. A power cut meanwhile leaves the volume as it was, or repaired. A repair also replays
/// the changes left by a crash; if there is nothing else to do, it writes nothing: see `segno_replay`.
/// `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_repair(
    image: *const c_char,
    options: *const segno_check_options,
    action: segno_action,
    context: *mut c_void,
) -> c_int {
    number(|| {
        // SAFETY: the caller's promise of segno.h.
        let subject = unsafe { Subject::new(image, options) }?;
        let write = !subject.has(SEGNO_REPAIR_PLAN);
        let planned = segno::catch_panic(|| {
            let checker = subject.checker(write)?;
            let plan = checker.check_and_plan(&subject.options())?;
            Ok((checker, plan))
        })?;
        let (checker, Some(plan)) = planned else { return Ok(0) };
        for step in &plan.actions {
            // SAFETY: as above.
            unsafe { tell(action, context, step.loss, &step.to_string()) };
        }
        if write {
            segno::catch_panic(|| checker.repair(&plan))?;
        }
        Ok(1)
    })
}

/// Replays the changes that a crash left on a volume that is not open, as the next `segno_open` with
/// `SEGNO_WRITABLE` would. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_replay(image: *const c_char, options: *const segno_check_options) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let subject = unsafe { Subject::new(image, options) }?;
        Ok(segno::catch_panic(|| subject.checker(true)?.replay())?)
    })
}
