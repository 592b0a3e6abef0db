//! Packs a directory into a compressed read-only image and unpacks it again: `pack DIR IMAGE BACK`.
use segno::{BuildOptions, Compression, ExtractOptions, Features, FormatOptions};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, image, back] = &args[..] else { return Err("usage: pack DIR IMAGE BACK".into()) };

    let lz4 = Compression::parse("lz4", Compression::LOG_BLOCKS)?;
    let volume = FormatOptions { label: "packed".into(), features: Features::RO, ..Default::default() };
    let options = BuildOptions { volume, compression: Some(lz4), ..Default::default() };
    let report = segno::build(dir, image, &options)?;
    println!("{} files in {} bytes, {} saved", report.files, report.image_bytes, report.saved_bytes);

    let report = segno::extract(image, back, &ExtractOptions::default())?;
    println!("{} files, {} bytes of data", report.files, report.bytes);
    Ok(())
}
