//! sload.f2fs: fills a volume that was just made. As the original it works on volumes that nothing writes later, too, so the files are laid
//! out as `segno build` does it.
use super::call::Call;
use crate::commands::build;
use crate::confine::ConfineOption;
use crate::exit::{Outcome, WithCode};
use crate::image;
use anyhow::{Context, Result, anyhow, bail, ensure};
use segno::inspect;
use segno_device::{BlockDevice, Location, StorageKind, probe};
use segno_format::{BLOCK_SIZE, Features};
use segno_image::{BuildOptions, Compression, Metadata, Owner, Size, Source};
use segno_mkfs::MkfsOptions;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;

pub fn run(call: &Call) -> Outcome {
    let wrong = |e| WithCode(call.tool.usage, e);
    let image = PathBuf::from(call.device().map_err(wrong)?);
    let chosen = compression(call).map_err(wrong)?;
    let Some(dir) = call.value('f').map(PathBuf::from) else {
        eprintln!("segno: note: without -f DIRECTORY nothing is copied to {}", image.display());
        return Ok(ExitCode::SUCCESS);
    };
    ensure!(dir.is_dir(), "sload.f2fs: {} is not a directory", dir.display());
    let (volume, bytes) = made(&image)?;
    ensure!(
        chosen.is_none() || volume.features.contains(Features::COMPRESSION),
        "sload.f2fs: {} has no compression: `mkfs.f2fs -O extra_attr,compression` makes a volume with it",
        image.display()
    );
    let rules = rules(call, chosen)?;
    let options = options(call, volume, bytes, chosen, rules.as_ref().map(NamedTempFile::path))?;
    let job = build::Job { source: &Source::Directory(dir), image: &image, force: true, options: &options };
    build::make(&job, &ConfineOption::default())?;
    Ok(ExitCode::SUCCESS)
}

/// How the volume was made, which has no files, and its size.
fn made(image: &Path) -> Result<(MkfsOptions, u64)> {
    let named = image.display();
    let is_file =
        probe(image).is_ok_and(|s| s.kind == StorageKind::Regular) && !Location::of(image).is_part();
    ensure!(
        is_file,
        "sload.f2fs: {named} is not an image file: fill one, and copy it there, or use `segno put {named} DIRECTORY`"
    );
    let device = image::open(&[image.to_owned()], image::READ_ONLY)?;
    let sb = inspect::superblock(&*device)?;
    let pack = inspect::checkpoint(&*device, &sb)?;
    let files = pack.cp.valid_inode_count.get();
    let own = 1
        + sb.quota_inos().into_iter().flatten().count() as u32
        + u32::from(sb.features.contains(Features::LOST_FOUND));
    ensure!(
        files <= own && inspect::is_clean(&*device)?,
        "sload.f2fs: {named} has files already: `segno put {named} DIRECTORY` adds more"
    );
    let volume = MkfsOptions::like(&sb, &pack.cp, device.block_count())?;
    Ok((volume, device.block_count() * BLOCK_SIZE as u64))
}

/// Algorithm and clusters, if files are compressed.
fn compression(call: &Call) -> Result<Option<Compression>> {
    let further = ['L', 'a', 'i', 'x', 'r'].into_iter().find(|&letter| call.has(letter));
    if let (false, Some(letter)) = (call.has('c'), further) {
        bail!("sload.f2fs: -{letter} says how files are compressed: add -c");
    }
    ensure!(!(call.has('i') && call.has('x')), "sload.f2fs: -i and -x exclude each other");
    if !call.has('c') {
        return Ok(None);
    }
    let log = call.number('L')?.unwrap_or(Compression::LOG_BLOCKS.into());
    let log = u8::try_from(log).map_err(|_| anyhow!("sload.f2fs: -L {log} is none of 2 to 8"))?;
    let parsed = Compression::parse(call.text('a')?.unwrap_or("lz4"), log);
    parsed.map(Some).map_err(|why| anyhow!("sload.f2fs: {why}"))
}

/// A file with rules, if only some files are compressed.
fn rules(call: &Call, chosen: Option<Compression>) -> Result<Option<NamedTempFile>> {
    let Some(chosen) = chosen.filter(|_| call.has('i') || call.has('x')) else { return Ok(None) };
    let with = format!("{}", chosen.algorithm);
    let (all, some) = if call.has('i') { ("no", with.as_str()) } else { (with.as_str(), "no") };
    let mut text = format!(". compress={all} cluster={}\n", chosen.log_blocks);
    for extension in call.values('i').chain(call.values('x')).map(OsStr::to_string_lossy) {
        let is_plain = extension.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        ensure!(is_plain, "sload.f2fs: {extension:?} is not an extension of letters and digits");
        writeln!(text, "\\.{extension}$ compress={some} cluster={}", chosen.log_blocks)?;
    }
    let file = NamedTempFile::new().context("cannot make a file for the rules of compression")?;
    std::fs::write(file.path(), text).context("cannot write the rules of compression")?;
    Ok(Some(file))
}

fn options(
    call: &Call,
    volume: MkfsOptions,
    bytes: u64,
    compression: Option<Compression>,
    rules: Option<&Path>,
) -> Result<BuildOptions> {
    let paths = |letter| call.values(letter).flat_map(split).collect::<Vec<PathBuf>>();
    Ok(BuildOptions {
        volume,
        size: Size::Bytes(bytes),
        time: call.number('T')?,
        owner: if call.has('P') { Owner::Keep } else { Owner::All(0, 0) },
        compression,
        reserved: !call.has('r'),
        sparse: call.has('S'),
        metadata: Metadata {
            mount_point: call.text('t')?.unwrap_or("/").to_owned(),
            fs_config: call.value('C').map(PathBuf::from).into_iter().collect(),
            file_contexts: paths('s'),
            rules: rules.map(Path::to_owned).into_iter().collect(),
            ..Metadata::default()
        },
        ..BuildOptions::default()
    })
}

/// Names separated by commas.
fn split(value: &OsStr) -> impl Iterator<Item = PathBuf> {
    value.as_bytes().split(|&b| b == b',').map(|name| PathBuf::from(OsStr::from_bytes(name)))
}
