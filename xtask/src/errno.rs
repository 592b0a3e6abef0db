//! Error numbers as words.

use std::io;

use rustix::io::Errno;

/// The errno of an error of the standard library.
pub fn of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// `EIO` and the like; the number for those no test has met.
pub fn name(errno: Errno) -> String {
    let known = [
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::IO, "EIO"),
        (Errno::TOOBIG, "E2BIG"),
        (Errno::ACCESS, "EACCES"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::INVAL, "EINVAL"),
        (Errno::NOTTY, "ENOTTY"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::NODATA, "ENODATA"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::STALE, "ESTALE"),
        (Errno::UCLEAN, "EUCLEAN"),
    ];
    let found = known.iter().find(|(number, _)| *number == errno);
    found.map_or_else(|| format!("E{}", errno.raw_os_error()), |(_, name)| (*name).to_owned())
}
