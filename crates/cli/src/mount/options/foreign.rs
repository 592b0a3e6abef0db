//! Words of fstab and of the kernel's F2FS that are no options here: each stands for an option, has no
//! effect, or is refused with the option to use instead. Up to Linux 7.3.

/// Words with the options that they stand for.
pub const ALIASES: [(&str, &str); 7] = [
    ("nobarrier", "fsync_mode=nobarrier"),
    // After nobarrier it restores the flushes.
    ("barrier", "fsync_mode=strict"),
    // With two logs every fsync of Linux is a checkpoint.
    ("active_logs=2", "fastboot"),
    ("background_gc=sync", "background_gc=on"),
    ("atgc", "gc_policy=atgc"),
    ("checkpoint=enable", "checkpoint=auto"),
    ("memory=low", "cache=64M"),
];

/// Words that are accepted without effect, with spaces between them. A word that ends with `=*` takes any value.
pub struct Ignored {
    pub reason: &'static str,
    /// Why a crash loses no more than with the word in Linux. A word for which there is no reason is an option, or refused.
    pub durability: &'static str,
    /// Whether `segno mount -v` names them: words that are in every fstab are not worth a line.
    pub noted: bool,
    pub words: &'static str,
}

const fn silent(reason: &'static str, durability: &'static str, words: &'static str) -> Ignored {
    Ignored { reason, durability, noted: false, words }
}

const fn noted(reason: &'static str, durability: &'static str, words: &'static str) -> Ignored {
    Ignored { reason, durability, noted: true, words }
}

pub const IGNORED: &[Ignored] = &[
    silent(
        "used by fstab and mount(8)",
        "they concern who mounts, and when",
        "rw defaults auto noauto user nouser users owner group nofail _netdev silent loud",
    ),
    silent(
        "locks and a counter of changes that only the kernel has",
        "neither is stored",
        "mand nomand iversion noiversion",
    ),
    silent(
        "access times are not kept: every mount is noatime",
        "fsync makes no access time durable in Linux either",
        "atime noatime relatime norelatime strictatime nostrictatime diratime nodiratime",
    ),
    silent(
        "changed times are stored like other attributes",
        "lazytime permits to store them later",
        "lazytime nolazytime",
    ),
    noted(
        "the number of logs and the place of new blocks are chosen by the engine",
        "no block that the last checkpoint needs is overwritten, wherever new ones are placed",
        "heap no_heap active_logs=4 active_logs=6 alloc_mode=default alloc_mode=reuse whint_mode=* resizable_tail_secno=*",
    ),
    noted(
        "caches of the kernel's F2FS without a counterpart",
        "recovery does not read them",
        "extent_cache noextent_cache age_extent_cache nat_bits memory=normal",
    ),
    noted(
        "threads that issue flushes, checkpoints, requests or cleaning for several callers",
        "each caller waits for its own in either case",
        "flush_merge noflush_merge checkpoint_merge nocheckpoint_merge gc_merge nogc_merge io_bits=*",
    ),
    noted(
        "whole segments are discarded, on zoned devices whole zones",
        "a segment is discarded after the checkpoint that frees it is durable",
        "discard_unit=block discard_unit=segment discard_unit=section",
    ),
    noted(
        "data is written before each checkpoint anyway",
        "background checkpoints have it, as with the option; with a journal it follows within commit= seconds",
        "data_flush",
    ),
    noted(
        "encrypted files cannot be opened, and the option changes nothing on the device",
        "no encrypted file is written",
        "inlinecrypt",
    ),
    noted(
        "compressed blocks are cached by the host, the content of files by the kernel",
        "the cache has clean blocks only",
        "compress_cache",
    ),
    noted(
        "a lookup in a directory that ignores case always searches all of it before it fails, as with compat",
        "it concerns reading",
        "lookup_mode=auto lookup_mode=compat lookup_mode=perf",
    ),
    noted(
        "after an error in metadata the volume accepts no more changes",
        "none that was acknowledged before the error is dropped; with continue Linux would go on",
        "errors=remount-ro errors=continue",
    ),
    noted(
        "usage is counted where the volume has the feature quota, and limits are not enforced",
        "usage is part of each checkpoint, with the option and without",
        "noquota usrjquota= grpjquota= prjjquota=",
    ),
];

/// Beginnings of words that are accepted without effect.
pub const IGNORED_PREFIXES: [&str; 3] = ["x-", "X-", "comment="];

/// Words that are refused, with spaces between them: Segno does not have their effect. A word that ends with
/// `*` stands for all words with that prefix.
pub struct Refused {
    pub words: &'static str,
    pub advice: &'static str,
}

const fn refused(words: &'static str, advice: &'static str) -> Refused {
    Refused { words, advice }
}

pub const REFUSED: &[Refused] = &[
    refused("remount", "`mount -o remount,ro DIR` changes flags of a mount, others need a new mount"),
    refused(
        "checkpoint=disable checkpoint=disable:*",
        "changes cannot be held back and dropped; mount with ro, or work on a copy of the image",
    ),
    refused(
        "mode=fragment:segment mode=fragment:block",
        "it only makes volumes slow for tests; leave it out",
    ),
    refused("fault_injection=* fault_type=*", "faults are tried in memory: `segno crashtest`"),
    refused(
        "test_dummy_encryption test_dummy_encryption=*",
        "there are no keys here, so files cannot be encrypted; leave it out",
    ),
    refused(
        "quota usrquota grpquota prjquota",
        "limits are not enforced; leave it out, usage is counted where the volume has the feature quota",
    ),
    refused(
        "usrjquota=* grpjquota=* prjjquota=* jqfmt=*",
        "quota files in directories are not kept up to date; leave it out, usage is counted where the volume has the feature quota",
    ),
    refused(
        "reserve_root=* reserve_node=* resuid=* resgid=*",
        "no space can be kept for one user; leave it out, cleaning has its own reserve",
    ),
    refused("errors=panic", "a server cannot stop the machine; use errors=remount-ro"),
    refused(
        "inline_xattr_size=*",
        "inodes keep 200 bytes for attributes; leave it out, or use noinline_xattr",
    ),
];

/// The row of words without effect that has this word. `None` also for comments of fstab.
pub fn ignored(word: &str) -> Option<&'static Ignored> {
    IGNORED.iter().find(|i| has(i.words, word))
}

pub fn is_comment(word: &str) -> bool {
    IGNORED_PREFIXES.iter().any(|p| word.starts_with(p))
}

/// The advice for a word that is refused.
pub fn advice(word: &str) -> Option<&'static str> {
    REFUSED.iter().find(|r| has(r.words, word)).map(|r| r.advice)
}

/// The option that a word stands for.
pub fn resolve(word: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |(_, option)| option)
}

/// Whether a row contains a word.
fn has(words: &str, word: &str) -> bool {
    let is_it = |known: &str| known.strip_suffix('*').map_or(known == word, |start| word.starts_with(start));
    words.split(' ').any(is_it)
}
