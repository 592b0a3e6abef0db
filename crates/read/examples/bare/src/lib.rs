//! Directories and files of an image that is a slice of bytes, as a bootloader reads them: the library is built for
//! x86_64-unknown-none too, where there is no `std`.
#![no_std]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use segno_read::{Error, OutOfRange, Volume};

/// The names in a directory.
pub fn list(image: &[u8], path: &[u8]) -> Result<Vec<Vec<u8>>, Error<OutOfRange>> {
    let volume = Volume::open(image)?;
    let mut names = Vec::new();
    volume.read_dir(&volume.lookup(path)?, |entry| names.push(entry.name.to_vec()))?;
    Ok(names)
}

/// The content of a file.
pub fn read(image: &[u8], path: &[u8]) -> Result<Vec<u8>, Error<OutOfRange>> {
    let volume = Volume::open(image)?;
    let file = volume.lookup(path)?;
    let mut bytes = vec![0; file.len() as usize];
    volume.read(&file, 0, &mut bytes)?;
    Ok(bytes)
}
