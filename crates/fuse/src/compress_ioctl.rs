//! Ioctls of F2FS on compressed files.
use segno_engine::{Error, Result, Volume};
use segno_format::Ino;

const GET_BLOCKS: u32 = 0x8008_f511;
const RELEASE: u32 = 0x8008_f512;
const RESERVE: u32 = 0x8008_f513;
const GET_OPTION: u32 = 0x8002_f515;
const SET_OPTION: u32 = 0x4002_f516;
const DECOMPRESS: u32 = 0xf517;
const COMPRESS: u32 = 0xf518;

/// Whether an ioctl changes the number of blocks of a file.
pub(crate) fn changes_attributes(cmd: u32) -> bool {
    matches!(cmd, RELEASE | RESERVE | COMPRESS | DECOMPRESS)
}

/// Executes an ioctl; `None` if it is not one of these.
pub(crate) fn run(volume: &Volume, uid: u32, ino: Ino, cmd: u32, input: &[u8]) -> Option<Result<Vec<u8>>> {
    let count = |blocks: u64| blocks.to_le_bytes().to_vec();
    match cmd {
        GET_BLOCKS => return Some(volume.compress_blocks(ino).map(count)),
        GET_OPTION => return Some(volume.compress_option(ino).map(|(a, log)| vec![a, log])),
        RELEASE | RESERVE | SET_OPTION | DECOMPRESS | COMPRESS => {}
        _ => return None,
    }
    Some(may_change(volume, uid, ino).and_then(|()| match (cmd, input) {
        (RELEASE, _) => volume.release_compress_blocks(ino).map(count),
        (RESERVE, _) => volume.reserve_compress_blocks(ino).map(count),
        (SET_OPTION, &[algorithm, log, ..]) => {
            volume.set_compress_option(ino, algorithm, log).map(|()| Vec::new())
        }
        (SET_OPTION, _) => Err(Error::Invalid("ioctl argument too short")),
        _ => volume.rewrite_compressed(ino, cmd == COMPRESS).map(|()| Vec::new()),
    }))
}

/// F2FS demands a descriptor open for writing, which FUSE does not report: only the owner and root may change a file in this way.
fn may_change(volume: &Volume, uid: u32, ino: Ino) -> Result<()> {
    if uid == 0 || volume.getattr(ino)?.uid == uid {
        return Ok(());
    }
    Err(Error::NotPermitted("only the owner of a file and root may change its compression"))
}
