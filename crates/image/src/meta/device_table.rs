//! Device tables, as makedevs of Buildroot and Yocto reads them: special files, owners and modes.
use super::escape::unescaped;
use super::fs_config::CAPABILITY;
use super::manifest::split;
use super::{Line, read, rows};
use crate::Result;
use crate::options::BuildOptions;
use crate::tree::{Index, Inode, Kind, ROOT, Tree};
use segno_engine::Time;
use segno_format::dentry::FileType;
use std::path::Path;

/// Files that one line makes: a table is short, whatever it names, and each file takes memory.
const MOST_FILES: u32 = 1 << 16;

/// A line: `PATH TYPE MODE UID GID MAJOR MINOR START INC COUNT`.
struct Row {
    path: Vec<u8>,
    kind: u8,
    mode: u16,
    uid: u32,
    gid: u32,
    major: u32,
    minor: u32,
    start: u32,
    step: u32,
    count: u32,
}

/// Applies one table.
pub(super) fn apply(tree: &mut Tree, file: &Path, options: &BuildOptions) -> Result<()> {
    let bytes = read(file)?;
    let time = options.time_of(tree.get(ROOT)?.time);
    let mut last = Vec::new();
    for line in rows(file, &bytes) {
        let text = String::from_utf8_lossy(line.text);
        if let Some(capabilities) = text.trim_start().strip_prefix("|xattr ") {
            let value = super::rules::capabilities(capabilities.trim());
            let value = value.map_err(|why| line.error(why))?;
            for &index in &last {
                tree.get_mut(index)?.xattrs.insert(CAPABILITY.to_vec(), value.clone());
            }
            continue;
        }
        last = row(tree, &line, &parse(&line)?, time)?;
    }
    Ok(())
}

fn parse(line: &Line<'_>) -> Result<Row> {
    let text = std::str::from_utf8(line.text).map_err(|_| line.error("it is not UTF-8"))?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let [path, kind, mode, numbers @ ..] = &fields[..] else {
        return Err(line.error("it is not PATH TYPE MODE UID GID MAJOR MINOR START INC COUNT"));
    };
    let number = |i: usize, name: &str| match numbers.get(i).copied() {
        None | Some("-") => Ok(0),
        Some(text) => text.parse().map_err(|_| line.error(format!("{name} {text:?} is no number"))),
    };
    let [kind] = kind.as_bytes() else { return Err(line.error(format!("type {kind:?} has one letter"))) };
    let mode = u16::from_str_radix(mode, 8).map_err(|_| line.error(format!("mode {mode:?} is not octal")))?;
    Ok(Row {
        path: unescaped(path.trim_matches('/').as_bytes()),
        kind: *kind,
        mode: mode & 0o7777,
        uid: number(0, "user")?,
        gid: number(1, "group")?,
        major: number(2, "major")?,
        minor: number(3, "minor")?,
        start: number(4, "start")?,
        step: number(5, "increment")?,
        count: number(6, "count")?,
    })
}

/// The inodes that a row concerns.
fn row(tree: &mut Tree, line: &Line<'_>, row: &Row, time: Time) -> Result<Vec<Index>> {
    let shown = || format!("/{}", super::escaped_path(&row.path));
    let existing = tree.find(&row.path);
    let found = match row.kind {
        b'f' | b'r' => vec![existing.ok_or_else(|| line.error(format!("{} does not exist", shown())))?],
        b'F' => existing.into_iter().collect(),
        b'd' => vec![match existing {
            Some(index) if tree.is_dir(index) => index,
            Some(_) => return Err(line.error(format!("{} is no directory", shown()))),
            None => make(tree, line, &row.path, Inode::directory(row.mode, time))?,
        }],
        b'c' | b'b' | b'p' => special(tree, line, row, time)?,
        kind => return Err(line.error(format!("type {:?} is not one of f F d r c b p", char::from(kind)))),
    };
    let all = match found.first() {
        Some(&index) if row.kind == b'r' => below(tree, index)?,
        _ => found,
    };
    for &index in &all {
        let inode = tree.get_mut(index)?;
        (inode.uid, inode.gid, inode.mode) = (row.uid, row.gid, row.mode);
    }
    Ok(all)
}

/// An inode and everything below it.
fn below(tree: &Tree, index: Index) -> Result<Vec<Index>> {
    let mut all = vec![index];
    let mut at = 0;
    while let Some(&next) = all.get(at) {
        if tree.is_dir(next) {
            all.extend(tree.names(next)?.values());
        }
        at += 1;
    }
    Ok(all)
}

/// Makes devices or a FIFO; with a count their names are the path and a number.
fn special(tree: &mut Tree, line: &Line<'_>, row: &Row, time: Time) -> Result<Vec<Index>> {
    let kind = match row.kind {
        b'c' => FileType::CharDevice,
        b'b' => FileType::BlockDevice,
        _ => FileType::Fifo,
    };
    if row.count > MOST_FILES {
        return Err(
            line.error(format!("{} files in one line are too many: up to {MOST_FILES} are made", row.count))
        );
    }
    let mut made = Vec::new();
    for i in 0..row.count.max(1) {
        let mut path = row.path.clone();
        let out_of_range = || line.error("a number is out of range");
        let step = row.step.checked_mul(i).ok_or_else(out_of_range)?;
        if row.count > 0 {
            let number = row.start.checked_add(i).ok_or_else(out_of_range)?;
            path.extend_from_slice(number.to_string().as_bytes());
        }
        let minor = row.minor.checked_add(step).ok_or_else(out_of_range)?;
        let numbers = if kind == FileType::Fifo { (0, 0) } else { (row.major, minor) };
        let inode = Inode::new(Kind::Special { kind, numbers }, row.mode, time);
        made.push(make(tree, line, &path, inode)?);
    }
    Ok(made)
}

/// Adds an inode whose directory exists; it replaces what has its name, but no directory.
fn make(tree: &mut Tree, line: &Line<'_>, path: &[u8], inode: Inode) -> Result<Index> {
    let (dir, name) = split(path);
    let shown = super::escaped_path(path);
    let parent = tree.find(dir).filter(|&i| tree.is_dir(i));
    let parent = parent.ok_or_else(|| line.error(format!("the directory of /{shown} does not exist")))?;
    if name.is_empty() || tree.find(path).is_some_and(|i| tree.is_dir(i)) {
        return Err(line.error(format!("/{shown} is a directory")));
    }
    let index = tree.add(inode);
    tree.link(parent, name, index).map_err(|e| line.error(e.to_string()))?;
    Ok(index)
}
