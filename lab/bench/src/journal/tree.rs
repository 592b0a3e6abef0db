//! A tree like that of source code: many small files, few large ones, in directories of a few dozen files.
use crate::work::fs::Fs;
use anyhow::Result;
use segno_testkit::Rng;

const WIDTH: u32 = 40;
const PIECE: usize = 1 << 20;

fn place(root: &str, n: u32) -> String {
    format!("{root}{}/file{n}.rs", n / WIDTH)
}

fn directories(files: u32) -> u32 {
    files.div_ceil(WIDTH)
}

/// Half of the files have up to 4 KiB, one in sixteen up to 256 KiB.
fn size(rng: &mut Rng) -> u64 {
    let most = match rng.below(16) {
        0..=7 => 4 << 10,
        8..=14 => 32 << 10,
        _ => 256 << 10,
    };
    rng.below(most) + 1
}

/// Makes the tree, durably.
pub fn make(fs: &dyn Fs, files: u32, seed: u64) -> Result<()> {
    let (mut rng, data) = (Rng::for_thread(seed, 0), vec![0x7e; 256 << 10]);
    for n in 0..directories(files) {
        fs.mkdir(&format!("from{n}"))?;
    }
    for n in 0..files {
        let size = size(&mut rng) as usize;
        fs.create(&place("from", n))?.write(0, data.get(..size).unwrap_or(&data))?;
    }
    fs.sync()
}

/// Copies it as `cp -r` does. Returns the number of files and directories.
pub fn copy(fs: &dyn Fs, files: u32) -> Result<u64> {
    let mut buffer = vec![0; PIECE];
    for n in 0..directories(files) {
        fs.mkdir(&format!("to{n}"))?;
    }
    for n in 0..files {
        let read = fs.open(&place("from", n))?.read(0, &mut buffer)?;
        fs.create(&place("to", n))?.write(0, buffer.get(..read).unwrap_or(&buffer))?;
    }
    Ok(u64::from(files + directories(files)))
}
