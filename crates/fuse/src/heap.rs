//! The allocator of a serving process.

/// Heaps that glibc divides threads among, unless the environment asks for another number.
const ARENAS: libc::c_int = 2;

/// Keeps blocks that one thread frees usable for all others. By default glibc has eight heaps for each CPU, and what is
/// freed in one is not used by threads of another, so that together they grow to several times what is in use.
/// Called before threads start.
pub fn share() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: sets a number; any is valid.
        let _as_it_was = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    }
}
