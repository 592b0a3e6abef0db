//! Makes a volume of many small files, a thousand to a directory: `many_files IMAGE [FILES]`.
//!
//! A third of the files are empty, a third are inline, a third have one block of data.
use segno::{Device, FormatOptions, MountOptions, Volume};
use std::error::Error;
use std::path::Path;

/// Files of a directory.
const PER_DIR: u64 = 1000;
/// Bytes of the image for each file: its inode, a third of a block of data, its name, and room.
const BYTES: u64 = 7000;
/// Bytes of a volume without files.
const LEAST: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let image = args.first().ok_or("name an image file to make")?;
    let files: u64 = args.get(1).map_or(Ok(1_000_000), |n| n.parse())?;
    let device = Device::create(Path::new(image), (LEAST + files * BYTES).next_multiple_of(2 << 20))?;
    segno::format(&device, &FormatOptions::default())?;
    let volume = Volume::open_with(&device, &MountOptions::new())?;
    let block = [0x5a; 4096];
    for first in (0..files).step_by(PER_DIR as usize) {
        let dir = format!("d{:04}", first / PER_DIR);
        volume.create_dir(&dir)?;
        for i in first..files.min(first + PER_DIR) {
            let len = [0, 500, block.len()].get((i % 3) as usize).copied().unwrap_or(0);
            volume.write(format!("{dir}/file-{i:07}"), block.get(..len).unwrap_or_default())?;
        }
    }
    Ok(volume.close()?)
}
