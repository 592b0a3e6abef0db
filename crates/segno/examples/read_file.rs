//! Reads a file of an image in pieces of 1 MiB and prints the number of bytes: `read_file IMAGE PATH`.
use segno::{Device, MountOptions, Volume};
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(image), Some(path)) = (args.next(), args.next()) else {
        return Err("usage: read_file IMAGE PATH".into());
    };
    let device = Device::open_read_only(image)?;
    let volume = Volume::open_with(&device, &MountOptions::new().read_only(true).cache_bytes(64 << 20))?;
    let mut file = volume.open_file(&path)?;
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => bytes += n,
        }
    }
    println!("{bytes} bytes");
    Ok(())
}
