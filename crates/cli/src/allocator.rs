//! The allocator of `segno` and `segno-lab`.

/// What one thread allocates, another frees: with the allocator of glibc they wait for one lock, as more than one arena of
/// it keeps twice the memory. On other machines the page size may not be the one of the build.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// One arena, and free pages go back to the system after a second, so that the resident set stays near `cache=`. Blocks are
/// allocated from 16 pages at a time.
// SAFETY: the allocator reads a pointer to text that ends with a zero byte, and declares this name for it.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 88] =
    b"narenas:1,lg_tcache_max:13,slab_sizes:4096-4096:16,dirty_decay_ms:1000,muzzy_decay_ms:0\0";
