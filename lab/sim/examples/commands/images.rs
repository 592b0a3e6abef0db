//! Volumes with damaged structures, of the simulator; some are as large as their superblock may announce.
use segno_sim::hostile::{image, write_image};
use segno_testkit::Rng;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

/// Large enough for every geometry.
const HUGE: u64 = 15 << 40;
/// Each third image is huge.
const SHARE: u64 = 3;

/// Where the second device of the volume `joined` begins.
const FIRST_DEVICE: u64 = 48 << 20;

/// Makes the image, and in the second file the further device of a volume of two.
pub fn make(seed: u64, number: u64, path: &Path, member: &Path) -> Result<(), String> {
    let image = image(seed, number)?;
    write_image(&image, path)?;
    let text = |e: io::Error| format!("{}: {e}", path.display());
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(text)?;
    if image.base == "joined" {
        file.seek(SeekFrom::Start(FIRST_DEVICE)).map_err(text)?;
        io::copy(&mut file, &mut File::create(member).map_err(text)?).map_err(text)?;
        file.set_len(FIRST_DEVICE).map_err(text)?;
    } else if Rng::new(seed ^ number).one_in(SHARE) {
        file.set_len(HUGE).map_err(text)?;
    }
    Ok(())
}
