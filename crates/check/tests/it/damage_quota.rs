//! Damage in quota files, one per rule.
use crate::damage::run;
use crate::edit::Edit;
use segno_check::Kind;
use zerocopy::little_endian::U32;

/// Changes a block of the file for users.
fn change(e: &Edit, b: u32, change: impl FnOnce(&mut segno_format::Block)) {
    let addr = e.slot(e.sb.quota_inos()[0].unwrap(), b);
    let mut block = e.block(addr);
    change(&mut block);
    e.put(addr, &block);
}

/// The header and four levels of the tree come before the first block of records.
const LEAF: usize = 1024;

#[test]
fn quota() {
    run(&[
        ("inodes of an id", &[Kind::Quota], |e| e.charge(1, 0)),
        ("blocks of an id", &[Kind::Quota], |e| e.charge(0, -1)),
        ("id without a record", &[Kind::Quota], |e| e.inode(e.lookup("small"), |n| n.i_uid = U32::new(1000))),
        ("magic number", &[Kind::Quota], |e| change(e, 0, |b| b.0[0] ^= 1)),
        // Linux does not enable quotas with such lists; fsck.f2fs finds nothing.
        ("free block in the header", &[Kind::Quota], |e| change(e, 0, |b| b.set_u32_at(24, 0x7fff_ffff))),
        ("block with free records in the header", &[Kind::Quota], |e| change(e, 0, |b| b.set_u32_at(28, 1))),
        ("neighbour of a block with free records", &[Kind::Quota], |e| {
            change(e, 1, |b| b.set_u32_at(LEAF, 0x7fff_ffff));
        }),
        ("number of records in a block", &[Kind::Quota], |e| change(e, 1, |b| b.0[LEAF + 8] += 1)),
        ("tree in a circle", &[Kind::Quota], |e| change(e, 0, |b| b.set_u32_at(1024, 1))),
    ]);
}
