//! `rescue`, `undelete`, `dump`, and inodes by number.
use super::{Scratch, json, output, refusal, segno, wait_for_handler};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// A tree in the volume, and the same tree on the host.
pub fn filled() -> Scratch {
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/large"), (0..300_000u32).map(|i| (i / 11) as u8 | 1).collect::<Vec<_>>())
        .unwrap();
    fs::write(tree.join("a/small"), "inline").unwrap();
    symlink("../outside", tree.join("a/link")).unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 900_000).unwrap();
    output(&["put", &scratch.image(), tree.to_str().unwrap(), "/"]);
    scratch
}

fn wipe(image: &str, bytes: std::ops::Range<usize>) {
    let file = OpenOptions::new().write(true).open(image).unwrap();
    file.write_all_at(&vec![0; bytes.len()], bytes.start as u64).unwrap();
}

#[track_caller]
fn same_tree(one: &Path, other: &Path) {
    let diff = Command::new("diff").args(["-r", "--no-dereference"]).args([one, other]).output().unwrap();
    assert!(diff.status.success(), "{diff:?}");
}

#[test]
fn a_volume_without_superblocks_is_rescued() {
    let scratch = filled();
    let (image, target) = (scratch.image(), scratch.path("out"));
    let target = target.to_str().unwrap();
    wipe(&image, 0..8192);
    let before = fs::read(&image).unwrap();
    let listed = json(&["rescue", "--list", "--json", &image]);
    assert_eq!((&listed["superblock"], &listed["nat"]), (&false.into(), &true.into()), "{listed}");
    assert_eq!(listed["classes"], serde_json::json!({ "A": 7, "B": 0, "C": 0 }), "{listed}");
    let done = json(&["rescue", "--json", &image, target]);
    assert_eq!((&done["failed"], &done["unreadable_blocks"]), (&0.into(), &0.into()));
    same_tree(&scratch.path("tree"), &scratch.path("out/tree"));
    let hole = fs::metadata(scratch.path("out/tree/sparse")).unwrap();
    assert!(hole.blocks() * 512 < 100_000, "the hole was filled");
    assert!(before == fs::read(&image).unwrap(), "the source was written to");
    let (code, said) = refusal(&["rescue", &image, target]);
    assert_eq!(
        (code, said),
        (1, format!("segno: {target} is not empty; name a new directory, or go on with --resume\n"))
    );
    fs::remove_file(scratch.path("out/tree/a/small")).unwrap();
    output(&["rescue", "--resume", &image, target]);
    same_tree(&scratch.path("tree"), &scratch.path("out/tree"));
}

