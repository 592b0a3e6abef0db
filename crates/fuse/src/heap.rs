//! Allocator settings of a server process.

/// Number of glibc arenas, unless the environment sets another. An arena keeps memory up to its peak use: two held 430 MB
/// with 280 MB in use.
const ARENAS: libc::c_int = 1;

/// Lets all threads share one arena. By default glibc has eight arenas per CPU, and threads of one do not reuse memory
/// freed in another. Called before threads start.
pub fn share() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: sets a parameter; any number is valid.
        let _unchanged = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    }
}

/// Gives memory that is free back to the system.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes a number only, and locks the arenas itself.
        let _nothing_to_give = unsafe { libc::malloc_trim(0) };
    }
}
