//! Mount options as words and as settings.
use segno::settings::{AllocMode, Discard};
use segno::{Device, Features, FormatOptions, InodeFlags, MountOptions, Volume};
use std::io::ErrorKind;

fn compressing() -> Device {
    let device = Device::in_memory(64 << 20);
    let features = Features::EXTRA_ATTR | Features::COMPRESSION;
    segno::format(&device, &FormatOptions { features, ..Default::default() }).unwrap();
    device
}

fn is_compressed(volume: &Volume, path: &str) -> bool {
    volume.write(path, vec![b'a'; 1 << 20]).unwrap();
    volume.metadata(path).unwrap().flags().contains(InodeFlags::COMPR)
}

#[test]
fn words_and_settings_have_the_same_effect() {
    let words: MountOptions = "compress_extension=log,noinline_data,background_gc=off".parse().unwrap();
    let settings = MountOptions::new().settings(|s| {
        s.compression.extensions.push("log".into());
        (s.inline_data, s.background_gc) = (false, false);
    });
    for options in [words, settings] {
        let device = compressing();
        let volume = Volume::open_with(&device, &options).unwrap();
        assert!(is_compressed(&volume, "/a.log") && !is_compressed(&volume, "/a.txt"));
        volume.write("/small", "s").unwrap();
        volume.sync().unwrap();
        assert_eq!(volume.metadata("/small").unwrap().blocks(), 8, "a block in units of 512 bytes");
        volume.close().unwrap();
        assert!(segno::check(&device).unwrap().is_clean());
    }
    let volume = Volume::open(&compressing()).unwrap();
    volume.write("/small", "s").unwrap();
    volume.sync().unwrap();
    assert_eq!(
        (is_compressed(&volume, "/a.log"), volume.metadata("/small").unwrap().blocks()),
        (false, 1),
        "in the inode"
    );
}

#[test]
fn a_journal_is_named_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(&path, vec![0; 32 << 20]).unwrap();
    let device = Device::in_memory(64 << 20);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let options: MountOptions = format!("journal={}", path.display()).parse().unwrap();
    let volume = Volume::open_with(&device, &options).unwrap();
    volume.write("/a", "x").unwrap();
    let other = Device::in_memory(64 << 20);
    segno::format(&other, &FormatOptions::default()).unwrap();
    assert_eq!(Volume::open_with(&other, &options).unwrap_err().kind(), ErrorKind::ResourceBusy);
    volume.close().unwrap();
    let journal = std::fs::read(&path).unwrap();
    assert!(journal.iter().any(|&b| b != 0), "the journal was made in the file");
}

#[test]
fn words_that_exclude_each_other_and_unknown_ones_are_refused() {
    for (words, why) in [
        ("sparkle", "unknown mount option sparkle"),
        ("threads=4", "unknown mount option threads=4"),
        ("commit=0", "mount option commit=0: a number from 1 is needed"),
        ("norecovery", "norecovery needs a read-only mount: add ro"),
        ("mode=lfs,gc_policy=atgc", "atgc and mode=lfs exclude each other, as in the kernel: leave one out"),
    ] {
        let error = words.parse::<MountOptions>().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read the mount options: {why}"));
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let policy = MountOptions::new().settings(|s| s.gc_policy = Some("best".into()));
    assert_eq!(Volume::open_with(&compressing(), &policy).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn of_repeated_words_the_last_one_wins() {
    let options: MountOptions = "ro,mode=lfs,discard=now,mode=adaptive,nodiscard".parse().unwrap();
    let mut found = None;
    let _ = options.settings(|s| found = Some((s.read_only, s.mode, s.discard)));
    assert_eq!(found, Some((true, AllocMode::Adaptive, Discard::Never)));
}
