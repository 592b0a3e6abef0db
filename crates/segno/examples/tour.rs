//! Formats an image file, writes, reads, lists and checks it: `tour [IMAGE]`.
use segno::{Device, FormatOptions, OpenOptions, SetMetadata, Volume};
use std::error::Error;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let image = std::env::args_os().nth(1).map_or_else(|| dir.path().join("tour.img"), PathBuf::from);
    let device = Device::create(&image, 128 << 20)?;
    segno::format(&device, &FormatOptions { label: "tour".into(), ..Default::default() })?;

    let volume = Volume::open(&device)?;
    volume.create_dir_all("/music/scores")?;
    volume.write("/music/scores/segno", "al segno")?;
    let mut log = volume.open_file_with("/log", &OpenOptions::new().append(true).create(true))?;
    writeln!(log, "one line")?;
    writeln!(log, "another")?;
    log.sync_all()?;
    drop(log);

    let mut file = volume.create_file("/sparse")?;
    file.seek(SeekFrom::Start(1 << 30))?;
    file.write_all(b"end")?;
    file.seek(SeekFrom::Start((1 << 30) - 2))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    println!("/sparse ends with {tail:?} and takes {} KiB", file.metadata()?.blocks() / 2);
    drop(file);

    volume.set_metadata("/log", &SetMetadata::new().mode(0o600).owner(1000, 1000))?;
    volume.set_xattr("/log", "user.kind", b"text")?;
    volume.symlink("scores/segno", "/music/link")?;
    println!("/music/link leads to {}", volume.canonicalize("/music/link")?.display());
    volume.rename("/music/scores", "/scores")?;
    for entry in volume.walk("/")? {
        let entry = entry?;
        println!("{:>10} {:?} {}", entry.metadata()?.len(), entry.file_type(), entry.path().display());
    }
    volume.close()?;

    let report = segno::check(&device)?;
    println!("{} files, {} errors", report.summary.files, report.errors);
    if report.is_clean() { Ok(()) } else { Err("the volume is damaged".into()) }
}
