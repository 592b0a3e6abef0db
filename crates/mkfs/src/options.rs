//! Options of a caller, and the values that `mkfs.f2fs` refuses.
use crate::MkfsError;
use segno_format::superblock::{MAX_EXTENSIONS, MAX_SEGMENTS};
use segno_format::{BLOCKS_PER_SEG, Features};

/// UTF-16 units of a label.
const LABEL_UNITS: usize = 512;
/// Bytes of an extension.
const EXTENSION_LEN: usize = 8;

const COLD_EXTENSIONS: &[&str] = &[
    "mp", "wm", "og", "jp", "avi", "m4v", "m4p", "mkv", "mov", "webm", "wav", "m4a", "3gp", "opus", "flac",
    "gif", "png", "svg", "webp", "jar", "deb", "iso", "gz", "xz", "zst", "pdf", "pyc", "ttc", "ttf", "exe",
    "apk", "cnt", "exo", "odex", "vdex", "so",
];
const HOT_EXTENSIONS: &[&str] = &["db", "vmdk", "vdi", "qcow2"];

/// Features that live in the extra attributes of an inode.
const NEED_EXTRA_ATTR: Features = Features::PRJQUOTA
    .union(Features::INODE_CHKSUM)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::INODE_CRTIME)
    .union(Features::COMPRESSION);

/// Features that can be requested.
const SUPPORTED: Features = NEED_EXTRA_ATTR
    .union(Features::ENCRYPT)
    .union(Features::EXTRA_ATTR)
    .union(Features::QUOTA_INO)
    .union(Features::LOST_FOUND)
    .union(Features::VERITY)
    .union(Features::SB_CHKSUM)
    .union(Features::CASEFOLD)
    .union(Features::RO);

/// `s_encoding_flags`, for volumes with the casefold feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CasefoldFlags {
    /// Refuse names that are not valid UTF-8.
    pub strict: bool,
    /// Never fall back to a linear search when a hash does not match.
    pub hash_only: bool,
}

impl CasefoldFlags {
    pub(crate) fn bits(self) -> u16 {
        u16::from(self.strict) | u16::from(self.hash_only) << 1
    }
}

/// Options of a format. The defaults are those of `mkfs.f2fs`.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Volume label, at most 512 UTF-16 units.
    pub label: String,
    /// Features to switch on.
    pub features: Features,
    /// Share of the main area kept from users; the best one for the size when `None`.
    pub overprovision_percent: Option<f64>,
    /// Sections that only cleaning may use; if `None`, derived from the over-provision.
    pub reserved_sections: Option<u32>,
    /// Make a zoned volume: each section is a zone of the device, and the metadata is in conventional zones.
    pub zoned: bool,
    /// Segments in a section; on a zoned volume, segments in a device zone.
    pub segs_per_sec: u32,
    /// Sections in a zone.
    pub secs_per_zone: u32,
    /// Keep the NAT version bitmap after the checkpoint block, to allow many more nodes on large volumes.
    pub large_nat_bitmap: bool,
    /// Use only the first blocks of the first device.
    pub blocks: Option<u64>,
    /// Blocks to leave free after the volume for its journal; some more if needed for a start at a multiple
    /// of 2 MiB. With several devices, on the first.
    pub gap_blocks: u64,
    /// Byte at which the first device starts on its disk, so that zones can be aligned there.
    pub partition_start: u64,
    /// Sector size recorded in the superblock.
    pub sector_size: u32,
    /// Uid and gid of the root directory.
    pub root_owner: (u32, u32),
    /// File name extensions whose data is seldom rewritten.
    pub cold_extensions: Vec<String>,
    /// File name extensions whose data is often rewritten.
    pub hot_extensions: Vec<String>,
    /// How casefolded names are treated.
    pub casefold: CasefoldFlags,
    /// Overwrite contents. Without it, a device that is not known as zeroed has to be empty.
    pub force: bool,
    /// Discard the devices first. When `None`, only with `force`, and image files keep all storage if they have all.
    pub discard: Option<bool>,
    /// Volume id; random when `None`.
    pub uuid: Option<[u8; 16]>,
    /// Version of the first checkpoint; random when `None`.
    pub checkpoint_ver: Option<u32>,
    /// Seconds since 1970 for the time stamps; now when `None`.
    pub timestamp: Option<u64>,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        let owned = |list: &[&str]| list.iter().map(|&e| e.to_owned()).collect();
        Self {
            label: String::new(),
            features: Features::empty(),
            overprovision_percent: None,
            reserved_sections: None,
            zoned: false,
            segs_per_sec: 1,
            secs_per_zone: 1,
            large_nat_bitmap: false,
            blocks: None,
            gap_blocks: 0,
            partition_start: 0,
            sector_size: 512,
            root_owner: (0, 0),
            cold_extensions: owned(COLD_EXTENSIONS),
            hot_extensions: owned(HOT_EXTENSIONS),
            casefold: CasefoldFlags::default(),
            force: false,
            discard: None,
            uuid: None,
            checkpoint_ver: None,
            timestamp: None,
        }
    }
}

