//! The allocator of a serving process.

/// Arenas that glibc divides threads among, unless the environment asks for another number. Each keeps what was ever in
/// use in it: two held 430 MB with 280 MB in use.
const ARENAS: libc::c_int = 1;

/// Lets every thread use the memory that others free. By default glibc has eight arenas for each CPU, and memory freed
/// in one is not used by threads of another. Called before threads start.
pub fn share() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: sets a number; any is valid.
        let _as_it_was = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    }
}
