//! Files whose content may not be read or changed.
use super::rig::Rig;
use crate::error::{Error, Result};
use segno_format::Features;
use segno_format::inode::Advise;

#[test]
fn encrypted_and_sealed_files() {
    let rig = Rig::new(Features::empty());
    let inode = rig.create(b"f");
    let v = &rig.volume;
    assert_eq!(v.write(inode.ino, 0, b"data").unwrap(), 4);
    let advise = |a: Advise| {
        v.nodes.cache.modify_inode(&v.base.tx.begin(), &inode.frame, |i| i.i_advise = a.bits());
    };
    let forbidden = |r: Result<usize>| assert!(matches!(r, Err(Error::NotPermitted(_))), "{r:?}");
    advise(Advise::VERITY);
    assert_eq!(rig.read(inode.ino, 0, 9), b"data");
    forbidden(v.write(inode.ino, 0, b"x"));
    forbidden(rig.truncate(inode.ino, 0).map(|()| 0));
    advise(Advise::ENCRYPT);
    forbidden(v.read(inode.ino, 0, &mut [0; 9]));
    forbidden(v.write(inode.ino, 0, b"x"));
}
