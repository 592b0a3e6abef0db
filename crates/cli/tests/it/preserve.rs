//! A volume from a stranger has programs that run as root, devices open to all, file capabilities and `trusted.*` attributes. All
//! commands that create its files on the host leave them out, and count them, unless they are asked to keep them. Archives,
//! manifests and images have everything. Needs root, which could create all of it; left out without.
use super::{Scratch, json, output, segno};
use rustix::fs::{getxattr, listxattr};
use segno::{Device, Metadata, SetMetadata, Special, Volume};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CAPS: &str = "security.capability";
const TRUSTED: &str = "trusted.x";

/// A command that creates files of IMAGE below OUT, and the directory there. Deleted files are files of IMAGE
/// as well.
pub(super) type Exit = (&'static [&'static str], &'static str);

pub(super) const EXITS: [Exit; 5] = [
    (&["get", "IMAGE", "/", "OUT"], ""),
    (&["get", "IMAGE", "/dir", "OUT"], "dir"),
    (&["extract", "IMAGE", "OUT"], ""),
    (&["rescue", "IMAGE", "OUT"], ""),
    (&["undelete", "--to", "OUT", "IMAGE"], "deleted"),
];

fn open(image: &str) -> Volume {
    Volume::open(&Device::open(image).unwrap()).unwrap()
}

/// One of each, in the root or in a directory.
fn plant(volume: &Volume, dir: &str) {
    let path = |name: &str| format!("{dir}/{name}");
    let mode = |name: &str, mode| volume.set_metadata(path(name), &SetMetadata::new().mode(mode)).unwrap();
    for name in ["setid", "private", "caps", "trusted", "user"] {
        volume.write(path(name), format!("content of {name}")).unwrap();
        mode(name, 0o755);
    }
    mode("setid", 0o6755);
    mode("private", 0o600);
    volume.set_xattr(path("caps"), CAPS, &CAPABILITY).unwrap();
    volume.set_xattr(path("trusted"), TRUSTED, b"t").unwrap();
    volume.set_xattr(path("user"), "user.x", b"u").unwrap();
    volume.create_special(path("char"), Special::CharDevice { major: 1, minor: 3 }).unwrap();
    volume.create_special(path("block"), Special::BlockDevice { major: 7, minor: 0 }).unwrap();
    volume.create_special(path("fifo"), Special::Fifo).unwrap();
    volume.create_special(path("socket"), Special::Socket).unwrap();
    ["char", "block", "fifo"].iter().for_each(|name| mode(name, 0o666));
    mode("socket", 0o600);
}

/// A volume with everything in `/` or `dir`, or deleted.
fn volume(scratch: &Scratch, place: &str) -> String {
    let image = scratch.image();
    let volume = open(&image);
    let dir = if place == "dir" { "/dir" } else { "" };
    if place == "dir" {
        volume.create_dir("/dir").unwrap();
    }
    plant(&volume, dir);
    volume.create_dir(format!("{dir}/setgid")).unwrap();
    volume.set_metadata(format!("{dir}/setgid"), &SetMetadata::new().mode(0o2755)).unwrap();
    volume.close().unwrap();
    if place == "deleted" {
        let volume = open(&image);
        volume.remove_dir("/setgid").unwrap();
        for entry in volume.read_dir("/").unwrap().map(Result::unwrap).collect::<Vec<_>>() {
            volume.remove_file(entry.path()).unwrap();
        }
        volume.close().unwrap();
    }
    image
}

/// Kind and permissions, and the attributes that matter.
fn look(dir: &Path) -> BTreeMap<String, (u32, Vec<String>)> {
    let each = dir.read_dir().unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let mut names = vec![0; 4096];
        let n = listxattr(&path, &mut names).unwrap();
        let named = names[..n].split(|&b| b == 0).map(|name| String::from_utf8(name.to_vec()).unwrap());
        let mut attributes: Vec<String> =
            named.filter(|n| [CAPS, TRUSTED, "user.x"].contains(&n.as_str())).collect();
        attributes.sort();
        let meta = path.symlink_metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid()), (0, 0), "{}", path.display());
        (path.file_name().unwrap().to_str().unwrap().to_owned(), (meta.mode(), attributes))
    });
    each.collect()
}

/// The expected tree, with these words of `--preserve`.
fn expected(words: &[&str], place: &str) -> BTreeMap<String, (u32, Vec<String>)> {
    let has = |word| words.contains(&word) || words.contains(&"all");
    let when = |word, name: &str| if has(word) { vec![name.to_owned()] } else { Vec::new() };
    let mut all = BTreeMap::from([
        ("setid", (if has("setid") { 0o106_755 } else { 0o100_755 }, Vec::new())),
        ("setgid", (if has("setid") { 0o042_755 } else { 0o040_755 }, Vec::new())),
        ("private", (0o100_600, Vec::new())),
        ("caps", (0o100_755, when("caps", CAPS))),
        ("trusted", (0o100_755, when("trusted", TRUSTED))),
        ("user", (0o100_755, vec!["user.x".to_owned()])),
        ("fifo", (0o010_666, Vec::new())),
        ("socket", (0o140_600, Vec::new())),
    ]);
    if has("devices") {
        all.insert("char", (0o020_666, Vec::new()));
        all.insert("block", (0o060_666, Vec::new()));
    }
    if place == "deleted" {
        // A deleted directory is restored only with a file in it.
        all.remove("setgid");
    }
    all.into_iter().map(|(name, found)| (name.to_owned(), found)).collect()
}

