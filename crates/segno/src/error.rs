//! One error type: the failed action, the path, and the reason.
use crate::inspect::InspectError;
use segno_check::CheckError;
use segno_device::{DeviceError, ReadError};
use segno_format::text;
use segno_mkfs::MkfsError;
#[cfg(feature = "repair")]
use segno_repair::RepairError;
use std::borrow::Cow;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failed action, the path, and the reason.
///
/// It converts to [`std::io::Error`] with the kind that belongs to its [`errno`](Error::errno), so functions that return
/// [`std::io::Result`] can use `?`. The message, the path and this error itself are kept inside.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// let volume = segno::Volume::open(&device)?;
/// let error = volume.read("/missing").unwrap_err();
/// assert_eq!(error.to_string(), "cannot open /missing: no such file or directory");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
/// # Ok(())
/// # }
/// ```
/// `Debug` prints the same sentence and the causes that it leaves out, so a program whose `main` returns [`Result`] ends with plain words:
/// `Error: cannot open /missing: no such file or directory`.
pub struct Error(Box<Failure>);

struct Failure {
    /// Completes "cannot …".
    action: &'static str,
    path: Option<PathBuf>,
    cause: Cause,
}

/// The source of an error, displayed as that source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) enum Cause {
    Engine(#[from] segno_engine::Error),
    Device(#[from] DeviceError),
    Format(#[from] MkfsError),
    Check(#[from] CheckError),
    Image(#[from] segno_image::Error),
    Inspect(#[from] InspectError),
    Journal(#[from] JournalError),
    #[cfg(feature = "repair")]
    Repair(#[from] RepairError),
    Io(#[from] io::Error),
    Refusal(#[from] Refusal),
    StillOpen(#[from] StillOpen),
}

/// A volume is to be closed while something of it is open.
#[derive(Debug, thiserror::Error)]
#[error("a file, directory or iterator of it is still open; it is closed when the last one is dropped")]
pub(crate) struct StillOpen;

/// A journal whose state is not known.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the journal: {0}")]
pub(crate) struct JournalError(pub(crate) segno_journal::Error);

/// A request that this crate itself refuses.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Refusal {
    errno: i32,
    why: Cow<'static, str>,
}

/// Errno values of Linux that this crate itself decides on.
pub(crate) mod errno {
    pub(crate) const NOENT: i32 = 2;
    pub(crate) const IO: i32 = 5;
    pub(crate) const BADF: i32 = 9;
    pub(crate) const ACCES: i32 = 13;
    pub(crate) const BUSY: i32 = 16;
    pub(crate) const EXIST: i32 = 17;
    pub(crate) const NOTDIR: i32 = 20;
    pub(crate) const ISDIR: i32 = 21;
    pub(crate) const INVAL: i32 = 22;
    pub(crate) const NOSPC: i32 = 28;
    pub(crate) const ROFS: i32 = 30;
    pub(crate) const LOOP: i32 = 40;
    pub(crate) const OPNOTSUPP: i32 = 95;
    pub(crate) const NOTCONN: i32 = 107;
    pub(crate) const UCLEAN: i32 = 117;
}

impl Error {
    pub(crate) fn new(action: &'static str, path: Option<&Path>, cause: impl Into<Cause>) -> Self {
        Self(Box::new(Failure { action, path: path.map(Path::to_owned), cause: cause.into() }))
    }

    /// The path that the failed call was about: on the volume, or that of the device.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The Linux errno that a system call would fail with here.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match &self.0.cause {
            Cause::Engine(e) => e.errno(),
            Cause::Device(e) => errno_of_device(e),
            Cause::Format(MkfsError::ReadOnly { .. }) => errno::ROFS,
            Cause::Format(MkfsError::Io { source, .. }) | Cause::Check(CheckError::Io { source, .. }) => {
                errno_of(source)
            }
            Cause::Format(MkfsError::Occupied { .. }) => errno::EXIST,
            Cause::Format(_) => errno::INVAL,
            Cause::Inspect(InspectError::Read(ReadError { source, .. })) => errno_of(source),
            Cause::Check(CheckError::Unsupported(_)) => errno::OPNOTSUPP,
            Cause::Journal(JournalError(segno_journal::Error::Io { source, .. })) => errno_of(source),
            Cause::Check(_) | Cause::Inspect(_) | Cause::Journal(_) => errno::UCLEAN,
            #[cfg(feature = "repair")]
            Cause::Repair(e) => errno_of_repair(e),
            Cause::Image(e) => errno_of_image(e),
            Cause::Io(e) => errno_of(e),
            Cause::Refusal(e) => e.errno,
            Cause::StillOpen(_) => errno::BUSY,
        }
    }

    /// The kind that [`std::io::Error`] has for the errno.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(self.errno()).kind()
    }

    /// Whether [`Volume::close`](crate::Volume::close) failed as a file, directory or iterator of the volume is still open. The volume is closed
    /// when the last of them is dropped.
    #[must_use]
    pub fn is_still_open(&self) -> bool {
        matches!(self.0.cause, Cause::StillOpen(_))
    }

    /// Whether a read-only open was refused as a crash left more than it may replay in memory. Open the volume writable once,
    /// or read-only with more [`MountOptions::cache_bytes`](crate::MountOptions::cache_bytes) or with
    /// [`MountOptions::skip_recovery`](crate::MountOptions::skip_recovery).
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        matches!(self.0.cause, Cause::Engine(segno_engine::Error::RecoveryMemory(_)))
    }

    /// Whether an open was refused as the last mount of the volume had an external journal, which was not given: open the volume
    /// with [`MountOptions::journal`](crate::MountOptions::journal), or, to see it without the changes that only its journal
    /// has, read-only with [`MountOptions::skip_recovery`](crate::MountOptions::skip_recovery).
    #[must_use]
    pub fn needs_journal(&self) -> bool {
        let needs = |e: &segno_engine::Error| matches!(e, segno_engine::Error::JournalNotNamed);
        match &self.0.cause {
            Cause::Engine(e)
            | Cause::Image(segno_image::Error::Source(e) | segno_image::Error::Mount { source: e, .. }) => {
                needs(e)
            }
            _ => false,
        }
    }
}

fn errno_of(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(match e.kind() {
        io::ErrorKind::NotFound => errno::NOENT,
        io::ErrorKind::PermissionDenied => errno::ACCES,
        io::ErrorKind::NotADirectory => errno::NOTDIR,
        io::ErrorKind::InvalidInput => errno::INVAL,
        io::ErrorKind::Unsupported => errno::OPNOTSUPP,
        io::ErrorKind::NotConnected => errno::NOTCONN,
        _ => errno::IO,
    })
}

#[cfg(feature = "repair")]
fn errno_of_repair(e: &RepairError) -> i32 {
    match e {
        RepairError::Check(CheckError::Io { source, .. }) => errno_of(source),
        RepairError::Refused(_) => errno::OPNOTSUPP,
        _ => errno::UCLEAN,
    }
}

fn errno_of_image(e: &segno_image::Error) -> i32 {
    match e {
        segno_image::Error::Host { source, .. } => errno_of(source),
        segno_image::Error::TooSmall { .. } => errno::NOSPC,
        segno_image::Error::Source(e)
        | segno_image::Error::SourcePath { source: e, .. }
        | segno_image::Error::Mount { source: e, .. } => e.errno(),
        segno_image::Error::Device(e) => errno_of_device(e),
        _ => errno::INVAL,
    }
}

fn errno_of_device(e: &DeviceError) -> i32 {
    match e {
        DeviceError::InUse { .. } => errno::BUSY,
        DeviceError::ReadOnly { source, .. } | DeviceError::Io { source, .. } => errno_of(source),
        DeviceError::Exists { .. } => errno::EXIST,
        DeviceError::NoDirect { .. } | DeviceError::Unsupported { .. } => errno::OPNOTSUPP,
        DeviceError::TooSmall { .. } | DeviceError::NoSuperblock { .. } => errno::UCLEAN,
        DeviceError::Member { source, .. } => errno_of_device(source),
        _ => errno::INVAL,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { action, path, cause } = &*self.0;
        match path {
            // It names both itself.
            _ if matches!(cause, Cause::Device(DeviceError::Io { .. })) => cause.fmt(f),
            Some(path) => write!(f, "cannot {action} {}: {cause}", text::name(path.as_os_str().as_bytes())),
            None => write!(f, "cannot {action}: {cause}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = self.to_string();
        for cause in std::iter::successors(self.source(), |&e| e.source()).map(ToString::to_string) {
            if !told.contains(&cause) {
                told = format!("{told}: {cause}");
            }
        }
        f.write_str(&told)
    }
}

/// The source is the reason alone, without action and path.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.source()
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> Self {
        Self::new(e.kind(), e)
    }
}

/// A refusal with the errno of the system call that would refuse it.
pub(crate) fn refuse(errno: i32, why: impl Into<Cow<'static, str>>) -> Cause {
    Cause::Refusal(Refusal { errno, why: why.into() })
}

/// Adds to a failure what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, action: &'static str) -> Result<T>;
    fn doing_at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<Cause>> Doing<T> for Result<T, E> {
    fn doing(self, action: &'static str) -> Result<T> {
        self.map_err(|e| Error::new(action, None, e))
    }

    fn doing_at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|e| Error::new(action, Some(path), e))
    }
}
