//! Writes manual pages and completions for the shells: `cargo run -p segno-lab --example manual -- DIR`. The date of the pages is
//! SOURCE_DATE_EPOCH, seconds since 1970, or today.
mod generated;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dir: PathBuf = env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: manual DIR"))?.into();
    let given = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for page in generated::pages(given.unwrap_or(now)) {
        let place = dir.join(format!("man/man{}", page.section));
        fs::create_dir_all(&place)?;
        fs::write(place.join(format!("{}.{}", page.name, page.section)), page.text)?;
    }
    let place = dir.join("completions");
    fs::create_dir_all(&place)?;
    for (file, text) in generated::completions()? {
        fs::write(place.join(file), text)?;
    }
    Ok(())
}