/// Makes a volume, fills it, wipes all before the main area, and rescues it.
fn rescued_without_metadata(mkfs: &[&str], sizes: &[u64]) {
    let scratch = filled();
    let devices: Vec<String> = (0..sizes.len())
        .map(|i| {
            let path = scratch.path(&format!("device-{i}"));
            fs::File::create(&path).unwrap().set_len(sizes[i]).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let (first, others) = devices.split_first().unwrap();
    let further = |option| others.iter().flat_map(move |d| [option, d.as_str()]).collect::<Vec<_>>();
    output(&[&["mkfs", "-q", "-f"], mkfs, &further("-c"), &[first]].concat());
    let named = further("--device");
    output(&[&["put"], &named[..], &[first, scratch.path("tree").to_str().unwrap(), "/"]].concat());
    let info = json(&[&["info", "--json", first], &named[..]].concat());
    let main = info["superblock"]["main_blkaddr"].as_u64().unwrap();
    wipe(first, 0..main as usize * 4096);
    let target = scratch.path("out");
    let done = json(&[&["rescue", "--json", first, target.to_str().unwrap()], &named[..]].concat());
    assert_eq!((&done["failed"], &done["unreadable_blocks"]), (&0.into(), &0.into()), "{done}");
    same_tree(&scratch.path("tree"), &target.join("tree"));
}

#[test]
fn a_volume_of_several_devices_without_metadata() {
    rescued_without_metadata(&[], &[64 << 20, 90 << 20, (72 << 20) + 12288]);
}

#[test]
fn a_volume_with_large_zones_without_metadata() {
    rescued_without_metadata(&["-s", "4", "-z", "2"], &[512 << 20]);
}

#[test]
fn a_new_volume_as_target() {
    let scratch = filled();
    let (image, new, out) = (scratch.image(), scratch.path("new"), scratch.path("out"));
    wipe(&image, 0..8192);
    let before = fs::read(&image).unwrap();
    let new = new.to_str().unwrap();
    let done = json(&["rescue", "--json", "--to-image", new, &image]);
    assert_eq!(done["failed"], 0, "{done}");
    assert!(output(&["check", new]).ends_with("clean\n"));
    output(&["get", new, "/tree", out.to_str().unwrap()]);
    same_tree(&scratch.path("tree"), &out);
    let [old, new_size] = [&image, new].map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(old, new_size);
    let stat = |path: &str| json(&["stat", "--json", new, path]);
    let host = fs::metadata(scratch.path("tree/a/small")).unwrap();
    assert_eq!(stat("/tree/a/small")["mode"], format!("{:o}", host.mode()));
    assert!(before == fs::read(&image).unwrap(), "the source was written to");
    let (code, said) = refusal(&["rescue", "--to-image", new, &image]);
    assert!(code == 1 && said.contains("exists already; name a new file"), "{said}");
    assert!(before == fs::read(&image).unwrap(), "the source was written to");
}

#[test]
fn only_what_matches_is_rescued() {
    let scratch = filled();
    let target = scratch.path("out");
    output(&["rescue", "--only", "*/small", &scratch.image(), target.to_str().unwrap()]);
    assert_eq!(fs::read(target.join("tree/a/small")).unwrap(), b"inline");
    assert!(!target.join("tree/a/b").exists() && !target.join("tree/sparse").exists());
    let (code, said) = refusal(&["rescue", "--only", "[", &scratch.image(), target.to_str().unwrap()]);
    assert!(code == 1 && said.contains("is not a pattern"), "{said}");
}

/// A disk whose partition table is lost, with partitions as they begin today and as they once did.
#[test]
fn a_volume_is_found_wherever_it_begins() {
    for (sectors, wiped) in [(2048u64, 8192), (63, 0), (63, 8192)] {
        let scratch = filled();
        wipe(&scratch.image(), 0..wiped);
        let disk = scratch.path("disk");
        let file = fs::File::create(&disk).unwrap();
        file.write_all_at(&fs::read(scratch.image()).unwrap(), sectors * 512).unwrap();
        file.set_len(sectors * 512 + (65 << 20)).unwrap();
        let target = scratch.path("out");
        output(&["rescue", disk.to_str().unwrap(), target.to_str().unwrap()]);
        same_tree(&scratch.path("tree"), &scratch.path("out/tree"));
        let given = scratch.path("given");
        let offset = (sectors * 512).to_string();
        output(&["rescue", "--offset", &offset, disk.to_str().unwrap(), given.to_str().unwrap()]);
        same_tree(&scratch.path("tree"), &scratch.path("given/tree"));
    }
}

#[test]
fn what_is_no_volume_is_refused() {
    let scratch = Scratch::new();
    let empty = scratch.path("empty");
    fs::File::create(&empty).unwrap().set_len(1 << 20).unwrap();
    let (code, said) = refusal(&["rescue", "--list", empty.to_str().unwrap()]);
    assert!(
        code == 1 && said.contains("empty is empty: there are only zeros where it was read, and no node of"),
        "{said}"
    );
    let out = scratch.path("out");
    assert_eq!(refusal(&["rescue", empty.to_str().unwrap(), out.to_str().unwrap()]).0, 1);
    assert!(!out.exists(), "a refusal has left a directory");
    let (code, said) = refusal(&["rescue", "--list", scratch.path("absent").to_str().unwrap()]);
    assert!(code == 1 && said.contains("absent"), "{said}");
}

#[test]
fn a_map_of_ddrescue_is_written() {
    let scratch = filled();
    let map = scratch.path("map");
    output(&["rescue", "--list", "--map", map.to_str().unwrap(), &scratch.image()]);
    let text = fs::read_to_string(&map).unwrap();
    assert!(text.lines().any(|l| l == "0x00000000  0x04000000  +"), "{text}");
    let (code, said) = {
        fs::write(&map, "0 ?\n0x0 what -\n").unwrap();
        refusal(&["rescue", "--list", "--resume", "--map", map.to_str().unwrap(), &scratch.image()])
    };
    assert!(code == 1 && said.contains("in line 2 of the map"), "{said}");
}

#[test]
fn a_search_is_kept() {
    let scratch = filled();
    let (image, kept, target) = (scratch.image(), scratch.path("scan"), scratch.path("out"));
    let kept = kept.to_str().unwrap();
    let listed = json(&["rescue", "--list", "--json", "--scan", kept, &image]);
    let before = fs::read(&image).unwrap();
    let (code, said) = {
        let other = scratch.path("other");
        fs::File::create(&other).unwrap().set_len(before.len() as u64).unwrap();
        refusal(&["rescue", "--list", "--scan", kept, other.to_str().unwrap()])
    };
    assert!(code == 1 && said.contains("is of another volume"), "{said}");
    let again = segno(&["rescue", "--json", "--scan", kept, &image, target.to_str().unwrap()]);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.success() && said.contains("is not searched again"), "{said}");
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["classes"], &again["nodes"]), (&listed["classes"], &listed["nodes"]));
    same_tree(&scratch.path("tree"), &scratch.path("out/tree"));
    fs::write(kept, &fs::read(kept).unwrap()[..100]).unwrap();
    let (code, said) = refusal(&["rescue", "--list", "--scan", kept, &image]);
    assert!(code == 1 && said.contains("delete it, or name another file"), "{said}");
    assert!(before == fs::read(&image).unwrap(), "the source was written to");
}

