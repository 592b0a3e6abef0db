//! Tests how every mount option of the kernel's F2FS is handled, alone and in usual combinations.
use super::kernel_table::Handling::{Ignored, Refused, Works};
use super::kernel_table::{ANDROID, KERNEL, USUAL};
use super::{Settings, foreign};
use segno_engine::options::{Discard, FsyncMode};
use std::collections::BTreeSet;

fn parse(words: &str) -> anyhow::Result<Settings> {
    Settings::parse(&[words.to_owned()], true)
}

#[test]
fn each_alone() {
    for (fate, words) in KERNEL {
        for word in words.split(' ') {
            let found = match (foreign::ignored(word), parse(word)) {
                (Some(_), Ok(_)) => Ignored,
                (None, Ok(_)) => Works,
                (_, Err(e)) => {
                    let said = e.to_string();
                    let advice = foreign::advice(word).unwrap_or_else(|| panic!("{said}"));
                    assert_eq!(said, format!("mount option {word} is not supported: {advice}"));
                    Refused
                }
            };
            assert_eq!(found, *fate, "{word}");
        }
    }
}

/// Tables whose words the kernel does not know would be guesses.
#[test]
fn every_row_is_an_option_of_the_kernel() {
    let of_kernel: Vec<&str> = KERNEL.iter().flat_map(|(_, words)| words.split(' ')).collect();
    let noted = foreign::IGNORED.iter().filter(|i| i.noted).map(|i| i.words);
    let refused = foreign::REFUSED.iter().map(|r| r.words);
    for word in noted.chain(refused).flat_map(|words| words.split(' ')) {
        let start = word.trim_end_matches('*');
        assert!(of_kernel.iter().any(|k| k.starts_with(start)), "{word}");
    }
}

/// Whether the settings have the effect of an option.
type InForce = fn(&Settings) -> bool;

/// Options that Linux's F2FS reads where it decides whether a flush, a checkpoint or a write happens before a call returns
/// (`need_do_checkpoint`, `f2fs_do_sync_file`, `IS_DIRSYNC`, `f2fs_balance_fs_bg`).
const DURABLE: [(&str, InForce); 10] = [
    ("fastboot", |s| s.engine.fastboot),
    ("active_logs=2", |s| s.engine.fastboot),
    ("sync", |s| s.engine.dirsync && s.fuse.extra.contains(&"sync".to_owned())),
    ("dirsync", |s| s.engine.dirsync),
    ("fsync_mode=strict", |s| s.engine.fsync_mode == FsyncMode::Strict),
    ("fsync_mode=posix", |s| s.engine.fsync_mode == FsyncMode::Posix),
    ("nobarrier", |s| s.engine.fsync_mode == FsyncMode::Nobarrier),
    ("nobarrier,barrier", |s| s.engine.fsync_mode == FsyncMode::Strict),
    ("sync,async,dirsync,nodirsync", |s| !s.engine.dirsync),
    ("nodiscard", |s| s.engine.discard == Discard::Never),
];

#[test]
fn an_option_that_decides_what_is_durable_has_its_effect() {
    for (words, is_in_force) in DURABLE {
        assert!(is_in_force(&parse(words).unwrap()), "{words}");
        assert!(words.split(',').all(|word| foreign::ignored(word).is_none()), "{words}");
    }
}

/// The reason is part of each row. It differs from row to row, as one for all would be none.
#[test]
fn every_word_without_effect_has_a_reason_why_a_crash_loses_no_more() {
    let reasons: BTreeSet<&str> = foreign::IGNORED.iter().map(|row| row.durability).collect();
    assert_eq!(reasons.len(), foreign::IGNORED.len());
    assert!(reasons.iter().all(|why| why.split(' ').count() >= 3), "{reasons:?}");
    let words: Vec<&str> = foreign::IGNORED.iter().flat_map(|row| row.words.split(' ')).collect();
    assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
}

/// Of the two, Linux takes only the second one on a writable mount.
#[test]
fn norecovery_needs_ro_and_disable_roll_forward_does_not() {
    assert!(parse("norecovery").unwrap_err().to_string().contains("add ro"));
    for words in ["ro,norecovery", "ro,disable_roll_forward", "disable_roll_forward"] {
        assert!(parse(words).unwrap().engine.norecovery, "{words}");
    }
}

#[test]
fn usual_lines() {
    for &(line, noted) in USUAL {
        let found: Vec<String> = parse(line).unwrap().ignored.into_iter().map(|i| i.word).collect();
        assert_eq!(found.len(), noted, "{line}: {found:?}");
    }
    let (android, word) = ANDROID;
    let said = parse(android).unwrap_err().to_string();
    assert_eq!(
        said,
        format!(
            "mount option {word} is not supported: no space can be kept for one user; leave it out, cleaning has its own reserve"
        )
    );
}

#[test]
fn contradictions_are_refused_as_in_the_kernel() {
    assert!(parse("mode=lfs,atgc").unwrap_err().to_string().contains("leave one out"));
}

#[test]
fn owners_and_masks() {
    let o = parse("uid=1000,gid=100,umask=022,fmask=133").unwrap().fuse.ownership;
    assert_eq!((o.uid, o.gid, o.fmask, o.dmask), (Some(1000), Some(100), Some(0o133), Some(0o022)));
    for (word, said) in [
        ("uid=me", "mount option uid=me: a number is needed, as `id -u` prints it"),
        ("umask=8", "mount option umask=8: an octal number up to 777 is needed"),
        ("dmask=1777", "mount option dmask=1777: an octal number up to 777 is needed"),
    ] {
        assert_eq!(parse(word).unwrap_err().to_string(), said);
    }
}
