//! Space taken by each directory at the top of an image: `usage IMAGE [PATH]`.
use segno::{Device, MountOptions, Volume};
use std::collections::BTreeSet;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let image = args.next().ok_or("usage: usage IMAGE [PATH]")?;
    let path = args.next().unwrap_or_else(|| "/".into());
    let device = Device::open_read_only(image)?;
    let volume = Volume::open_with(&device, &MountOptions::new().background(false))?;
    // Files with several names count once.
    let mut seen = BTreeSet::new();
    for entry in volume.read_dir(&path)? {
        let entry = entry?;
        let mut blocks = entry.metadata()?.blocks();
        if entry.metadata()?.is_dir() {
            for below in volume.walk(entry.path())? {
                let found = below?.metadata()?;
                if seen.insert(found.ino()) {
                    blocks += found.blocks();
                }
            }
        }
        println!("{:>10} KiB  {}", blocks / 2, entry.path().display());
    }
    let all = volume.statfs();
    println!("{:>10} KiB  free", all.blocks_free * all.block_size / 1024);
    Ok(())
}
