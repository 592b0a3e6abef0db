//! Every mount option of the kernel's F2FS, alone and in usual combinations: what becomes of it.
use super::kernel_table::Fate::{Ignored, Refused, Works};
use super::kernel_table::{ANDROID, KERNEL, USUAL};
use super::{Settings, foreign};

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
    let noted = foreign::IGNORED.iter().filter(|i| i.noted).flat_map(|i| i.words);
    let refused = foreign::REFUSED.iter().flat_map(|r| r.words);
    for word in noted.chain(refused) {
        let start = word.trim_end_matches('*');
        assert!(of_kernel.iter().any(|k| k.starts_with(start)), "{word}");
    }
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
            "mount option {word} is not supported: no space can be kept for one user; leave it out, cleaning has a reserve of its own"
        )
    );
}

#[test]
fn contradictions_are_refused_as_in_the_kernel() {
    assert!(parse("mode=lfs,atgc").unwrap_err().to_string().contains("leave one out"));
}

#[test]
fn owners_and_masks() {
    let o = parse("uid=1000,gid=100,umask=022,fmask=133").unwrap().ownership;
    assert_eq!((o.uid, o.gid, o.fmask, o.dmask), (Some(1000), Some(100), Some(0o133), Some(0o022)));
    for (word, said) in [
        ("uid=me", "mount option uid=me: a number is needed, as `id -u` prints it"),
        ("umask=8", "mount option umask=8: an octal number up to 777 is needed"),
        ("dmask=1777", "mount option dmask=1777: an octal number up to 777 is needed"),
    ] {
        assert_eq!(parse(word).unwrap_err().to_string(), said);
    }
}
