//! Images of whole trees.
use crate::args::{owned_path, owned_paths, path, put, text, versioned};
use crate::error::{EINVAL, Failure, done};
use segno::{
    BuildOptions, Compression, ExtractOptions, Features, FormatOptions, ImageMetadata, ImageSize, Owner,
    Preserve,
};
use std::ffi::{c_char, c_int};
use std::mem::offset_of;

/// Of `segno_build_options.flags`: replace an existing file.
pub const SEGNO_BUILD_FORCE: u32 = 1;
/// Of `segno_build_options.flags`: the layout of volumes that are never written, without reserve.
pub const SEGNO_BUILD_READ_ONLY: u32 = 2;
/// Of `segno_build_options.flags`: write the Android sparse format.
pub const SEGNO_BUILD_SPARSE: u32 = 4;
/// Of `segno_build_options.flags`: everything belongs to user and group 0, instead of its owner in the source.
pub const SEGNO_BUILD_ROOT_OWNED: u32 = 8;
const KNOWN: u32 = SEGNO_BUILD_FORCE | SEGNO_BUILD_READ_ONLY | SEGNO_BUILD_SPARSE | SEGNO_BUILD_ROOT_OWNED;

/// How to build an image. Zeros and null pointers are the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_build_options {
    /// `sizeof(segno_build_options)`: later versions may add fields.
    pub size: u32,
    /// `SEGNO_BUILD_READ_ONLY` and others.
    pub flags: u32,
    /// Size of the image in bytes; 0 for the smallest volume that holds the tree.
    pub image_bytes: u64,
    /// Volume label, or null.
    pub label: *const c_char,
    /// The 16 bytes of the volume id; null for one that is derived from the tree.
    pub uuid: *const u8,
    /// All times of all files, in seconds since 1970; null for the times of the source.
    pub time: *const u64,
    /// Latest time of a file, in seconds since 1970, which replaces later ones; null for none.
    pub source_date_epoch: *const u64,
    /// Algorithm and level for files, such as `lz4` or `zstd:19`; null to compress nothing.
    pub compress: *const c_char,
    /// Blocks of a compressed cluster, as a power of two from 2 to 8; 0 for 2.
    pub log_cluster: u32,
    /// Unused, 0.
    pub reserved: u32,
    /// The manifest that `segno_extract` wrote, or null.
    pub manifest: *const c_char,
    /// File or device of the external journal of a source that is an image; null for none.
    pub journal: *const c_char,
    /// Further devices of a source that is an image, as in `segno_open_options`.
    pub devices: *const *const c_char,
}

/// The counts of a build.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_build_report {
    /// Size of the image; of a sparse image, its size when unpacked.
    pub image_bytes: u64,
    /// Space that is left for files.
    pub free_bytes: u64,
    /// Inodes in the image, with the root.
    pub files: u64,
    /// Sizes of all files, each counted once.
    pub content_bytes: u64,
    /// Files with compressed clusters.
    pub compressed_files: u64,
    /// Space that compression saves. It is free only where it is released.
    pub saved_bytes: u64,
    /// The volume's id.
    pub uuid: [u8; 16],
}

/// Builds an image of a directory, a tar archive or another image. The same input gives the same bytes, and whatever of it
/// cannot be stored is an error. The file gets its name when it is complete. `options` and `report` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_build(
    source: *const c_char,
    image: *const c_char,
    options: *const segno_build_options,
    report: *mut segno_build_report,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let (source, image) = unsafe { (path(source)?, path(image)?) };
        // SAFETY: as above.
        let given = unsafe {
            versioned(
                options,
                "segno_build_options",
                &[offset_of!(segno_build_options, journal), offset_of!(segno_build_options, devices)],
            )
        }?;
        // SAFETY: the options are valid, as above, and their paths are null or strings.
        let options = given.map(|given| unsafe { build_options(&given) }).transpose()?.unwrap_or_default();
        let force = given.is_some_and(|given| given.flags & SEGNO_BUILD_FORCE != 0);
        let built = segno::catch_panic(|| match force {
            true => segno::rebuild(source, image, &options),
            false => segno::build(source, image, &options),
        })?;
        if report.is_null() {
            return Ok(());
        }
        let made = segno_build_report {
            image_bytes: built.image_bytes,
            free_bytes: built.free_bytes,
            files: built.files,
            content_bytes: built.content_bytes,
            compressed_files: built.compressed_files,
            saved_bytes: built.saved_bytes,
            uuid: built.uuid,
        };
        // SAFETY: as above.
        unsafe { put(report, made, "place for the report") }
    })
}

/// # Safety
/// The pointers in `given` are null, or as segno.h requires.
unsafe fn build_options(given: &segno_build_options) -> Result<BuildOptions, Failure> {
    let unknown = given.flags & !KNOWN;
    if unknown != 0 || given.reserved != 0 {
        return Err(Failure::new(EINVAL, format!("unknown flags {unknown:#x} in segno_build_options")));
    }
    let has = |flag| given.flags & flag != 0;
    // SAFETY: null, or valid, as the caller of this function guarantees; also below.
    let (label, compress) =
        unsafe { (text(given.label, "label")?, text(given.compress, "name of the algorithm")?) };
    let log = if given.log_cluster == 0 { Compression::LOG_BLOCKS.into() } else { given.log_cluster };
    let parse = |name| Compression::parse(name, u8::try_from(log).unwrap_or(u8::MAX));
    let compression = compress.map(parse).transpose().map_err(|why| Failure::new(EINVAL, why))?;
    let volume = FormatOptions {
        label: label.unwrap_or_default().to_owned(),
        // SAFETY: as above.
        uuid: unsafe { given.uuid.cast::<[u8; 16]>().as_ref() }.copied(),
        features: if has(SEGNO_BUILD_READ_ONLY) { Features::RO } else { Features::empty() },
        ..FormatOptions::default()
    };
    Ok(BuildOptions {
        volume,
        size: match given.image_bytes {
            0 => ImageSize::default(),
            bytes => ImageSize::Bytes(bytes),
        },
        // SAFETY: as above.
        time: unsafe { given.time.as_ref() }.copied(),
        // SAFETY: as above.
        latest: unsafe { given.source_date_epoch.as_ref() }.copied(),
        owner: if has(SEGNO_BUILD_ROOT_OWNED) { Owner::All(0, 0) } else { Owner::Keep },
        compression,
        sparse: has(SEGNO_BUILD_SPARSE),
        // SAFETY: as above.
        metadata: ImageMetadata { manifest: unsafe { owned_path(given.manifest) }?, ..Default::default() },
        // SAFETY: as above.
        journal: unsafe { owned_path(given.journal) }?,
        // SAFETY: as above.
        devices: unsafe { owned_paths(given.devices) }?,
        ..BuildOptions::default()
    })
}

