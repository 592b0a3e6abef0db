//! Attributes of an inode other than its content.
use crate::file::{File, Opened};
use crate::volume::Volume;
use segno_format::inode::{Inline, RawInode};
use segno_format::rdev;
use segno_format::xattr::{self, XATTR_NODE_BYTES};

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its kind.
    pub index: u8,
    /// Name without prefix.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

impl Attribute {
    /// The name as in system calls; `None` for attributes that system calls do not show.
    #[must_use]
    pub fn full_name(&self) -> Option<Vec<u8>> {
        xattr::full_name(self.index, &self.name)
    }
}

/// The attributes that can be read, and whether those were all.
#[must_use]
pub fn xattrs(volume: &Volume<'_>, file: &Opened) -> (Vec<Attribute>, bool) {
    let raw: &RawInode = file.raw();
    let mut area = Vec::new();
    if raw.inline().contains(Inline::XATTR) {
        area.extend_from_slice(file.block.0.get(file.layout.xattr_range()).unwrap_or_default());
    }
    let mut complete = true;
    if raw.i_xattr_nid.get() != 0 {
        let node = file.xattr.and_then(|n| volume.reader.block(n.place()));
        complete = node.is_some();
        area.extend(node.iter().flat_map(|b| b.0.iter().take(XATTR_NODE_BYTES)));
    }
    let mut out = Vec::new();
    for entry in xattr::iter(&area, file.node.ino) {
        match entry {
            Ok(e) => out.push(Attribute { index: e.index, name: e.name.to_vec(), value: e.value.to_vec() }),
            Err(_) => complete = false,
        }
    }
    (out, complete)
}

/// Major and minor of a device inode.
#[must_use]
pub fn device_number(file: &File) -> (u32, u32) {
    let word = |i| file.raw().slot(&file.layout, i).0;
    rdev::decode(word(0), word(1))
}
