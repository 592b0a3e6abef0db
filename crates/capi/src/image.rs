//! Images of whole trees.
use crate::args::{optional_path, path, paths, put, shared, text, versioned};
use crate::error::{EINVAL, Failure, done};
use segno::{BuildOptions, Compression, ExtractOptions, Owner, Preserve};
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

/// What was built.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_build_report {
    /// Size of the image. A sparse image is the size of what it stands for.
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
        let options = match unsafe {
            versioned(
                options,
                "segno_build_options",
                &[offset_of!(segno_build_options, journal), offset_of!(segno_build_options, devices)],
            )
        }? {
            // SAFETY: the options are valid, as above, and their paths are null or strings.
            Some(given) => unsafe { build_options(&given) }?,
            None => BuildOptions::new(),
        };
        let built = segno::catch_panic(|| segno::build(source, image, &options))?;
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
/// The pointers in `given` are null, or what segno.h says.
unsafe fn build_options(given: &segno_build_options) -> Result<BuildOptions, Failure> {
    let unknown = given.flags & !KNOWN;
    if unknown != 0 || given.reserved != 0 {
        return Err(Failure::new(EINVAL, format!("unknown flags {unknown:#x} in segno_build_options")));
    }
    let mut options = BuildOptions::new();
    if given.flags & SEGNO_BUILD_FORCE != 0 {
        options = options.force();
    }
    if given.flags & SEGNO_BUILD_READ_ONLY != 0 {
        options = options.read_only();
    }
    if given.flags & SEGNO_BUILD_SPARSE != 0 {
        options = options.sparse();
    }
    if given.flags & SEGNO_BUILD_ROOT_OWNED != 0 {
        options = options.owner(Owner::All(0, 0));
    }
    if given.image_bytes != 0 {
        options = options.size(given.image_bytes);
    }
    // SAFETY: null, or valid, as the caller of this function says; also below.
    if let Some(label) = unsafe { text(given.label, "label") }? {
        options = options.label(label);
    }
    if !given.uuid.is_null() {
        // SAFETY: as above.
        options = options.uuid(*unsafe { shared(given.uuid.cast::<[u8; 16]>(), "volume id") }?);
    }
    if !given.time.is_null() {
        // SAFETY: as above.
        options = options.time(*unsafe { shared(given.time, "time") }?);
    }
    if !given.source_date_epoch.is_null() {
        // SAFETY: as above.
        options = options.source_date_epoch(*unsafe { shared(given.source_date_epoch, "time") }?);
    }
    // SAFETY: as above.
    if let Some(compress) = unsafe { text(given.compress, "name of the algorithm") }? {
        let log = if given.log_cluster == 0 { Compression::LOG_BLOCKS.into() } else { given.log_cluster };
        let parsed = Compression::parse(compress, u8::try_from(log).unwrap_or(u8::MAX));
        options = options.compress(parsed.map_err(|why| Failure::new(EINVAL, why))?);
    }
    // SAFETY: as above.
    if let Some(path) = unsafe { optional_path(given.manifest) }? {
        options = options.manifest(path);
    }
    // SAFETY: as above.
    if let Some(path) = unsafe { optional_path(given.journal) }? {
        options = options.journal(path);
    }
    // SAFETY: as above.
    for path in unsafe { paths(given.devices) }? {
        options = options.device(path);
    }
    Ok(options)
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

/// What to extract. Zeros and null pointers are the defaults.
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

/// What was extracted.
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
        let (mut lists, mut tar) = (ExtractOptions::new(), false);
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
            lists = lists.preserve(preserve);
            tar = given.flags & SEGNO_EXTRACT_TAR != 0;
            // SAFETY: the options are valid, as above, and their paths are null or strings.
            if let Some(path) = unsafe { optional_path(given.path) }? {
                lists = lists.path(path);
            }
            // SAFETY: as above.
            if let Some(path) = unsafe { optional_path(given.manifest) }? {
                lists = lists.manifest(path);
            }
            // SAFETY: as above.
            if let Some(path) = unsafe { optional_path(given.journal) }? {
                lists = lists.journal(path);
            }
            // SAFETY: as above.
            for path in unsafe { paths(given.devices) }? {
                lists = lists.device(path);
            }
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