impl MkfsOptions {
    /// Segments in a zone.
    pub(crate) fn segs_per_zone(&self) -> u32 {
        self.segs_per_sec.saturating_mul(self.secs_per_zone)
    }

    /// The requested features and the features that they imply: project quota is kept in a quota file.
    #[must_use]
    pub fn all_features(&self) -> Features {
        let mut all = self.features;
        all.set(Features::BLKZONED, self.zoned);
        all.set(Features::QUOTA_INO, all.intersects(Features::QUOTA_INO | Features::PRJQUOTA));
        all
    }

    /// Whether the volume will have a feature.
    #[must_use]
    pub fn has(&self, f: Features) -> bool {
        self.all_features().contains(f)
    }

    pub(crate) fn validate(&self) -> Result<(), MkfsError> {
        self.validate_features()?;
        self.validate_geometry()?;
        let units = self.label.encode_utf16().count();
        if units > LABEL_UNITS {
            return refuse(format!(
                "the label has {units} UTF-16 units, at most {LABEL_UNITS} fit: shorten it"
            ));
        }
        if self.checkpoint_ver == Some(0) {
            // It would not be newer than the empty second pack.
            return refuse("the first checkpoint version must not be 0");
        }
        self.validate_extensions()
    }

    /// Blocks of each device that the volume may use.
    pub(crate) fn usable(&self, devices: &[u64]) -> Result<Vec<u64>, MkfsError> {
        let mut sizes = devices.to_vec();
        if let (Some(first), Some(limit)) = (sizes.first_mut(), self.blocks) {
            *first = limit.min(*first);
        }
        if self.gap_blocks == 0 {
            return Ok(sizes);
        }
        if let ([_], true) = (devices, self.zoned) {
            return refuse(
                "a journal behind the volume: zones that are written in order are no place for one",
            );
        }
        if let (Some(size), Some(device)) = (sizes.first_mut(), devices.first()) {
            let left = device.saturating_sub(self.gap_blocks);
            *size = (left / u64::from(BLOCKS_PER_SEG) * u64::from(BLOCKS_PER_SEG)).min(*size);
        }
        Ok(sizes)
    }

    fn validate_features(&self) -> Result<(), MkfsError> {
        let unsupported = self.features.difference(SUPPORTED);
        if !unsupported.is_empty() {
            let list = unsupported.names().join(", ");
            return refuse(format!("cannot format with feature {list}: not supported here; leave it out"));
        }
        let needy = self.features.intersection(NEED_EXTRA_ATTR);
        if !needy.is_empty() && !self.has(Features::EXTRA_ATTR) {
            let list = needy.names().join(", ");
            return refuse(format!("feature {list} needs extra_attr: add extra_attr to the feature list"));
        }
        if self.casefold != CasefoldFlags::default() && !self.has(Features::CASEFOLD) {
            return refuse("casefold flags need the casefold feature: add casefold to the feature list");
        }
        Ok(())
    }

