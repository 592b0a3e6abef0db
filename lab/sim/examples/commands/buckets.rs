//! Buckets, as directories: a volume that two commands wrote, with objects whose checksums are right and whose content is not.
use segno_testkit::stored::spoil_object;
use segno_testkit::{Rng, rng};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the volume that is spoiled. `false` if the program has no object stores.
pub fn prepare(segno: &Path, work: &Path) -> Result<bool, String> {
    let url = format!("file://{}", work.join("sound/v").display());
    let run = |args: &[&str]| {
        let done =
            Command::new(segno).args(args).output().map_err(|e| format!("{}: {e}", segno.display()))?;
        Ok::<_, String>((done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned()))
    };
    let text = |e: io::Error| format!("{}: {e}", work.display());
    fs::create_dir_all(work.join("sound")).map_err(text)?;
    let file = work.join("file").display().to_string();
    for args in
        [&["mkfs", "-q", "--size", "1G", &url][..], &["put", &url, &file], &["put", "-f", &url, &file]]
    {
        match run(args)? {
            (true, _) => {}
            (false, said) if said.contains("feature") => return Ok(false),
            (false, said) => return Err(format!("{args:?}: {said}")),
        }
    }
    Ok(true)
}

/// A copy of the volume with objects that are spoiled, or cut off.
pub fn make(seed: u64, number: u64, sound: &Path, to: &Path) -> Result<(), String> {
    let text = |e: io::Error| format!("{}: {e}", to.display());
    let mut objects = Vec::new();
    list(sound, &mut objects).map_err(text)?;
    objects.sort();
    let mut rng = Rng::new(rng::mix(seed) ^ number);
    let records: Vec<usize> =
        (0..objects.len()).filter(|&i| !objects[i].to_string_lossy().contains("/data/")).collect();
    let chosen: Vec<usize> = (0..rng.between(1, 3))
        .map(|_| {
            if rng.one_in(8) {
                rng.below(objects.len() as u64) as usize
            } else {
                records[rng.below(records.len() as u64) as usize]
            }
        })
        .collect();
    for (i, object) in objects.iter().enumerate() {
        let mut bytes = fs::read(object).map_err(text)?;
        let name = object.strip_prefix(sound).map_err(|e| e.to_string())?;
        for _ in chosen.iter().filter(|&&c| c == i) {
            match rng.below(10) {
                0 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.iter_mut().for_each(|b| *b = rng.draw() as u8),
                _ => spoil_object(&format!("/{}", name.display()), &mut bytes, &mut rng),
            }
        }
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap_or(to)).map_err(text)?;
        fs::write(path, bytes).map_err(text)?;
    }
    Ok(())
}

fn list(dir: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, into)? } else { into.push(path) }
    }
    Ok(())
}
