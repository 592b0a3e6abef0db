//! Damaged volumes: an error or other content, never a panic, and always an end.
use segno_read::{Entry, Error, Inode, OutOfRange, Volume};
use std::fs;

/// Numbers without a pattern (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Reads the root, what is in it, and the beginning of each file.
fn read_all(image: &[u8]) -> Result<usize, Error<OutOfRange>> {
    let volume = Volume::open(image)?;
    let mut inodes: Vec<Inode> = vec![volume.root()?];
    let mut seen = 0;
    while let Some(inode) = inodes.pop() {
        seen += 1;
        if inode.file_type() != segno_read::FileType::Directory {
            let _any = volume.read(&inode, 0, &mut [0; 9000])?;
            continue;
        }
        let mut children = Vec::new();
        volume.read_dir(&inode, |e: Entry<'_>| children.push((e.ino, e.name.to_vec())))?;
        // A directory may contain itself.
        for (ino, name) in children.into_iter().take(20).filter(|_| seen < 200) {
            let _any = volume.lookup(&name);
            inodes.push(volume.inode(ino)?);
        }
    }
    Ok(seen)
}

/// Damages an image again and again, and counts the errors.
fn damaged(mut image: Vec<u8>) -> usize {
    let sound = read_all(&image).unwrap();
    // Blocks with anything in them: damage elsewhere is not read.
    let blocks: Vec<usize> =
        (0..image.len() / 4096).filter(|b| image[b * 4096..(b + 1) * 4096].iter().any(|&b| b != 0)).collect();
    let (mut random, mut errors) = (Random(1), 0);
    for _ in 0..3000 {
        let mut before = Vec::new();
        for _ in 0..1 + random.below(8) {
            let at = blocks[random.below(blocks.len().min(400))] * 4096 + random.below(4096);
            before.push((at, image[at]));
            image[at] = random.below(256) as u8;
        }
        errors += usize::from(read_all(&image).is_err());
        before.into_iter().rev().for_each(|(at, byte)| image[at] = byte);
    }
    assert_eq!(read_all(&image).unwrap(), sound);
    errors
}

#[test]
fn damage_anywhere_gives_an_error_or_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let image = fs::read(super::files::of_tools(dir.path())).unwrap();
    assert!(read_all(&image).unwrap() > 20);
    assert!(damaged(image) > 100, "the damage is not where anything is read");
}

#[test]
fn damage_of_compressed_files_gives_an_error_or_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..50_000).map(|i| (i / 7 + i / 4096) as u8).collect();
    let (path, _) = super::files::compressed_by_engine(dir.path(), &content);
    assert!(damaged(fs::read(path).unwrap()) > 100, "the damage is not where anything is read");
}
