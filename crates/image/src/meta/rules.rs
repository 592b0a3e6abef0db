//! Rules for compression, flags and projects: lines `REGEX KEY=VALUE…`, of which the last one that matches counts for each key.
use super::{Line, read, rows};
use crate::Result;
use crate::options::{BuildOptions, Compression};
use crate::tree::{Choice, Inode, Kind, Tree};
use regex::bytes::{Regex, RegexBuilder};
use rustix::thread::CapabilitySet;
use segno_format::inode::InodeFlags;
use std::path::Path;

/// Letters of chattr(1).
const LETTERS: [(char, InodeFlags); 10] = [
    ('S', InodeFlags::SYNC),
    ('i', InodeFlags::IMMUTABLE),
    ('a', InodeFlags::APPEND),
    ('d', InodeFlags::NODUMP),
    ('A', InodeFlags::NOATIME),
    ('D', InodeFlags::DIRSYNC),
    ('m', InodeFlags::NOCOMP),
    ('P', InodeFlags::PROJINHERIT),
    ('F', InodeFlags::CASEFOLD),
    ('c', InodeFlags::COMPR),
];

struct Rule {
    path: Regex,
    compress: Option<Option<Compression>>,
    cluster: Option<u8>,
    flags: InodeFlags,
    projid: Option<u32>,
}

/// Applies one file.
pub(super) fn apply(tree: &mut Tree, file: &Path, options: &BuildOptions) -> Result<()> {
    let bytes = read(file)?;
    let rules: Vec<Rule> = rows(file, &bytes).map(|line| parse(&line)).collect::<Result<_>>()?;
    for index in 0..tree.inodes.len() {
        let path = tree.path(index);
        let inode = tree.get_mut(index)?;
        for rule in rules.iter().filter(|r| r.path.is_match(&path)) {
            rule.apply(inode, options);
        }
    }
    Ok(())
}

impl Rule {
    fn apply(&self, inode: &mut Inode, options: &BuildOptions) {
        let mut flags = self.flags;
        if !inode.kind.is_dir() {
            flags -= InodeFlags::DIRSYNC | InodeFlags::PROJINHERIT | InodeFlags::CASEFOLD;
        }
        inode.flags |= flags - InodeFlags::COMPR;
        inode.projid = self.projid.unwrap_or(inode.projid);
        if !matches!(inode.kind, Kind::File(_)) {
            return;
        }
        if let Some(compress) = self.compress {
            inode.compress = Some(compress.map_or(Choice::Plain, Choice::With));
        }
        let now = match inode.compress {
            Some(Choice::With(now)) => Some(now),
            Some(Choice::Plain) => None,
            None => options.compression,
        };
        if let (Some(log_blocks), Some(now)) = (self.cluster, now) {
            inode.compress = Some(Choice::With(Compression { log_blocks, ..now }));
        }
    }
}

fn parse(line: &Line<'_>) -> Result<Rule> {
    let text = std::str::from_utf8(line.text).map_err(|_| line.error("it is not UTF-8"))?;
    let mut fields = text.split_ascii_whitespace();
    let pattern = fields.next().unwrap_or_default();
    let path = RegexBuilder::new(pattern).unicode(false).build();
    let path = path.map_err(|e| line.error(format!("{pattern:?}: {e}")))?;
    let mut rule = Rule { path, compress: None, cluster: None, flags: InodeFlags::empty(), projid: None };
    for field in fields {
        let (key, value) =
            field.split_once('=').ok_or_else(|| line.error(format!("{field:?} is not KEY=VALUE")))?;
        let bad = |why: String| line.error(format!("{key}: {why}"));
        match key {
            "compress" if value == "no" => rule.compress = Some(None),
            "compress" => {
                rule.compress = Some(Some(Compression::parse(value, Compression::LOG_BLOCKS).map_err(bad)?));
            }
            "cluster" => {
                let log: u8 = value.parse().map_err(|_| bad(format!("{value:?} is no number")))?;
                if !(2..=8).contains(&log) {
                    return Err(bad(format!("{log} is not from 2 to 8")));
                }
                rule.cluster = Some(log);
            }
            "flags" => rule.flags |= flags(value).map_err(bad)?,
            "projid" => {
                rule.projid = Some(value.parse().map_err(|_| bad(format!("{value:?} is no number")))?)
            }
            _ => {
                return Err(
                    line.error(format!("unknown key {key}; there are compress, cluster, flags and projid"))
                );
            }
        }
    }
    Ok(rule)
}

/// Flags by their letters, with or without a plus sign.
pub(crate) fn flags(text: &str) -> Result<InodeFlags, String> {
    text.trim_start_matches('+').chars().try_fold(InodeFlags::empty(), |all, letter| {
        match LETTERS.iter().find(|(l, _)| *l == letter) {
            Some((_, InodeFlags::COMPR)) => Err("use compress= for compression".into()),
            Some((_, flag)) => Ok(all | *flag),
            None => Err(format!("unknown flag {letter}")),
        }
    })
}

/// Capabilities as setcap(8) takes them: `cap_net_raw,cap_net_admin=ep`, all permitted and effective.
pub(super) fn capabilities(text: &str) -> Result<Vec<u8>, String> {
    let names = text.strip_suffix("+ep").or_else(|| text.strip_suffix("=ep"));
    let names = names.ok_or_else(|| format!("capabilities {text:?} do not end in +ep or =ep"))?;
    let mut all = CapabilitySet::empty();
    for name in names.split(',') {
        let upper = name.trim().to_ascii_uppercase();
        let found = upper.strip_prefix("CAP_").and_then(CapabilitySet::from_name);
        all |= found.ok_or_else(|| format!("unknown capability {name}"))?;
    }
    Ok(super::fs_config::capability(all.bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Rule> {
        parse(&Line { file: Path::new("rules"), number: 2, text: text.as_bytes() })
    }

    #[test]
    fn keys_and_values() {
        let rule = one("\\.so$ compress=zstd:19 cluster=4 flags=+iA projid=7").unwrap();
        assert_eq!(rule.flags, InodeFlags::IMMUTABLE | InodeFlags::NOATIME);
        assert_eq!(
            (rule.cluster, rule.projid, rule.compress.unwrap().unwrap().level),
            (Some(4), Some(7), 19)
        );
        for (text, why) in [
            ("( compress=no", "unclosed group"),
            ("x compress", "is not KEY=VALUE"),
            ("x compress=lz5", "unknown algorithm lz5"),
            ("x cluster=9", "9 is not from 2 to 8"),
            ("x flags=+z", "unknown flag z"),
            ("x color=red", "unknown key color"),
        ] {
            let said = one(text).err().unwrap().to_string();
            assert!(said.starts_with("rules:2: ") && said.contains(why), "{said}");
        }
    }

    #[test]
    fn capabilities_by_name() {
        let value = capabilities("cap_net_raw,CAP_NET_ADMIN+ep").unwrap();
        assert_eq!(super::super::fs_config::capability_bits(&value), Some(1 << 13 | 1 << 12));
        let last = capabilities("cap_checkpoint_restore=ep").unwrap();
        assert_eq!(super::super::fs_config::capability_bits(&last), Some(1 << 40));
        assert!(capabilities("cap_net_raw").is_err() && capabilities("cap_fly=ep").is_err());
    }
}
