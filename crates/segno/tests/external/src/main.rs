use segno::{Device, FormatOptions, MountOptions, Volume};
use std::io::Write;

fn main() -> std::io::Result<()> {
    let image = std::env::args_os().nth(1).ok_or(std::io::ErrorKind::InvalidInput)?;
    let device = Device::create(image, 64 << 20)?;
    segno::format(&device, &FormatOptions::default())?;
    let volume = Volume::open(&device)?;
    volume.create_dir("/letters")?;
    let mut file = volume.create_file("/letters/first")?;
    file.write_all(b"written from outside")?;
    file.sync_all()?;
    drop(file);
    assert_eq!(volume.read_to_string("/letters/first")?, "written from outside");
    volume.close()?;
    let compressed = "compress_algorithm=lz4".parse::<MountOptions>();
    assert!(compressed.is_err_and(|e| e.to_string().contains("compression is not built in")));
    assert!(segno::check(&device)?.is_clean());
    println!("formatted, written, read and checked");
    Ok(())
}
