//! Single properties of a node block.
use segno_format::dentry::DentryShape;
use segno_format::inode::RawInode;
use segno_format::node::RawNode;
use segno_format::{Block, Features};

/// Stores owner and place of a node.
pub(crate) fn set_footer(block: &mut Block, ino: u32, ofs: u32) {
    let footer = &mut block.view_mut::<RawNode>().footer;
    let marks = footer.flag.get() & 7;
    footer.ino.set(ino);
    footer.flag.set(ofs << 3 | marks);
}

/// Sets or clears the cold bit, which is clear in nodes of directories.
pub(crate) fn set_cold(block: &mut Block, cold: bool) {
    let flag = &mut block.view_mut::<RawNode>().footer.flag;
    flag.set(flag.get() & !1 | u32::from(cold));
}

/// Whether an inline area begins as that of a directory.
pub(crate) fn inline_dots(ino: u32, block: &Block, features: Features) -> bool {
    let raw: &RawInode = block.view();
    let Ok(layout) = raw.layout(features) else { return false };
    let area = block.0.get(layout.inline_range()).unwrap_or_default();
    let first = DentryShape::inline(&layout).entry_at(area, 0, 0);
    first.is_ok_and(|e| e.is_some_and(|e| e.name == b"." && e.ino.0 == ino))
}
