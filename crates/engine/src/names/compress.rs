//! Which new files are compressed.
use super::extension;
use crate::options::Compression;
use segno_format::inode::InodeFlags;
use segno_format::superblock::RawSuperblock;

const BOTH: InodeFlags = InodeFlags::COMPR.union(InodeFlags::NOCOMP);

/// The compression flags of a new file, as in F2FS: by its extension first, then like its directory.
pub(super) fn flags_of_file(
    options: &Compression,
    sb: &RawSuperblock,
    name: &[u8],
    dir: InodeFlags,
) -> InodeFlags {
    if extension::is_hot(sb, name) || has_extension(name, &options.excluded) {
        return InodeFlags::empty();
    }
    if has_extension(name, &options.extensions) {
        return InodeFlags::COMPR;
    }
    if dir.contains(InodeFlags::NOCOMP) { InodeFlags::NOCOMP } else { dir & BOTH }
}

/// Whether the name ends in one of the extensions; only the last one of a name counts.
fn has_extension(name: &[u8], extensions: &[String]) -> bool {
    extensions.iter().any(|e| {
        let rest = name.len().checked_sub(e.len() + 1).and_then(|at| name.split_at_checked(at));
        let is_suffix = |(before, end): (&[u8], &[u8])| {
            !before.is_empty() && matches!(end, [b'.', end @ ..] if end.eq_ignore_ascii_case(e.as_bytes()))
        };
        e == "*" || rest.is_some_and(is_suffix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn the_last_extension_decides() {
        let list = ["txt".to_owned()];
        for (name, expected) in [
            ("a.txt", true),
            ("a.TXT", true),
            ("a.b.txt", true),
            ("a.txt.b", false),
            (".txt", false),
            ("txt", false),
            ("a.xtxt", false),
            ("", false),
        ] {
            assert_eq!(has_extension(name.as_bytes(), &list), expected, "{name}");
        }
        assert!(has_extension(b"anything", &["*".to_owned()]));
    }

    #[test]
    fn lists_go_before_the_directory() {
        let (yes, no) = (InodeFlags::COMPR, InodeFlags::NOCOMP);
        let options = Compression {
            extensions: vec!["log".into(), "jpg".into()],
            excluded: vec!["jpg".into()],
            ..Compression::default()
        };
        let mut sb = RawSuperblock::new_zeroed();
        sb.hot_ext_count = 1;
        sb.extension_list[0][..2].copy_from_slice(b"db");
        let flags = |name: &str, dir| flags_of_file(&options, &sb, name.as_bytes(), dir);
        for (name, dir, expected) in [
            ("a.log", InodeFlags::empty(), yes),
            ("a.log", no, yes),
            ("a.jpg", yes, InodeFlags::empty()),
            ("a.jpg", no, InodeFlags::empty()),
            ("a.db", yes, InodeFlags::empty()),
            ("a", yes, yes),
            ("a", no, no),
            ("a", InodeFlags::SYNC, InodeFlags::empty()),
        ] {
            assert_eq!(flags(name, dir), expected, "{name} in {dir:?}");
        }
    }
}