    fn validate_geometry(&self) -> Result<(), MkfsError> {
        for (name, value) in
            [("segments per section", self.segs_per_sec), ("sections per zone", self.secs_per_zone)]
        {
            if !(1..=MAX_SEGMENTS).contains(&value) {
                return refuse(format!("{name} is {value}, it must be 1 to {MAX_SEGMENTS}"));
            }
        }
        if !self.sector_size.is_power_of_two() || !(512..=4096).contains(&self.sector_size) {
            return refuse(format!("sector size {} is not 512, 1024, 2048 or 4096", self.sector_size));
        }
        match self.overprovision_percent {
            Some(percent) if !(percent > 0.0 && percent < 100.0) => {
                refuse(format!("overprovision ratio {percent}% must be above 0 and below 100"))
            }
            _ => Ok(()),
        }
    }

    fn validate_extensions(&self) -> Result<(), MkfsError> {
        let count = self.cold_extensions.len().saturating_add(self.hot_extensions.len());
        if count > MAX_EXTENSIONS as usize {
            return refuse(format!(
                "{count} file extensions in the cold and hot lists, at most 64 fit: drop some"
            ));
        }
        let bad = |e: &&String| e.is_empty() || e.len() >= EXTENSION_LEN || e.contains('\0');
        match self.cold_extensions.iter().chain(&self.hot_extensions).find(bad) {
            Some(e) => refuse(format!("file extension {e:?} must have 1 to 7 bytes")),
            None => Ok(()),
        }
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, MkfsError> {
    Err(MkfsError::Options(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut MkfsOptions)) -> String {
        let mut opts = MkfsOptions::default();
        change(&mut opts);
        opts.validate().unwrap_err().to_string()
    }

    #[test]
    fn refusals_name_the_culprit() {
        let f = |f| move |o: &mut MkfsOptions| o.features = f;
        assert!(refusal(f(Features::DEVICE_ALIAS)).contains("device_alias: not supported"));
        assert!(refusal(f(Features::PACKED_SSA)).contains("packed_ssa: not supported"));
        assert!(refusal(f(Features::BLKZONED)).contains("blkzoned: not supported"));
        assert!(refusal(f(Features::from_bits_retain(0x8000_0000))).contains("0x80000000"));
        for name in
            ["project_quota", "inode_checksum", "flexible_inline_xattr", "inode_crtime", "compression"]
        {
            let needs = refusal(f(Features::from_mkfs_name(name).unwrap()));
            assert!(needs.starts_with(&format!("feature {name} needs extra_attr")), "{needs}");
        }
        assert!(refusal(|o| o.casefold.strict = true).contains("casefold"));
        assert!(refusal(|o| o.label = "\u{1D10B}".repeat(257)).contains("514 UTF-16 units"));
        assert!(refusal(|o| o.segs_per_sec = 0).contains("segments per section is 0"));
        assert!(refusal(|o| o.secs_per_zone = u32::MAX).contains("sections per zone"));
        assert!(refusal(|o| o.sector_size = 513).contains("513"));
        assert!(refusal(|o| o.sector_size = 8192).contains("8192"));
        for percent in [0.0, -1.0, 100.0, f64::NAN, f64::INFINITY] {
            assert!(
                refusal(|o| o.overprovision_percent = Some(percent)).contains("overprovision"),
                "{percent}"
            );
        }
        assert!(refusal(|o| o.checkpoint_ver = Some(0)).contains("must not be 0"));
        for text in ["", "12345678", "a\0b"] {
            assert!(refusal(|o| o.hot_extensions.push(text.into())).contains("extension"), "{text:?}");
        }
        assert!(refusal(|o| o.cold_extensions = vec!["x".into(); 61]).starts_with("65 file extensions"));
    }

    #[test]
    fn the_limits_themselves_pass() {
        let opts = MkfsOptions {
            label: "\u{1D10B}".repeat(256),
            cold_extensions: vec!["1234567".into(); 60],
            features: SUPPORTED,
            sector_size: 4096,
            ..MkfsOptions::default()
        };
        opts.validate().unwrap();
    }
}
