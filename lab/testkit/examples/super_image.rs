//! `super_image OUT VOLUME`: an Android super image whose partition `vendor_a` has a volume in two pieces, the second of which comes first.
use segno_testkit::super_image::{fill, super_image};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let (Some(out), Some(volume)) = (args.next(), args.next()) else {
        return Err(std::io::Error::other("OUT and VOLUME are needed"));
    };
    let volume = std::fs::read(volume)?;
    let (sectors, first) = (volume.len() as u64 / 512, 4096);
    let pieces = [(2048 + sectors, first, 0), (2048, sectors - first, 0)];
    let mut image =
        super_image(&[&[("vendor_a", 0, &pieces), ("vendor_b", 0, &[])]], volume.len() + (8 << 20));
    fill(&mut image, &pieces, &volume);
    std::fs::write(out, image)
}
