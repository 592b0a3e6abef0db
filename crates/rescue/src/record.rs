//! The inodes that may be live, one record each.
use crate::file::File;
use crate::scan::Candidate;
use crate::volume::{Checked, Volume};
use segno_format::dentry::FileType;

/// An inode that may be live.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The version that counts.
    pub node: Candidate,
    /// File type.
    pub kind: FileType,
    /// Directory of the name that the inode stores.
    pub pino: u32,
    /// Bytes.
    pub size: u64,
    /// Names, as stored.
    pub links: u32,
    /// State of its checksum.
    pub checked: Checked,
    /// Whether NAT or roll-forward chain names this version.
    pub named: bool,
    /// Whether a newer version was passed over because it is damaged.
    pub old: bool,
}

/// Records in the order of inode numbers.
pub(crate) fn all(volume: &Volume<'_>) -> Vec<Record> {
    let mut inos: Vec<u32> = volume.nodes.inodes().map(|n| n.nid).collect();
    // Inodes are read in the order of their places.
    inos.sort_by_cached_key(|&ino| volume.live(ino, Candidate::is_inode).map(|(n, _)| n.addr));
    let mut out: Vec<Record> = inos.into_iter().filter_map(|ino| of(volume, ino)).collect();
    out.sort_unstable_by_key(|r| r.node.nid);
    out
}

/// The record of an inode: of the newest version whose checksum is not wrong, or else of the newest.
fn of(volume: &Volume<'_>, ino: u32) -> Option<Record> {
    let (first, named) = volume.live(ino, Candidate::is_inode)?;
    let newest = File::read(volume, &first);
    if let Some(file) = newest.as_ref().filter(|f| f.checked != Checked::Wrong) {
        return Some(record(file, named, false));
    }
    let older =
        volume.nodes.of(ino).filter(|n| n.is_inode() && volume.nodes.age(n) < volume.nodes.age(&first));
    let same = older.filter(|n| n.generation == first.generation || newest.is_none());
    let sound = same.filter_map(|n| File::read(volume, n)).find(|f| f.checked != Checked::Wrong);
    match (sound, newest) {
        (Some(file), _) => Some(record(&file, false, true)),
        (None, Some(file)) => Some(record(&file, named, false)),
        (None, None) => None,
    }
}

fn record(file: &File, named: bool, old: bool) -> Record {
    let raw = file.raw();
    Record {
        node: file.node,
        kind: FileType::of_mode(raw.i_mode.get()),
        pino: raw.i_pino.get(),
        size: raw.i_size.get(),
        links: raw.i_links.get(),
        checked: file.checked,
        named,
        old,
    }
}