#[test]
fn targets_that_are_the_source() {
    let scratch = filled();
    let (image, out) = (scratch.image(), scratch.path("out"));
    let (image, out) = (image.as_str(), out.to_str().unwrap());
    let before = fs::read(image).unwrap();
    let link = scratch.path("link");
    fs::hard_link(image, &link).unwrap();
    let link = link.to_str().unwrap();
    let picture = scratch.path("picture.svg");
    fs::hard_link(image, &picture).unwrap();
    for args in [
        &["map", "-f", "-o", picture.to_str().unwrap(), image][..],
        &["report", "-f", "-o", link, image],
        &["get", "-f", image, "/tree/a/small", link],
        &["get", "-f", image, "/tree/a/small", image],
        &["extract", "-f", "--manifest", link, image, out],
        &["extract", "-f", "--fs-config", link, image, out],
        &["extract", "-f", "--file-contexts", link, image, out],
        &["rescue", image, image],
        &["rescue", "--to-image", image, image],
        &["rescue", "--map", link, image, out],
        &["rescue", "--scan", link, image, out],
        &["undelete", "--to", image, image],
        &["undelete", "--scan", link, image],
    ] {
        let (code, said) = refusal(args);
        assert!(code == 1 && said.contains("is the source") && said.lines().count() == 1, "{args:?}: {said}");
    }
    let (_, said) = refusal(&["shell", "--read-only", "-c", &format!("get -f /tree/a/small {link}"), image]);
    assert!(said.contains("is the source"), "{said}");
    // One that is in use is refused as such.
    refusal(&["extract", "-f", "--tar", link, image]);
    let lists = ::segno::ExtractOptions { manifest: Some(link.into()), ..Default::default() };
    let library = ::segno::extract(image, out, &lists);
    assert!(format!("{:?}", library.unwrap_err()).contains("is the source"));
    assert!(before == fs::read(image).unwrap());
    assert!(!Path::new(out).exists());
}

