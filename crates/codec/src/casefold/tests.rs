use super::*;
use proptest::prelude::*;

fn folded(name: impl AsRef<[u8]>) -> Result<Vec<u8>, CasefoldError> {
    let mut out = b"left over".to_vec();
    casefold(name.as_ref(), &mut out).map(|()| out)
}

/// Names and hash inputs read from a volume the Linux kernel populated.
#[test]
fn equals_the_kernels_form() {
    let vectors: &[(&str, &str)] = &[
        ("FileName", "filename"),
        ("ABC", "abc"),
        ("stra\u{df}e", "strasse"),
        ("\u{c9}t\u{e9}", "e\u{301}te\u{301}"),
        ("e\u{301}clair", "e\u{301}clair"),
        ("\u{130}stanbul", "i\u{307}stanbul"),
        ("Σίσυφος", "σι\u{301}συφοσ"),
        ("MiXeDMiXeD", "mixedmixed"),
    ];
    for (name, form) in vectors {
        assert_eq!(folded(name).unwrap(), form.as_bytes(), "{name}");
    }
}

/// Each of these was given to the kernel's folding.
#[test]
fn follows_the_kernel_off_the_beaten_track() {
    let vectors: &[(&[u8], &[u8])] = &[
        // Hangul, with and without a trailing consonant.
        ("한가".as_bytes(), "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1161}".as_bytes()),
        // Marks are ordered: cedilla (202) before dot below (220) before acute (230).
        ("a\u{301}\u{323}\u{327}b".as_bytes(), "a\u{327}\u{323}\u{301}b".as_bytes()),
        // U+0345 folds to a letter before marks are ordered.
        ("\u{3b1}\u{345}\u{301}".as_bytes(), "\u{3b1}\u{3b9}\u{301}".as_bytes()),
        // An ignorable character vanishes, but marks do not move across it.
        ("a\u{301}\u{34f}\u{323}".as_bytes(), "a\u{301}\u{323}".as_bytes()),
        ("so\u{ad}ft".as_bytes(), b"soft"),
        // Unassigned in 12.1, a letter since 14.0, a noncharacter, private use.
        ("\u{378}\u{2c2f}\u{ffff}\u{e000}".as_bytes(), "\u{378}\u{2c2f}\u{ffff}\u{e000}".as_bytes()),
        // Stray continuation bytes, alone and among marks.
        (b"N\xB05", b"n\xB05"),
        (b"E\xCC\x81\x80", b"e\x80\xCC\x81\x80"),
        (b"e\xCC\x81\x80\xCC\xA3\x90b", b"e\x80\x90\x80\xCC\xA3\x90\xCC\x81\x80\x90b"),
    ];
    for (name, form) in vectors {
        assert_eq!(folded(name).unwrap().escape_ascii().to_string(), form.escape_ascii().to_string());
    }
}

#[test]
fn unfoldable_names_are_told_apart() {
    // A continuation byte first, a lone lead byte, overlong, surrogate, beyond U+10FFFF, cut off, NUL.
    let not_utf8: [&[u8]; 7] =
        [b"\x80a", b"a\xE9b", b"a\xC0\x80", b"a\xED\xA0\x80", b"a\xF4\x90\x80\x80", b"a\xE2\x82", b"a\0b"];
    for name in not_utf8 {
        assert_eq!(folded(name), Err(CasefoldError::NotUtf8), "{}", name.escape_ascii());
    }
    assert_eq!(folded("A".repeat(254)).unwrap(), "a".repeat(254).as_bytes());
    assert_eq!(folded("A".repeat(255)), Err(CasefoldError::TooLong));
    // U+0390 is two bytes and folds to six.
    assert_eq!(folded("\u{390}".repeat(42)).unwrap().len(), 252);
    assert_eq!(folded("\u{390}".repeat(43)), Err(CasefoldError::TooLong));
    assert_eq!(folded("\u{ad}\u{200b}"), Err(CasefoldError::Empty));
    assert_eq!(folded(""), Err(CasefoldError::Empty));
}

/// Names stored in a casefolded directory by the Linux kernel.
#[test]
fn equals_the_kernels_hashes_of_folded_names() {
    let mixed = "MiXeD".repeat(10);
    let vectors = [
        ("FileName", 0x6EF9_C731),
        ("ABC", 0xB143_5EC5),
        ("stra\u{df}e", 0xD6E5_379A),
        ("\u{c9}t\u{e9}", 0xDE4C_3E71),
        ("e\u{301}clair", 0xA9BB_D91C),
        ("\u{130}stanbul", 0x6BE3_0F57),
        ("Σίσυφος", 0x17DE_5360),
        (&mixed, 0x4F69_54FE),
        ("..", 0),
    ];
    for (name, hash) in vectors {
        assert_eq!(casefolded_name_hash(name.as_bytes()), hash, "{name}");
    }
}

#[test]
fn unfoldable_names_are_hashed_as_they_are() {
    for name in [&b"\xFF\xFE\xFD"[..], &[b'A'; 255], "\u{ad}".as_bytes()] {
        assert_eq!(casefolded_name_hash(name), segno_format::name_hash(name), "{}", name.escape_ascii());
    }
    assert_eq!(casefolded_name_hash(".\u{ad}".as_bytes()), segno_format::folded_name_hash(b"any", b"."));
}

/// The forms and combining classes of Unicode 12.1: a checksum for each range of 256 characters in which at
/// least one has a form or class. The checksums were made when all characters matched the kernel's.
#[test]
fn every_character_is_as_in_12_1() {
    let mut found = String::new();
    for start in (0..=u32::from(char::MAX)).step_by(256) {
        let characters = (start.max(1)..start + 256).filter_map(char::from_u32);
        let changed = characters.map(|c| (c, folded(c.to_string()).unwrap_or_default(), class(c)));
        let changed = changed.filter(|(c, form, class)| *form != c.to_string().as_bytes() || *class != 0);
        let bytes: Vec<u8> = changed
            .flat_map(|(c, form, class)| [c.to_string().as_bytes(), &form, &[class]].concat())
            .collect();
        if !bytes.is_empty() {
            found += &format!("{start:x} {:08x}\n", !segno_format::crc(u32::MAX, &bytes));
        }
    }
    assert_eq!(found, include_str!("unicode-12.1.txt"));
}

/// The combining class that the order of marks follows.
fn class(c: char) -> u8 {
    if is_in(NEWER, c) || is_in(IGNORABLE, c) { 0 } else { canonical_combining_class(c) }
}

#[test]
fn tables_are_sorted() {
    for ranges in [IGNORABLE, NEWER] {
        assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}

proptest! {
    /// Not true of names with ignorable characters: once those are gone, marks they kept apart may change places.
    #[test]
    fn folding_twice_changes_nothing(name in "\\PC{0,30}") {
        let name: String = name.chars().filter(|&c| !is_in(IGNORABLE, c)).collect();
        if let Ok(once) = folded(&name) {
            prop_assert_eq!(folded(&once), Ok(once));
        }
    }

    #[test]
    fn ascii_case_does_not_matter(name in "[ -~]{1,60}") {
        let form = folded(&name);
        prop_assert_eq!(&form, &folded(name.to_ascii_uppercase()));
        prop_assert_eq!(form.unwrap(), name.to_ascii_lowercase().into_bytes());
    }

    #[test]
    fn any_bytes_fold_within_the_limit(name in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(form) = folded(&name) {
            prop_assert!((1..=254).contains(&form.len()));
        }
    }
}
