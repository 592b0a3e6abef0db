//! Images of whole trees.
use crate::args::VolumePath;
use crate::error::os_error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use segno::{
    BuildOptions, Compression, ExtractOptions, Features, FormatOptions, ImageMetadata, ImageSize, Owner,
    Preserve,
};
use std::ffi::OsString;
use std::path::PathBuf;

/// Bytes of the image and free in it; files; bytes of content; compressed files and bytes that this saves; id; notes.
type Built = (u64, u64, u64, u64, u64, u64, [u8; 16], Vec<String>);

/// Makes an image.
#[pyfunction(name = "_build")]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn build(
    py: Python<'_>,
    source: VolumePath,
    image: VolumePath,
    size: Option<u64>,
    label: &str,
    uuid: Option<[u8; 16]>,
    time: Option<u64>,
    source_date_epoch: Option<u64>,
    owner: Option<(u32, u32)>,
    compress: Option<&str>,
    log_cluster: u8,
    flags: (bool, bool, bool),
    manifest: Option<VolumePath>,
    journal: Option<VolumePath>,
    devices: Vec<VolumePath>,
) -> PyResult<Built> {
    let (read_only, sparse, force) = flags;
    let parse = |text| Compression::parse(text, log_cluster);
    let options = BuildOptions {
        volume: FormatOptions {
            label: label.to_owned(),
            uuid,
            features: if read_only { Features::RO } else { Features::empty() },
            ..FormatOptions::default()
        },
        size: size.map_or_else(ImageSize::default, ImageSize::Bytes),
        time,
        latest: source_date_epoch,
        owner: owner.map_or(Owner::Keep, |(uid, gid)| Owner::All(uid, gid)),
        compression: compress.map(parse).transpose().map_err(PyValueError::new_err)?,
        sparse,
        metadata: ImageMetadata { manifest: manifest.map(PathBuf::from), ..ImageMetadata::default() },
        journal: journal.map(PathBuf::from),
        devices: devices.into_iter().map(PathBuf::from).collect(),
        ..BuildOptions::default()
    };
    let make = || match force {
        true => segno::rebuild(&source, &image, &options),
        false => segno::build(&source, &image, &options),
    };
    let report = py.detach(|| segno::catch_panic(make)).map_err(|e| os_error(&e))?;
    Ok((
        report.image_bytes,
        report.free_bytes,
        report.files,
        report.content_bytes,
        report.compressed_files,
        report.saved_bytes,
        report.uuid,
        report.notes,
    ))
}

/// Files, bytes of content, paths that are stored under other names, the number of files with metadata that is not stored, and
/// counts of properties that were left out, by the words that preserve them.
type Taken = (u64, u64, Vec<(OsString, OsString)>, u64, [(&'static str, u64); 4]);

/// Takes the tree out of an image, into a directory or a new tar archive.
#[pyfunction(name = "_extract")]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn extract(
    py: Python<'_>,
    image: VolumePath,
    target: VolumePath,
    tar: bool,
    path: VolumePath,
    manifest: Option<VolumePath>,
    journal: Option<VolumePath>,
    devices: Vec<VolumePath>,
    preserve: Vec<String>,
) -> PyResult<Taken> {
    let parsed = preserve.iter().map(|word| Preserve::parse(word)).collect::<Result<Vec<_>, _>>();
    let preserve =
        parsed.map_err(PyValueError::new_err)?.into_iter().fold(Preserve::empty(), |all, p| all | p);
    let options = ExtractOptions {
        path: path.into(),
        manifest: manifest.map(PathBuf::from),
        journal: journal.map(PathBuf::from),
        devices: devices.into_iter().map(PathBuf::from).collect(),
        preserve,
        ..ExtractOptions::default()
    };
    let take = || match tar {
        true => segno::extract_tar_file(&image, &target, &options),
        false => segno::extract(&image, &target, &options),
    };
    let report = py.detach(|| segno::catch_panic(take)).map_err(|e| os_error(&e))?;
    let renamed = report.renamed.into_iter().map(|(name, host)| (name.into(), host.into()));
    Ok((report.files, report.bytes, renamed.collect(), report.incomplete, report.left_out.counts()))
}