#[test]
fn deleted_files_are_listed_and_copied() {
    let scratch = filled();
    let image = scratch.image();
    // Nothing of the command deletes without discarding, so the library does.
    {
        let device = ::segno::Device::open(&image).unwrap();
        let options = ::segno::MountOptions::new().discard(::segno::Discard::Never).background(false);
        let volume = ::segno::Volume::open_with(&device, &options).unwrap();
        volume.remove_dir_all("/tree/a").unwrap();
        volume.close().unwrap();
    }
    let listed = json(&["undelete", "--json", &image]);
    let mut paths: Vec<_> =
        listed["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["tree/a/b/large", "tree/a/link", "tree/a/small"], "{listed}");
    assert_eq!(json(&["undelete", "--json", &image, "/tree/a/b"])["files"].as_array().unwrap().len(), 1);
    let target = scratch.path("back");
    let text = output(&["undelete", "--to", target.to_str().unwrap(), &image]);
    assert!(text.contains("100 %       300000"), "{text}");
    same_tree(&scratch.path("tree/a"), &scratch.path("back/tree/a"));
    let before = json(&["undelete", "--previous", "--json", &image]);
    let files = before["files"].as_array().unwrap();
    assert!(files.iter().any(|f| f["path"] == "tree/a/small"), "{before}");
}

#[test]
fn inodes_are_found_by_number() {
    let scratch = filled();
    let image = scratch.image();
    let by_path = json(&["stat", "--json", &image, "/tree/a/small"]);
    let number = format!("#{}", by_path["ino"]);
    let by_number = json(&["stat", "--json", &image, &number]);
    assert_eq!((&by_number["mtime"], &by_number["size"]), (&by_path["mtime"], &by_path["size"]));
    assert_eq!(output(&["cat", &image, &number]), "inline");
    assert!(segno(&["cat", &image, "#3"]).stderr.starts_with(b"segno: #3 on the volume is not a file"));
    assert_eq!(refusal(&["stat", &image, "#4000000000"]).0, 1);
}

#[test]
fn structures_are_shown() {
    let scratch = filled();
    let image = scratch.image();
    let dump = |what: &[&str]| json(&[&["dump", "--json", &image], what].concat());
    let ino = dump(&["path", "/tree/a/small"])["inode"]["i_size"].clone();
    assert_eq!(ino, 6);
    let large = dump(&["path", "/tree/a/b/large"]);
    let addr = large["slots"][0]["addr"].to_string();
    let owner = dump(&["owner", &addr]);
    assert_eq!((&owner["path"], &owner["offset"]), (&"/tree/a/b/large".into(), &0.into()), "{owner}");
    assert_eq!((&owner["valid"], &owner["owner_names_it"]), (&true.into(), &true.into()));
    let names = dump(&["dentry", "/tree"]);
    assert_eq!(names["entries"].as_array().unwrap().len(), 2, "{names}");
    for what in ["sb", "cp", "nat", "sit", "ssa", "orphans", "quota", "chain"] {
        assert!(!dump(&[what]).is_null(), "{what}");
        assert!(segno(&["dump", &image, what]).status.success(), "{what}");
    }
    assert_eq!(dump(&["sb"])["copies"][1]["main_blkaddr"], dump(&["sb", "2"])["copies"][0]["main_blkaddr"]);
    let (code, said) = refusal(&["dump", &image, "shoe"]);
    assert!(code == 2 && said.contains("there is no structure \"shoe\""), "{said}");
    // One lost superblock and one lost pack do not keep the rest from being shown.
    wipe(&image, 0..4096);
    let sb = dump(&["sb"]);
    assert_eq!((&sb["in_force"], sb["copies"][0]["error"].is_string()), (&2.into(), true), "{sb}");
    assert_eq!(dump(&["path", "/tree/a/small"])["inode"]["i_size"], 6);
}

/// While the source is searched, which takes long: nothing is copied, and the source stays as it is.
#[test]
fn a_search_is_interrupted_by_a_signal() {
    let scratch = Scratch::new();
    let (image, target) = (scratch.path("large"), scratch.path("out"));
    fs::File::create(&image).unwrap().set_len(64 << 30).unwrap();
    for command in ["rescue", "undelete"] {
        let args: &[&std::ffi::OsStr] = if command == "rescue" {
            &[image.as_os_str(), target.as_os_str()]
        } else {
            &["--to".as_ref(), target.as_os_str(), image.as_os_str()]
        };
        let child = Command::new(env!("CARGO_BIN_EXE_segno"))
            .arg(command)
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_handler(&child);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
            .unwrap();
        let out = child.wait_with_output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!((out.status.code(), said.as_str()), (Some(1), "segno: interrupted\n"), "{command}");
        assert!(!target.exists() || fs::read_dir(&target).unwrap().next().is_none());
    }
}
