//! The volume id of an image that was not given one.
use crate::tree::{Entry, Kind, Tree};
use segno_mkfs::MkfsOptions;
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;

/// A UUID of version 8, a hash over the options and all names and attributes. Content is not included: it is read once,
/// and checksums of inodes depend on the id.
pub(crate) fn derived(tree: &Tree, options: &MkfsOptions) -> [u8; 16] {
    let mut hash = Sha256::new();
    field(&mut hash, format!("{options:?}").as_bytes());
    for entry in &tree.entries {
        add(&mut hash, entry);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut uuid = [0; 16];
    uuid.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut uuid;
    *version = *version & 0x0F | 0x80;
    *variant = *variant & 0x3F | 0x80;
    uuid
}

/// The version of the first checkpoint: odd, as those of mkfs.f2fs, and with room to grow.
pub(crate) fn checkpoint_ver(uuid: &[u8; 16]) -> u32 {
    let [a, b, c, d, ..] = *uuid;
    u32::from_le_bytes([a, b, c, d]) & 0x7FFF_FFFF | 1
}

fn add(hash: &mut Sha256, entry: &Entry) {
    field(hash, entry.path.as_os_str().as_bytes());
    for number in [entry.mode.into(), entry.uid, entry.gid, entry.time.nsec] {
        hash.update(number.to_le_bytes());
    }
    hash.update(entry.time.secs.to_le_bytes());
    match &entry.kind {
        Kind::Directory => field(hash, b"directory"),
        Kind::File(source) => hash.update(source.size.to_le_bytes()),
        Kind::Symlink(target) => field(hash, target.as_bytes()),
        Kind::Special { format, numbers: (major, minor) } => {
            [u32::from(*format), *major, *minor].iter().for_each(|n| hash.update(n.to_le_bytes()));
        }
        Kind::Link(first) => hash.update((*first as u64).to_le_bytes()),
    }
    for (name, value) in &entry.xattrs {
        field(hash, name);
        field(hash, value);
    }
}

/// With its length, so that no two lists of fields are the same bytes.
fn field(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
