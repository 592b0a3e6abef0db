//! Options of compression on volumes that have none.
use segno_format::Features;

/// Whether an option, without its value, is about compression.
pub(super) fn is_option(name: &str) -> bool {
    name.starts_with("compress_") || name.starts_with("nocompress_")
}

/// The note for a mount of a volume without compression, if options about it were given.
pub fn without_effect(words: &[String], features: Features) -> Option<String> {
    let has_effect = words.is_empty() || features.contains(Features::COMPRESSION);
    (!has_effect).then(|| {
        format!(
            "{} without effect: the volume was made without the feature compression, which new volumes \
             get by the option `-O extra_attr,compression` of mkfs",
            words.join(",")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn options_for_a_volume_without_compression_are_named() {
        let words = |line: &str| Settings::parse(&[line.to_owned()], false).unwrap().compression;
        let given =
            words("ro,compress_algorithm=zstd:6,compress_cache,nocompress_extension=gz,compress_chksum");
        assert_eq!(given, ["compress_algorithm=zstd:6", "nocompress_extension=gz", "compress_chksum"]);
        let note = without_effect(&given, Features::EXTRA_ATTR).unwrap();
        assert!(
            note.starts_with(
                "compress_algorithm=zstd:6,nocompress_extension=gz,compress_chksum without effect: "
            ) && note.contains("`-O extra_attr,compression`"),
            "{note}"
        );
        assert_eq!(without_effect(&given, Features::EXTRA_ATTR | Features::COMPRESSION), None);
        assert_eq!(without_effect(&words("ro,noacl"), Features::EXTRA_ATTR), None);
    }
}
