//! Options of a volume, shared by `mkfs` and `build`.
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use segno_format::Features;
use segno_mkfs::{CasefoldFlags, MkfsOptions};

/// Properties of a volume that do not depend on the device it is made on.
#[derive(clap::Args)]
pub struct VolumeArgs {
    /// Volume label
    #[arg(short, long, default_value = "")]
    label: String,
    /// Features, as for mkfs.f2fs
    #[arg(short = 'O', long, value_name = "FEATURE,…", value_delimiter = ',', value_parser = feature(), hide_possible_values = true)]
    features: Vec<Features>,
    /// Share of the main area reserved for cleaning, in percent
    #[arg(short = 'o', long, value_name = "PERCENT")]
    overprovision: Option<f64>,
    /// Sections that only cleaning may use (as newer mkfs.f2fs -Z)
    #[arg(short = 'Z', long, value_name = "N")]
    reserved_sections: Option<u32>,
    /// Segments in a section
    #[arg(short = 's', long, value_name = "N", default_value_t = 1)]
    segs_per_sec: u32,
    /// Sections in a zone
    #[arg(short = 'z', long, value_name = "N", default_value_t = 1)]
    secs_per_zone: u32,
    /// Room for many more nodes on a large volume
    #[arg(short = 'i', long)]
    large_nat_bitmap: bool,
    /// Support directories that ignore case: utf8[:strict,hashonly]
    #[arg(short = 'C', long, value_name = "ENCODING", value_parser = casefold)]
    casefold: Option<CasefoldFlags>,
    /// More extensions of files that are seldom rewritten
    #[arg(short = 'e', long, value_name = "EXT,…", value_delimiter = ',')]
    cold_extensions: Vec<String>,
    /// More extensions of files that are often rewritten
    #[arg(short = 'E', long, value_name = "EXT,…", value_delimiter = ',')]
    hot_extensions: Vec<String>,
    /// Volume id
    #[arg(short = 'U', long, value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Sector size to record
    #[arg(short = 'w', long, value_name = "BYTES", default_value_t = 512)]
    sector_size: u32,
    /// Seconds since 1970 for the time stamps
    #[arg(short = 'T', long)]
    timestamp: Option<u64>,
    /// Give the first checkpoint the same version each time: with -U and -T two volumes are equal
    #[arg(short = 'r', long)]
    fixed_version: bool,
}

/// The version of the first checkpoint that mkfs.f2fs -r gives: the first number of the C library's generator with a fixed seed.
const FIXED_VERSION: u32 = 1_804_289_383;

impl VolumeArgs {
    /// The options of these arguments, with defaults for the rest.
    pub fn options(&self) -> Result<MkfsOptions> {
        let mut options = MkfsOptions {
            label: self.label.clone(),
            features: self.features.iter().copied().collect(),
            overprovision_percent: self.overprovision,
            reserved_sections: self.reserved_sections,
            segs_per_sec: self.segs_per_sec,
            secs_per_zone: self.secs_per_zone,
            large_nat_bitmap: self.large_nat_bitmap,
            sector_size: self.sector_size,
            uuid: self.uuid,
            timestamp: self.timestamp,
            checkpoint_ver: self.fixed_version.then_some(FIXED_VERSION),
            ..MkfsOptions::default()
        };
        if let Some(flags) = self.casefold {
            options.features |= Features::CASEFOLD;
            options.casefold = flags;
        }
        options.cold_extensions.extend(self.cold_extensions.iter().cloned());
        options.hot_extensions.extend(self.hot_extensions.iter().cloned());
        Ok(options)
    }

    /// Whether the share for cleaning was chosen.
    pub fn reserve_is_chosen(&self) -> bool {
        self.overprovision.is_some() || self.reserved_sections.is_some()
    }
}

/// The names of mkfs.f2fs.
fn feature() -> impl TypedValueParser<Value = Features> {
    PossibleValuesParser::new(Features::all_names())
        .map(|name| Features::from_mkfs_name(&name).unwrap_or(Features::empty()))
}

/// `utf8`, or `utf8:` and flags.
fn casefold(text: &str) -> Result<CasefoldFlags, String> {
    let (encoding, words) = text.split_once(':').unwrap_or((text, ""));
    if !["utf8", "utf8-12.1"].contains(&encoding) {
        return Err(format!("unknown encoding {encoding}; there is utf8"));
    }
    let mut flags = CasefoldFlags::default();
    for word in words.split(',').filter(|w| !w.is_empty()) {
        match word {
            "strict" => flags.strict = true,
            "nostrict" => flags.strict = false,
            "hashonly" => flags.hash_only = true,
            "nohashonly" => flags.hash_only = false,
            _ => return Err(format!("unknown flag {word}; there are strict and hashonly, and no… of both")),
        }
    }
    Ok(flags)
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    let hex: String = text.chars().filter(|&c| c != '-').collect();
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("a UUID has 32 hexadecimal digits".into());
    }
    u128::from_str_radix(&hex, 16).map(u128::to_be_bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn arguments_with_a_shape() {
        assert_eq!(uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap()[..3], [0, 0x11, 0x22]);
        assert!(uuid("00112233").is_err() && uuid(&"g".repeat(32)).is_err());
        let strict = CasefoldFlags { strict: true, hash_only: false };
        assert_eq!(casefold("utf8:strict").unwrap(), strict);
        assert_eq!(casefold("utf8").unwrap(), CasefoldFlags::default());
        assert!(casefold("latin1").is_err() && casefold("utf8:loose").is_err());
    }

    #[test]
    fn features_are_named_as_in_mkfs_f2fs() {
        let parsed = |words: &str| {
            let line = ["mkfs", "-O", words];
            VolumeArgs::augment_args(Command::new("mkfs"))
                .try_get_matches_from(line)
                .map(|m| VolumeArgs::from_arg_matches(&m).unwrap().options().unwrap().features)
        };
        let both = parsed("extra_attr,inode_crtime").unwrap();
        assert_eq!(both, Features::EXTRA_ATTR | Features::INODE_CRTIME);
        let said = parsed("shiny").unwrap_err().to_string();
        assert!(
            said.contains("invalid value 'shiny'") && said.contains("[possible values: encrypt, "),
            "{said}"
        );
    }
}