/// Of `segno_extract_options.flags`: the target is a tar archive, which must not exist, instead of a directory.
pub const SEGNO_EXTRACT_TAR: u32 = 1;

/// Of `segno_extract_options.preserve`: set-user-ID and set-group-ID bits, of directories too.
pub const SEGNO_PRESERVE_SETID: u32 = 1;
/// Of `segno_extract_options.preserve`: character and block devices.
pub const SEGNO_PRESERVE_DEVICES: u32 = 2;
/// Of `segno_extract_options.preserve`: file capabilities, `security.capability`.
pub const SEGNO_PRESERVE_CAPS: u32 = 4;
/// Of `segno_extract_options.preserve`: extended attributes `trusted.*`.
pub const SEGNO_PRESERVE_TRUSTED: u32 = 8;
/// C and the library have the same bits.
const _: () = assert!(
    Preserve::SETID.bits() == SEGNO_PRESERVE_SETID
        && Preserve::DEVICES.bits() == SEGNO_PRESERVE_DEVICES
        && Preserve::CAPS.bits() == SEGNO_PRESERVE_CAPS
        && Preserve::TRUSTED.bits() == SEGNO_PRESERVE_TRUSTED
);

/// Which tree to extract, and how. Zeros and null pointers are the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_extract_options {
    /// `sizeof(segno_extract_options)`: later versions may add fields.
    pub size: u32,
    /// `SEGNO_EXTRACT_TAR` or 0.
    pub flags: u32,
    /// The directory on the volume to extract, with everything below it; null for all.
    pub path: *const c_char,
    /// File for all metadata, which `segno_build` reads; null for none.
    pub manifest: *const c_char,
    /// File or device of the external journal of the volume; null for none.
    pub journal: *const c_char,
    /// Further devices of the volume, as in `segno_open_options`.
    pub devices: *const *const c_char,
    /// `SEGNO_PRESERVE_SETID` and others: properties that files in a directory get though they are a matter of trust, as an image
    /// may be a stranger's. Archives and manifests have all.
    pub preserve: u32,
    /// Unused, 0.
    pub reserved: u32,
}

/// The counts of an extraction.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_extract_report {
    /// Files, directories and others, each inode once.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Names that the host cannot store; the manifest has them.
    pub renamed: u64,
    /// Files with metadata that the target does not have; the manifest has it.
    pub incomplete: u64,
    /// Properties of files that were left out, as `segno_extract_options.preserve` does not have them.
    pub left_out: u64,
}

/// Takes the tree out of an image, raw or Android sparse, into a directory that is new or empty, or into a new tar archive.
/// `options` and `report` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_extract(
    image: *const c_char,
    target: *const c_char,
    options: *const segno_extract_options,
    report: *mut segno_extract_report,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let (image, target) = unsafe { (path(image)?, path(target)?) };
        let (mut lists, mut tar) = (ExtractOptions::default(), false);
        // SAFETY: as above.
        if let Some(given) = unsafe {
            versioned(
                options,
                "segno_extract_options",
                &[offset_of!(segno_extract_options, journal), offset_of!(segno_extract_options, devices)],
            )
        }? {
            let unknown = given.flags & !SEGNO_EXTRACT_TAR;
            if unknown != 0 {
                let why = format!("unknown flags {unknown:#x} in segno_extract_options");
                return Err(Failure::new(EINVAL, why));
            }
            let preserve = Preserve::from_bits(given.preserve).filter(|_| given.reserved == 0);
            let preserve = preserve.ok_or_else(|| {
                let why = format!("unknown bits in preserve {:#x} of segno_extract_options", given.preserve);
                Failure::new(EINVAL, why)
            })?;
            tar = given.flags & SEGNO_EXTRACT_TAR != 0;
            // SAFETY: the options are valid, as above, and their paths are null or strings; also below.
            let (path, manifest) = unsafe { (owned_path(given.path)?, owned_path(given.manifest)?) };
            // SAFETY: as above.
            let (journal, devices) = unsafe { (owned_path(given.journal)?, owned_paths(given.devices)?) };
            let path = path.unwrap_or_default();
            lists = ExtractOptions { path, manifest, journal, devices, preserve, ..Default::default() };
        }
        let done = segno::catch_panic(|| match tar {
            true => segno::extract_tar_file(image, target, &lists),
            false => segno::extract(image, target, &lists),
        })?;
        if report.is_null() {
            return Ok(());
        }
        let made = segno_extract_report {
            files: done.files,
            bytes: done.bytes,
            renamed: done.renamed.len() as u64,
            incomplete: done.incomplete,
            left_out: done.left_out.total(),
        };
        // SAFETY: as above.
        unsafe { put(report, made, "place for the report") }
    })
}
