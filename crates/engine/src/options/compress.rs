//! Options of compression.
use super::{Compression, Parsed};
use segno_codec::{Algorithm, check_level};

/// Extensions of a list, and bytes of one, as in the kernel.
const EXTENSIONS: usize = 16;
const EXTENSION_LEN: usize = 7;

pub(super) fn algorithm(parsed: &mut Parsed, value: &str) -> Result<(), String> {
    let (name, level) = value.split_once(':').map_or((value, None), |(n, l)| (n, Some(l)));
    let algorithm = Algorithm::ALL.into_iter().find(|a| a.to_string() == name);
    let algorithm = algorithm.ok_or("choose lzo, lzo-rle, lz4 or zstd")?;
    let level = level.map_or(Ok(0), |l| l.parse::<u8>().map_err(|_| "a level is a number".to_owned()))?;
    check_level(algorithm, level).map_err(|e| e.to_string())?;
    (parsed.options.compression.algorithm, parsed.options.compression.level) = (algorithm, level);
    Ok(())
}

pub(super) fn log_size(parsed: &mut Parsed, value: &str) -> Result<(), String> {
    let log = value.parse().ok().filter(|n| (2..=8).contains(n));
    parsed.options.compression.log_cluster = log.ok_or("a number from 2 to 8 is needed")?;
    Ok(())
}

pub(super) fn extension(parsed: &mut Parsed, value: &str) -> Result<(), String> {
    add(&mut parsed.options.compression.extensions, value)
}

pub(super) fn excluded(parsed: &mut Parsed, value: &str) -> Result<(), String> {
    if value == "*" {
        return Err("that would exclude all files; leave compression out instead".into());
    }
    add(&mut parsed.options.compression.excluded, value)
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

/// An extension of both lists.
pub(super) fn contradiction(c: &Compression) -> Option<&str> {
    let both = |e: &&String| c.excluded.iter().any(|x| x.eq_ignore_ascii_case(e));
    c.extensions.iter().find(both).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompressMode;

    fn parse(words: &str) -> Result<Compression, String> {
        Parsed::parse(words).map(|(options, _)| options.compression)
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
