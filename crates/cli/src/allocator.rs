//! The allocator of `segno` and `segno-lab`.

/// Threads free memory that others allocated. With glibc they wait for the lock of one arena, and two arenas keep twice the
/// memory. Machines other than x86-64 may have another page size than the one of the build.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// One arena, and free pages go back to the system after a second, so that the resident set stays near `cache=`. Blocks are
/// allocated from 16 pages at a time.
// SAFETY: the allocator reads a pointer to text that ends with a zero byte, and declares this name for it.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 88] =
    b"narenas:1,lg_tcache_max:13,slab_sizes:4096-4096:16,dirty_decay_ms:1000,muzzy_decay_ms:0\0";
