//! Damaged volumes: for any bytes the checker terminates, and the engine returns a result or an error.
//!
//! [`run`] takes volumes with one of everything, changes a few fields of structures it finds by decoding them, makes
//! the checksums right again half of the time, and runs the checker and a session of the engine on the result. A
//! violation is a panic, a device access without end, a write outside the device, more than 1 GiB of memory, or damage
//! reported on a volume in which the checker found nothing.
mod base;
#[cfg(test)]
mod corpus;
pub mod cuts;
mod decode;
mod draw;
mod edit;
mod fields;
pub mod fuzz;
mod guard;
pub mod repair;
mod ring;
mod salvage;
mod trial;
mod watch;
#[cfg(test)]
mod zoned;

pub use edit::{Edit, Image, Place, Value};
pub use salvage::Salvaged;
pub use trial::Outcome;
pub use watch::peak_kib;

use segno_device::{BlockDevice, MemDevice};
use segno_format::{BLOCK_SIZE, Block};
use segno_testkit::caught;
use serde::Serialize;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostileCounts {
    pub images: u64,
    /// Images in which the checker found nothing.
    pub clean: u64,
    /// Images that could be mounted, and unmounted after changes.
    pub mounted: u64,
    pub unmounted: u64,
    pub violations: u64,
}

impl HostileCounts {
    pub fn add(&mut self, other: &Self) {
        self.images += other.images;
        self.clean += other.clean;
        self.mounted += other.mounted;
        self.unmounted += other.unmounted;
        self.violations += other.violations;
    }
}

/// An image that broke a rule.
#[derive(Clone, Debug)]
pub struct HostileFinding {
    /// Repeats it together with the seed.
    pub number: u64,
    pub what: String,
    /// Minimal set of changes.
    pub image: Image,
}

/// Runs images by number. Each is a function of seed and number alone.
pub fn run(seed: u64, numbers: Range<u64>) -> Result<(HostileCounts, Vec<HostileFinding>), String> {
    let (mut counts, mut findings) = (HostileCounts::default(), Vec::new());
    for number in numbers {
        let image = image(seed, number)?;
        counts.images += 1;
        match run_image(&image) {
            Ok(outcome) => {
                counts.clean += u64::from(outcome.clean);
                counts.mounted += u64::from(outcome.mounted);
                counts.unmounted += u64::from(outcome.unmounted);
            }
            Err(what) => {
                counts.violations += 1;
                findings.push(HostileFinding { number, what, image: shrink(image) });
            }
        }
    }
    Ok((counts, findings))
}

/// The image of a number, as [`run`] takes it.
pub fn image(seed: u64, number: u64) -> Result<Image, String> {
    draw::image(base::bases()?, seed, number).ok_or_else(|| "no volumes".into())
}

/// The image that bytes stand for; `None` for too few of them.
pub fn image_of_bytes(input: &[u8]) -> Result<Option<Image>, String> {
    Ok(draw::of_bytes(base::bases()?, input))
}

/// Writes an image to a file, which is as sparse as the volume, for programs in other languages.
pub fn write_image(image: &Image, path: &Path) -> Result<(), String> {
    let base = find(&image.base)?;
    let device = MemDevice::from_snapshot(&base.image);
    base.layout.apply(&device, &image.edits, image.sealed)?;
    let text = |e: std::io::Error| format!("{}: {e}", path.display());
    let file = std::fs::File::create(path).map_err(text)?;
    file.set_len(device.block_count() * BLOCK_SIZE as u64).map_err(text)?;
    let mut block = [Block::zeroed()];
    for addr in device.filled() {
        device.read(addr, &mut block).map_err(text)?;
        file.write_all_at(&block[0].0, addr * BLOCK_SIZE as u64).map_err(text)?;
    }
    Ok(())
}

/// The volume with a name.
fn find(name: &str) -> Result<&'static base::Base, String> {
    let small = if name.starts_with("small") { base::small()? } else { base::bases()? };
    small.iter().find(|b| b.name == name).ok_or_else(|| format!("no base volume {name}"))
}

/// Runs one image; an error is a violation.
pub fn run_image(image: &Image) -> Result<Outcome, String> {
    let base = find(&image.base)?;
    watch::watched(image, || caught(|| trial::run(base, image)))
}

/// Checks one image, searches it for files and shows its structures; an error is a violation.
pub fn salvage_image(image: &Image) -> Result<Salvaged, String> {
    let base = find(&image.base)?;
    watch::watched(image, || caught(|| salvage::run(base, image)))
}

/// Removes changes while it remains a violation.
fn shrink(mut image: Image) -> Image {
    let mut at = 0;
    while at < image.edits.len() {
        let mut less = image.clone();
        less.edits.remove(at);
        if run_image(&less).is_err() {
            image = less;
        } else {
            at += 1;
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_volumes_pass() {
        for base in base::bases().unwrap() {
            for session in 0..40 {
                let image = Image { base: base.name.into(), edits: Vec::new(), sealed: false, session };
                let outcome = run_image(&image).unwrap_or_else(|e| panic!("{image}{e}"));
                assert!(outcome.clean && outcome.mounted && outcome.unmounted, "{image}{outcome:?}");
            }
        }
    }

    #[test]
    fn everything_is_found_and_shown() {
        for base in base::bases().unwrap() {
            let image = Image { base: base.name.into(), edits: Vec::new(), sealed: false, session: 0 };
            let found = salvage_image(&image).unwrap_or_else(|e| panic!("{image}{e}"));
            assert!(found.names > 160 && found.bytes > 4 << 20 && found.shown > 25, "{image}{found:?}");
        }
    }

    #[test]
    fn drawn_images_are_salvaged() {
        let mut names = 0;
        for number in 0..150 {
            let image = image(7, number).unwrap();
            let found =
                salvage_image(&image).unwrap_or_else(|e| panic!("seed 7, number {number}: {e}\n{image}"));
            names += found.names;
        }
        assert!(names > 150 * 100, "{names}");
    }

    /// A pack whose summaries begin at the largest number there is.
    #[test]
    fn summaries_behind_the_last_block() {
        salvage_image(&image(31, 6019).unwrap()).unwrap();
    }

    #[test]
    fn every_structure_has_fields() {
        for base in base::bases().unwrap() {
            let groups = &base.layout.groups;
            assert!(groups.len() >= 10, "{}: {} groups", base.name, groups.len());
            let chain = base.layout.places().filter(|p| matches!(p, Place::Chain(_))).count();
            let logged = matches!(base.name, "plain" | "features");
            assert_eq!(chain > 4, logged, "{}: a chain of {chain}", base.name);
            let journal = base.layout.places().filter(|p| matches!(p, Place::Journal(_))).count();
            assert_eq!(journal > 4, base.name == "journal", "{}: a journal of {journal}", base.name);
            assert_eq!(base.layout.places().any(|p| matches!(p, Place::Orphans(_))), logged, "{}", base.name);
        }
    }

    #[test]
    fn drawn_images() {
        let (counts, findings) = run(1, 0..600).unwrap();
        for f in &findings {
            println!("number {}: {}\n{}", f.number, f.what, f.image);
        }
        assert_eq!(counts.violations, 0);
        assert!(counts.mounted > 200 && counts.clean > 20 && counts.unmounted > 150, "{counts:?}");
    }

    #[test]
    fn saved_images() {
        let saved = corpus::load().unwrap();
        assert!(!saved.is_empty());
        for (name, image) in saved {
            run_image(&image).unwrap_or_else(|e| panic!("{name}: {e}\n{image}"));
        }
    }
}
