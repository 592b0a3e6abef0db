//! Formatting, checking, describing, and the errors if that cannot be done.
use super::{Scratch, json, output, refusal};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

#[test]
fn a_new_volume_is_clean_and_described() {
    let scratch = Scratch::new();
    let image = scratch.image();
    assert!(output(&["check", &image]).ends_with("clean\n"));
    assert_eq!(json(&["check", "--json", &image])["errors"], 0);
    let info = json(&["info", "--json", &image]);
    assert_eq!(info["superblock"]["volume_name"], "scratch");
    assert_eq!(info["superblock"]["features"], serde_json::json!(["extra_attr", "inode_crtime"]));
    assert_eq!(info["superblock"]["block_count"], 64 << 8);
    assert_eq!(info["checkpoint"]["valid_inode_count"], 1);
    assert_eq!(info["usage"]["clean_unmount"], true);
    assert!(output(&["info", &image]).contains("label         scratch\n"));
    assert!(std::fs::metadata(&image).unwrap().blocks() < 4096, "the image file is not sparse");
}

#[test]
fn what_is_there_is_not_overwritten() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let (code, said) = refusal(&["mkfs", &image]);
    assert_eq!((code, said), (1, format!("segno: {image} holds an F2FS volume; overwrite it with -f\n")));
    let (code, said) = refusal(&["mkfs", "--size", "64M", &image]);
    assert_eq!((code, said), (1, format!("segno: {image} exists already; overwrite it with -f\n")));
    assert_eq!(json(&["info", "--json", &image])["superblock"]["volume_name"], "scratch");
    output(&["mkfs", "-f", "-q", "-l", "again", &image]);
    assert_eq!(json(&["info", "--json", &image])["superblock"]["volume_name"], "again");
}

#[test]
fn devices_are_recorded_by_absolute_paths() {
    let scratch = Scratch::new();
    let image = scratch.image();
    File::create(scratch.path("second")).unwrap().set_len(64 << 20).unwrap();
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_segno"))
        .args(["mkfs", "-q", "-f", "-c", "second", "image"])
        .current_dir(scratch.dir.path())
        .status();
    assert!(made.unwrap().success());
    let second = scratch.path("second").to_str().unwrap().to_owned();
    assert_eq!(json(&["info", "--json", &image, &second])["superblock"]["devs"][1]["path"], second);
    std::fs::rename(&second, scratch.path("elsewhere")).unwrap();
    let (code, said) = refusal(&["check", &image, &second]);
    assert!(code == 8 && said.contains("device 1 of the volume: cannot open"), "{code} {said}");
    assert!(output(&["check", &image, scratch.path("elsewhere").to_str().unwrap()]).ends_with("clean\n"));
}

#[test]
fn a_refused_format_leaves_no_file() {
    let scratch = Scratch::new();
    let new = scratch.path("new");
    let new = new.to_str().unwrap();
    for (args, code) in
        [(["--size", "4M"], 1), (["--size", "1G,"], 2), (["-O", "shiny"], 2), (["-s", "0"], 1)]
    {
        let args =
            [&["mkfs", "--size", "64M"][..if args[0] == "--size" { 1 } else { 3 }], &args, &[new]].concat();
        assert_eq!(refusal(&args).0, code, "{args:?}");
        assert!(File::open(new).is_err(), "{args:?} left a file");
    }
}

#[test]
fn check_ends_with_the_codes_of_fsck() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let (code, said) = refusal(&["check", "/nonexistent/image"]);
    assert_eq!(code, 8);
    assert_eq!(said, "segno: cannot open /nonexistent/image: No such file or directory (os error 2)\n");
    assert_eq!(refusal(&["check"]).0, 16);
    assert_eq!(refusal(&["check", "--repair-everything", &image]).0, 16);
    let empty = scratch.path("empty");
    File::create(&empty).unwrap().set_len(1 << 20).unwrap();
    let (code, said) = refusal(&["check", empty.to_str().unwrap()]);
    assert!(code == 8 && said.contains("is empty: there are only zeros"), "{code} {said}");
    // The root inode's NAT entry points nowhere: an error of the volume, not of the check.
    let nat = json(&["info", "--json", &image])["superblock"]["nat_blkaddr"].as_u64().unwrap();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 4096], nat << 12).unwrap();
    assert_eq!(refusal(&["check", &image]).0, 4);
}

#[test]
fn one_damaged_superblock_is_reported_and_does_not_matter() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
    assert_eq!(refusal(&["check", &image]).0, 4);
    assert_eq!(json(&["info", "--json", &image])["superblock"]["volume_name"], "scratch");
    file.write_all_at(&[0; 4096], 4096).unwrap();
    let (code, said) = refusal(&["info", &image]);
    assert!(
        code == 1 && said.contains("has remains of an F2FS volume without superblock: `segno rescue "),
        "{code} {said}"
    );
}

#[test]
fn mounting_refuses_before_it_touches_anything() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let dir = scratch.path("dir");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    let before = std::fs::read(&image).unwrap();
    for (args, message) in [
        (
            vec!["mount", &image, "/nonexistent"],
            "cannot mount at /nonexistent: there is no such directory: `mkdir /nonexistent` makes it",
        ),
        (vec!["mount", &image, &image], "it is not a directory"),
        (vec!["mount", "/nonexistent", dir], "cannot open /nonexistent: No such file"),
        (vec!["umount", dir], "nothing is mounted at"),
        (vec!["stats", dir], "is not on a mount of segno"),
        (vec!["extents", &image], "is not on a mount of segno"),
    ] {
        let (code, said) = refusal(&args);
        assert!(code == 1 && said.contains(message), "{args:?}: {code} {said}");
    }
    assert!(std::fs::read(&image).unwrap() == before, "the image changed");
}

/// mkfs warns of a reserve that guards fewer nodes than a volume of small files has, and info shows the
/// number.
#[test]
fn the_guarded_number_of_nodes_is_told() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let cases: [(&[&str], &str, u64, bool); 4] = [
        // The default on 24 sections, of which 16 are not for users: 10, one for the sections, five for nodes.
        (&[], "guarded up to 2560 nodes", 2560, false),
        (&["-o", "1", "-Z", "10"], "not guarded", 0, true),
        (&["-o", "1", "-Z", "12"], "guarded up to 512 nodes", 512, true),
        // More nodes than blocks for users.
        (&["-o", "1", "-Z", "18"], "guarded up to any number of nodes", 6 * 512, false),
    ];
    for (args, text, nodes, warned) in cases {
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_segno"))
            .args([&["mkfs", "-f"], args, &[&image]].concat())
            .output()
            .unwrap();
        let said = String::from_utf8(made.stderr).unwrap();
        assert!(made.status.success(), "{args:?}: {said}");
        let warning = format!(
            "segno: warning: overwrites may fail when the volume is full, space is {text}: leave out -o and -Z\n"
        );
        assert_eq!(said, if warned { warning } else { String::new() }, "{args:?}");
        let info = output(&["info", &image]);
        assert!(info.contains(&format!("\nspace         {text}\n")), "{args:?}: {info}");
        assert_eq!(json(&["info", "--json", &image])["usage"]["guarded_nodes"], nodes, "{args:?}");
    }
}
