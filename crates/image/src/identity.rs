//! The volume id of an image that was not given one.
use crate::options::BuildOptions;
use crate::tree::{Index, Inode, Kind, Tree};
use segno_mkfs::MkfsOptions;
use sha2::{Digest, Sha256};

/// A UUID of version 8, a hash over the options and all names and attributes. Content is not included: it is
/// read once, and checksums of inodes depend on the id.
pub(crate) fn derived(tree: &Tree, volume: &MkfsOptions, options: &BuildOptions) -> [u8; 16] {
    let mut hash = Sha256::new();
    field(&mut hash, format!("{volume:?}").as_bytes());
    field(&mut hash, format!("{:?} {}", options.compression, options.reserved).as_bytes());
    for inode in &tree.inodes {
        add(&mut hash, inode);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut uuid = [0; 16];
    uuid.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut uuid;
    *version = *version & 0x0F | 0x80;
    *variant = *variant & 0x3F | 0x80;
    uuid
}

/// The version of the first checkpoint: odd, like the versions of mkfs.f2fs, and with room to grow.
pub(crate) fn checkpoint_ver(uuid: &[u8; 16]) -> u32 {
    let [a, b, c, d, ..] = *uuid;
    u32::from_le_bytes([a, b, c, d]) & 0x7FFF_FFFF | 1
}

fn add(hash: &mut Sha256, inode: &Inode) {
    let numbers =
        [inode.mode.into(), inode.uid, inode.gid, inode.time.nsec, inode.flags.bits(), inode.projid];
    numbers.iter().for_each(|n: &u32| hash.update(n.to_le_bytes()));
    hash.update(inode.time.secs.to_le_bytes());
    field(hash, format!("{:?}", inode.compress).as_bytes());
    match &inode.kind {
        Kind::Directory(names) => {
            number(hash, names.len());
            for (name, index) in names {
                field(hash, name);
                number(hash, *index);
            }
        }
        Kind::File(content) => hash.update(content.size.to_le_bytes()),
        Kind::Symlink(target) => field(hash, target),
        Kind::Special { numbers: (major, minor), .. } => {
            [u32::from(inode.kind.format()), *major, *minor]
                .iter()
                .for_each(|n| hash.update(n.to_le_bytes()));
        }
    }
    number(hash, inode.xattrs.len());
    for (name, value) in &inode.xattrs {
        field(hash, name);
        field(hash, value);
    }
}

fn number(hash: &mut Sha256, number: Index) {
    hash.update((number as u64).to_le_bytes());
}

/// With its length, so that no two lists of fields are the same bytes.
fn field(hash: &mut Sha256, bytes: &[u8]) {
    number(hash, bytes.len());
    hash.update(bytes);
}
