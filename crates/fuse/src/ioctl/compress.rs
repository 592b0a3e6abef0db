//! Ioctls of F2FS on compressed files. F2FS demands a descriptor open for writing, which FUSE does not report: the owner of a
//! file may change it in these ways.
use super::{Ioctl, changes_inode, reads};
use crate::authority::Who;
use segno_engine::Error;

const GET_BLOCKS: u32 = 0x8008_f511;
const RELEASE: u32 = 0x8008_f512;
const RESERVE: u32 = 0x8008_f513;
const GET_OPTION: u32 = 0x8002_f515;
const SET_OPTION: u32 = 0x4002_f516;
const DECOMPRESS: u32 = 0xf517;
const COMPRESS: u32 = 0xf518;

pub(crate) const TABLE: &[Ioctl] = &[
    reads(GET_BLOCKS, |s, ino, _| s.volume.compress_blocks(ino).map(count)),
    reads(GET_OPTION, |s, ino, _| s.volume.compress_option(ino).map(|(a, log)| vec![a, log])),
    changes_inode(RELEASE, Who::Owner, |s, ino, _| s.volume.release_compress_blocks(ino).map(count)),
    changes_inode(RESERVE, Who::Owner, |s, ino, _| s.volume.reserve_compress_blocks(ino).map(count)),
    changes_inode(SET_OPTION, Who::Owner, |s, ino, input| match *input {
        [algorithm, log, ..] => s.volume.set_compress_option(ino, algorithm, log).map(|()| Vec::new()),
        _ => Err(Error::Invalid("ioctl argument too short")),
    }),
    changes_inode(DECOMPRESS, Who::Owner, |s, ino, _| {
        s.volume.rewrite_compressed(ino, false).map(|()| Vec::new())
    }),
    changes_inode(COMPRESS, Who::Owner, |s, ino, _| {
        s.volume.rewrite_compressed(ino, true).map(|()| Vec::new())
    }),
];

fn count(blocks: u64) -> Vec<u8> {
    blocks.to_le_bytes().to_vec()
}