fn left_out(words: &[&str], place: &str) -> Value {
    let setid = if place == "deleted" { 1 } else { 2 };
    let counts = [("setid", setid), ("devices", 2), ("caps", 1), ("trusted", 1)];
    let kept = |word| words.contains(&word) || words.contains(&"all");
    let each = counts.map(|(word, n)| (word.to_owned(), json!(if kept(word) { 0 } else { n })));
    Value::Object(each.into_iter().collect())
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("NOT TESTED: only root can create devices");
    }
    is_root
}

#[test]
fn no_command_brings_rights_from_a_volume_unless_it_is_asked_to() {
    if !is_root() {
        return;
    }
    for (command, place) in EXITS {
        let scratch = Scratch::new();
        let image = volume(&scratch, place);
        for (i, words) in
            [&[][..], &["all"], &["setid"], &["devices", "caps"], &["trusted"]].into_iter().enumerate()
        {
            let out = scratch.path(&format!("out{i}"));
            let list = format!("--preserve={}", words.join(","));
            let mut args: Vec<&str> = command
                .iter()
                .map(|word| match *word {
                    "IMAGE" => image.as_str(),
                    "OUT" => out.to_str().unwrap(),
                    word => word,
                })
                .collect();
            if !words.is_empty() {
                args.push(&list);
            }
            let done = segno(&args);
            let said = String::from_utf8(done.stderr).unwrap();
            assert_eq!(done.status.code(), Some(0), "{args:?}: {said}");
            assert_eq!(look(&out), expected(words, place), "{args:?}");
            let notes: Vec<&str> = said.lines().filter(|line| line.contains("left out: ")).collect();
            assert_eq!(notes.len(), usize::from(words != ["all"]), "{args:?}: {said}");
            if words.is_empty() {
                let bits = if place == "deleted" { 1 } else { 2 };
                let expected = format!(
                    "segno: note: left out: set-ID bits ({bits}), device nodes (2), file capabilities (1), trusted attributes (1); \
                     --preserve=setid,devices,caps,trusted keeps them"
                );
                assert_eq!(notes, [expected], "{args:?}");
            }
            std::fs::remove_dir_all(&out).unwrap();
            args.push("--json");
            assert_eq!(json(&args)["left_out"], left_out(words, place), "{args:?}");
        }
    }
}

/// By the way of an image, an archive or lists, and back.
#[test]
fn images_archives_and_lists_keep_everything() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let image = volume(&scratch, "");
    let path = |name: &str| scratch.path(name).display().to_string();
    output(&["rescue", "--to-image", &path("rescued"), &image]);
    // Archives have no sockets.
    let volume = open(&image);
    volume.remove_file("/socket").unwrap();
    volume.close().unwrap();
    output(&["extract", "--tar", &path("tar"), &image]);
    output(&["build", &path("tar"), &path("from-tar")]);
    let lists = ["--manifest", &path("manifest"), "--fs-config", &path("config")];
    output(&[&["extract"], &lists[..], &[&image, &path("tree")]].concat());
    output(&["build", "--manifest", &path("manifest"), &path("tree"), &path("from-list")]);
    for (name, sockets) in [("rescued", 1), ("from-tar", 0), ("from-list", 0)] {
        let back = path(&format!("{name}-back"));
        output(&["get", "--preserve=all", &path(name), "/", &back]);
        let mut all = expected(&["all"], "");
        if sockets == 0 {
            all.remove("socket");
        }
        assert_eq!(look(Path::new(&back)), all, "{name}");
        let mut value = vec![0; 64];
        let n = getxattr(format!("{back}/caps"), CAPS, &mut value).unwrap();
        assert_eq!(value[..n], CAPABILITY, "{name}");
    }
    let config = std::fs::read_to_string(path("config")).unwrap();
    assert!(
        config.contains("setid 0 0 6755\n") && config.contains("caps 0 0 0755 capabilities="),
        "{config}"
    );
}

#[test]
fn the_library_leaves_them_out_as_well() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let image = volume(&scratch, "");
    for words in [&[][..], &["all"], &["setid", "trusted"]] {
        let preserve =
            words.iter().fold(segno::Preserve::default(), |all, w| all | segno::Preserve::parse(w).unwrap());
        let out = scratch.path(&format!("out{}", words.len()));
        let options = segno::ExtractOptions { preserve, ..Default::default() };
        let report = segno::extract(&image, &out, &options).unwrap();
        assert_eq!(json!(report.left_out), left_out(words, ""));
        assert_eq!(look(&out), expected(words, ""), "{words:?}");
    }
    let meta: Metadata = open(&image).metadata("/setid").unwrap();
    assert_eq!(meta.mode(), 0o106_755);
}
