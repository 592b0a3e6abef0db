//! Errors that a new user meets first: words of f2fs-tools, wrong paths, images that are too small or cut
//! short.
use super::{Scratch, output, refusal, segno};
use std::fs::OpenOptions;

/// Commands and options that Segno lacks or names differently; the exit code is that of a usage error.
#[test]
fn words_of_f2fs_tools_have_answers() {
    for (words, code, answer) in [
        ("fsck x", 2, "there is no command fsck: `segno check IMAGE` checks"),
        (
            "resize x",
            2,
            "there is no command resize: Segno does not resize volumes. `segno build --size SIZE OLD NEW` makes a copy of another size. \
             `resize.f2fs` damages a volume if it is interrupted",
        ),
        ("f2fslabel x", 2, "`segno label IMAGE LABEL` changes the label"),
        ("defrag x", 2, "there is no command defrag: Segno does not defragment files"),
        ("sload x", 2, "`segno put IMAGE SOURCE` copies a tree into a volume"),
        ("mkfs -g android x", 2, "mkfs has no option -g: it stands for a set of options"),
        ("mkfs -a 1 x", 2, "mkfs has no option -a: leave it out"),
        ("check -l x", 16, "check has no option -l: `segno info IMAGE`"),
        ("check -M x", 16, "`segno extents --all --image IMAGE /`"),
        ("dump -i 3 x", 2, "dump has no option -i: `segno dump IMAGE inode INO`"),
        ("mount -t f2fs x y", 2, "mount has no option -t: leave it out"),
        ("umount -l x", 2, "`umount -l DIR` detaches a mount that is busy"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (found, said) = refusal(&words);
        assert!(
            found == code && said.starts_with("segno: ") && said.contains(answer),
            "{words:?}: {found} {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// fsck(8) and fstab at boot pass -a.
#[test]
fn check_takes_a() {
    let scratch = Scratch::new();
    assert!(output(&["check", "-a", &scratch.image()]).ends_with("clean\n"));
}

#[test]
fn a_forced_format_can_be_forced_twice_and_a_build_be_quiet() {
    let scratch = Scratch::new();
    output(&["mkfs", "-q", "-f", "-f", &scratch.image()]);
    let (tree, image) = (scratch.path("tree"), scratch.path("built"));
    std::fs::create_dir(&tree).unwrap();
    assert_eq!(output(&["build", "-q", tree.to_str().unwrap(), image.to_str().unwrap()]), "");
    assert!(output(&["check", image.to_str().unwrap()]).ends_with("clean\n"));
}

/// `-- -g` would make a file of that name.
#[test]
fn no_option_is_proposed_as_a_file() {
    for args in [["mkfs", "-x", "image"], ["ls", "--lnog", "image"], ["check", "-X", "image"]] {
        let (code, said) = refusal(&args);
        assert!(
            [2, 16].contains(&code) && !said.contains("-- -") && said.contains("unexpected argument"),
            "{said}"
        );
    }
    assert!(refusal(&["ls", "--lnog", "x"]).1.contains("a similar argument exists: '--long'"));
}

#[test]
fn errors_of_a_json_report_are_json() {
    let scratch = Scratch::new();
    for (args, code, part) in [
        (vec!["ls", "--json", "/nonexistent"], 1, "cannot open /nonexistent"),
        (vec!["check", "--json", "/nonexistent"], 8, "cannot open /nonexistent"),
        (vec!["ls", "--json"], 2, "required arguments were not provided"),
        (vec!["check", "--json", "-X", "image"], 16, "unexpected argument '-X'"),
        (vec!["fsck", "--json", "image"], 2, "there is no command fsck"),
        (vec!["stats", "--json-lines", "/"], 1, "is not on a mount of segno"),
        (vec!["mkfs", "--json", &scratch.image()], 1, "holds an F2FS volume; overwrite it with -f"),
    ] {
        let (found, said) = refusal(&args);
        assert_eq!((found, said.lines().count()), (code, 1), "{args:?}: {said}");
        let error: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(error["code"], code, "{args:?}: {said}");
        assert!(error["error"].as_str().unwrap().contains(part), "{args:?}: {said}");
    }
}

#[test]
fn no_file_is_made_among_the_devices() {
    let (code, said) = refusal(&["mkfs", "/dev/segno-none"]);
    assert_eq!(
        (code, said.as_str()),
        (1, "segno: there is no device /dev/segno-none; `lsblk` lists those that exist\n")
    );
    let (code, said) = refusal(&["mkfs", "--size", "64M", "/dev/segno-none"]);
    assert!(code == 1 && said.contains("leave it out, or name a file elsewhere"), "{code} {said}");
    assert!(!std::path::Path::new("/dev/segno-none").exists());
    let (code, said) = refusal(&["mkfs", "/nonexistent/image"]);
    assert!(code == 1 && said.contains("--size makes a new image file"), "{code} {said}");
}

/// The size that is named is enough, and nothing below it is.
#[test]
fn volumes_that_are_too_small_state_the_minimum() {
    let scratch = Scratch::new();
    let new = scratch.path("new");
    let new = new.to_str().unwrap();
    let (code, said) = refusal(&["mkfs", "--size", "4M", new]);
    assert_eq!(code, 1, "{said}");
    let rest =
        said.strip_prefix("segno: 4.0 MiB is too small: with these options a volume has ").expect(&said);
    let (least, rest) =
        rest.split_once(" MiB at least, of which metadata and the reserve for cleaning take ").unwrap();
    assert!(rest.ends_with(" remain for files\n"), "{said}");
    let mebibytes: u64 = least.strip_suffix(".0").expect(&said).parse().unwrap();
    assert_eq!(refusal(&["mkfs", "--size", &format!("{}M", mebibytes - 1), new]).0, 1);
    output(&["mkfs", "-q", "--size", &format!("{mebibytes}M"), new]);
    // A device that exists gets the same words.
    let file = scratch.path("short");
    std::fs::File::create(&file).unwrap().set_len(4 << 20).unwrap();
    assert_eq!(refusal(&["mkfs", file.to_str().unwrap()]), (1, said));
}

#[test]
fn a_truncated_image_is_explained_by_every_command() {
    let scratch = Scratch::new();
    let image = scratch.image();
    OpenOptions::new().write(true).open(&image).unwrap().set_len(40 << 20).unwrap();
    let explanation = format!(
        "{image} is truncated: its volume has 67108864 bytes (16384 blocks) and 41943040 are there. Copy it again in \
         full; `segno rescue {image} DIR` copies the files that are in the part that is there"
    );
    let dir = scratch.path("dir");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    for args in [
        vec!["info", &image],
        vec!["ls", &image],
        vec!["cat", &image, "a"],
        vec!["stat", &image, "/"],
        vec!["get", &image, "/", dir],
        vec!["put", &image, dir],
        vec!["extents", "--image", &image, "/"],
        vec!["journal", "info", &image],
        vec!["mount", "-f", &image, dir],
        vec!["check", &image],
    ] {
        let (code, said) = refusal(&args);
        assert!([1, 8, 4].contains(&code) && said.contains(&explanation), "{args:?}: {code} {said}");
    }
    let out = segno(&["dump", &image, "sb"]);
    assert!(out.status.success(), "a superblock can be shown");
    assert!(String::from_utf8(out.stderr).unwrap().contains(&explanation));
}

#[test]
fn an_image_in_place_of_a_command_is_not_mounted() {
    let scratch = Scratch::new();
    let image = scratch.image();
    for args in [vec![image.as_str()], vec![&image, "/mnt"], vec!["./img"]] {
        let (code, said) = refusal(&args);
        let name = args[0];
        let answer = format!(
            "segno: {name} is not a command: `segno info {name}` describes an image, `segno mount {name} DIR` mounts it\n"
        );
        assert_eq!((code, said), (2, answer));
    }
}

/// An image where a mount is needed, and a directory where an image is.
#[test]
fn images_and_mounts_are_told_apart() {
    let scratch = Scratch::new();
    let (image, dir) = (scratch.image(), scratch.dir.path().to_str().unwrap().to_owned());
    for args in [vec!["stats", &image], vec!["sync", &image], vec!["ctl", &image], vec!["metrics", &image]] {
        let (code, said) = refusal(&args);
        let answer = format!(
            "segno: {image} is not on a mount of segno: `segno mount {image} DIR` mounts an image, `segno info {image}` describes it\n"
        );
        assert_eq!((code, said), (1, answer), "{args:?}");
    }
    for args in [vec!["info", &dir], vec!["ls", &dir], vec!["mkfs", &dir]] {
        let (code, said) = refusal(&args);
        assert!(code == 1 && said.contains("is a directory: name the image"), "{args:?}: {said}");
    }
    let (code, said) = refusal(&["mount", "-o", "remount,ro", &image, &dir]);
    assert!(code == 2 && said.contains("`mount -o remount,ro DIR` changes flags"), "{said}");
}

#[test]
fn get_writes_to_standard_output() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let file = scratch.path("file");
    let bytes: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&file, &bytes).unwrap();
    output(&["put", &image, file.to_str().unwrap()]);
    let out = segno(&["get", &image, "file", "-"]);
    assert!(out.status.success() && out.stdout == bytes && out.stderr.is_empty());
    let (code, said) = refusal(&["get", &image, "/", "-"]);
    assert!(code == 1 && said.contains("/ on the volume is not a file but a directory"), "{code} {said}");
    assert!(!std::path::Path::new("-").exists());
}
