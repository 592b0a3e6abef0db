//! Options of compression.
use super::Settings;
use segno_codec::{Algorithm, check_level};
use segno_engine::options::Compression;
use segno_format::Features;

/// Extensions of a list, and bytes of one, as in the kernel.
const EXTENSIONS: usize = 16;
const EXTENSION_LEN: usize = 7;

pub(super) fn algorithm(settings: &mut Settings, value: &str) -> Result<(), String> {
    let (name, level) = value.split_once(':').map_or((value, None), |(n, l)| (n, Some(l)));
    let algorithm = Algorithm::ALL.into_iter().find(|a| a.to_string() == name);
    let algorithm = algorithm.ok_or("choose lzo, lzo-rle, lz4 or zstd")?;
    let level = level.map_or(Ok(0), |l| l.parse::<u8>().map_err(|_| "a level is a number".to_owned()))?;
    check_level(algorithm, level).map_err(|e| e.to_string())?;
    (settings.engine.compression.algorithm, settings.engine.compression.level) = (algorithm, level);
    Ok(())
}

pub(super) fn log_size(settings: &mut Settings, value: &str) -> Result<(), String> {
    let log = value.parse().ok().filter(|n| (2..=8).contains(n));
    settings.engine.compression.log_cluster = log.ok_or("a number from 2 to 8 is needed")?;
    Ok(())
}

pub(super) fn extension(settings: &mut Settings, value: &str) -> Result<(), String> {
    add(&mut settings.engine.compression.extensions, value)
}

pub(super) fn excluded(settings: &mut Settings, value: &str) -> Result<(), String> {
    if value == "*" {
        return Err("that would exclude all files; leave compression out instead".into());
    }
    add(&mut settings.engine.compression.excluded, value)
}

fn add(list: &mut Vec<String>, extension: &str) -> Result<(), String> {
    if extension.is_empty() || extension.len() > EXTENSION_LEN {
        return Err(format!("an extension has 1 to {EXTENSION_LEN} bytes"));
    }
    if list.len() == EXTENSIONS {
        return Err(format!("at most {EXTENSIONS} extensions are possible"));
    }
    if !list.iter().any(|e| e.eq_ignore_ascii_case(extension)) {
        list.push(extension.to_owned());
    }
    Ok(())
}

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

/// An extension of both lists.
pub(super) fn contradiction(c: &Compression) -> Option<&str> {
    let both = |e: &&String| c.excluded.iter().any(|x| x.eq_ignore_ascii_case(e));
    c.extensions.iter().find(both).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_engine::options::CompressMode;

    fn parse(words: &str) -> Result<Compression, String> {
        Settings::parse(&[words.to_owned()], false).map(|s| s.engine.compression).map_err(|e| e.to_string())
    }

    #[test]
    fn options_reach_the_engine() {
        let c = parse(
            "compress_algorithm=zstd:6,compress_log_size=8,compress_chksum,compress_mode=user,compress_extension=txt,\
             compress_extension=log,compress_extension=TXT,nocompress_extension=gz",
        )
        .unwrap();
        assert_eq!((c.algorithm, c.level, c.log_cluster, c.checksum), (Algorithm::Zstd, 6, 8, true));
        assert_eq!((c.mode, c.extensions.len(), c.excluded.len()), (CompressMode::User, 2, 1));
        let c = parse("").unwrap();
        assert_eq!((c.algorithm, c.level, c.log_cluster, c.checksum), (Algorithm::Lz4, 0, 2, false));
    }

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

    #[test]
    fn refusals_say_what_is_possible() {
        for (words, said) in [
            ("compress_algorithm=gzip", "choose lzo, lzo-rle, lz4 or zstd"),
            ("compress_algorithm=lz4:2", "lz4 has no level 2; 3 to 16 are possible"),
            ("compress_algorithm=zstd:x", "a level is a number"),
            ("compress_log_size=1", "a number from 2 to 8 is needed"),
            ("compress_extension=extension", "an extension has 1 to 7 bytes"),
            ("nocompress_extension=*", "that would exclude all files"),
            ("compress_extension=a,nocompress_extension=A", "exclude each other"),
        ] {
            let text = parse(words).unwrap_err();
            assert!(text.contains(said), "{words}: {text}");
        }
    }
}
