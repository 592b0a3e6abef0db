//! A build from source to image.
use crate::options::BuildOptions;
use crate::progress::Progress;
use crate::source::OpenSource;
use crate::tree::{Choice, Index, Inode, Kind, Names, ROOT, Tree};
use crate::write::Report;
use crate::{Error, Result, identity, meta, order, sparse, write};
use segno_codec::casefold;
use segno_engine::Time;
use segno_format::dentry::LOST_FOUND;
use segno_format::inode::{InodeFlags, max_file_size};
use segno_format::{ADDRS_PER_BLOCK, Features, text};
use segno_mkfs::MkfsOptions;
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

/// Builds an image in the regular file `image`, which exists and is overwritten, from a source that was
/// opened with the same options. After an error the content of the file is not usable. Only these are opened:
/// `image`, an unnamed file in its directory, the directory of the source with everything below it, and files
/// that the options name.
pub fn build(
    source: OpenSource,
    image: &Path,
    options: &BuildOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report> {
    let mut mkfs = volume_features(options)?;
    let mut tree = source.read(options)?;
    let mut notes = std::mem::take(&mut tree.notes);
    if mkfs.has(Features::LOST_FOUND) {
        add_lost_found(&mut tree)?;
    }
    let mut tree = tree.in_order()?;
    notes.extend(meta::apply(&mut tree, options)?);
    check_features(&tree, &mkfs)?;
    set_times(&mut tree, &mut mkfs, options);
    let uuid = mkfs.uuid.unwrap_or_else(|| identity::derived(&tree, &mkfs, options));
    (mkfs.uuid, mkfs.checkpoint_ver) = (Some(uuid), Some(identity::checkpoint_ver(&uuid)));
    let order = order::of_data(&tree, options.order.as_deref())?;
    let open = |path: &Path| {
        let file = File::options().read(true).write(true).open(path);
        file.map_err(|e| Error::host("write", path, e))
    };
    let target = open(image)?;
    let report = if options.sparse {
        let raw = sparse::scratch(&target, image)?;
        let (report, used) = write::write(&tree, &mkfs, options, order, (&raw, image), progress)?;
        sparse::pack(&raw, report.image_bytes, &used, (&target, image))?;
        report
    } else {
        write::write(&tree, &mkfs, options, order, (&target, image), progress)?.0
    };
    Ok(Report { notes, ..report })
}

/// How to format, with the features that the options need.
fn volume_features(options: &BuildOptions) -> Result<MkfsOptions> {
    let mut mkfs = MkfsOptions { discard: Some(false), ..options.volume.clone() };
    if options.compression.is_some() {
        mkfs.features |= Features::EXTRA_ATTR | Features::COMPRESSION;
    }
    if mkfs.zoned {
        return Err(Error::Options("images of zoned volumes cannot be built".into()));
    }
    Ok(mkfs)
}

fn add_lost_found(tree: &mut Tree) -> Result<()> {
    if !tree.names(ROOT)?.contains_key(LOST_FOUND) {
        let time = tree.get(ROOT)?.time;
        let index = tree.add(Inode::directory(0o700, time));
        tree.link(ROOT, LOST_FOUND, index)?;
    }
    Ok(())
}

/// Refuses what the volume has no place for.
fn check_features(tree: &Tree, mkfs: &MkfsOptions) -> Result<()> {
    for (index, inode) in tree.inodes.iter().enumerate() {
        if let Kind::File(content) = &inode.kind
            && content.size > max_file_size(ADDRS_PER_BLOCK)
        {
            let why = format!("it has {} bytes, more than a file of F2FS can have", content.size);
            return Err(Error::entry(tree.host_path(index), why));
        }
        if let Kind::Directory(names) = &inode.kind
            && inode.flags.contains(InodeFlags::CASEFOLD)
        {
            check_folded(tree, index, names)?;
        }
        let refuse = |why: &str| Err(Error::entry(tree.host_path(index), why));
        if inode.projid != 0 && !mkfs.has(Features::PRJQUOTA) {
            return refuse("it has a project id: add -O extra_attr,project_quota");
        }
        if inode.flags.contains(InodeFlags::CASEFOLD) && !mkfs.has(Features::CASEFOLD) {
            return refuse("it ignores case: add -C utf8");
        }
        if inode.compress.is_some_and(|c| c != Choice::Plain)
            && !mkfs.has(Features::COMPRESSION | Features::EXTRA_ATTR)
        {
            return refuse("a rule compresses it: add -O extra_attr,compression");
        }
    }
    Ok(())
}

/// In a directory that ignores case, names must differ in more than case.
fn check_folded(tree: &Tree, dir: Index, names: &Names) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names.keys() {
        let mut folded = Vec::new();
        // Names that are not UTF-8 are compared unchanged.
        if casefold(name, &mut folded).is_err() {
            folded = name.to_vec();
        }
        if !seen.insert(folded) {
            let name = text::name(name);
            let why = format!("it ignores case, and {name} differs from another name in nothing else");
            return Err(Error::entry(tree.host_path(dir), why));
        }
    }
    Ok(())
}

/// Gives all inodes their one time, and the volume that of the root.
fn set_times(tree: &mut Tree, mkfs: &mut MkfsOptions, options: &BuildOptions) {
    for inode in &mut tree.inodes {
        inode.time = options.time_of(inode.time);
    }
    let root = tree.inodes.first().map_or(Time::default(), |r| r.time);
    let time = options.time.or(mkfs.timestamp).or_else(|| u64::try_from(root.secs).ok());
    mkfs.timestamp = Some(time.unwrap_or(0));
}
