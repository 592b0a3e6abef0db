//! Names and labels from untrusted volumes: no command prints bytes that a terminal would interpret. Each
//! name is distinguishable and can be given as an argument.
use super::{Scratch, json, segno};
use segno::{Device, Volume};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Output;

/// Names, each also the content of its file.
const NAMES: [&[u8]; 10] = [
    b"esc\x1b[31m",
    b"line\nfeed",
    b"return\rx",
    b"bell\x07",
    b"delete\x7f",
    b"c1\xc2\x9b31m",
    b"bidi\xe2\x80\xae\xe2\x81\xa6x",
    b"byte\xff",
    b"byte\xfe",
    b"byte\\xff",
];

/// Commands that print: I is an image whose own path holds ESC, D a new path, F a file on the host, P a path on the volume, and
/// M one that does not exist there.
pub(super) const COMMANDS: [&str; 75] = [
    "ls I",
    "ls -l I",
    "ls -lR I /",
    "ls --json I",
    "ls -R --json I",
    "ls I P",
    "ls I M",
    "stat I P",
    "stat --json I P",
    "stat I M",
    "stat --json I M",
    "stat I /link",
    "stat --json I /link",
    "cat I M",
    "get I / D",
    "get --json I / D",
    "get I P D",
    "get I M D",
    "put I F /",
    "put I F P",
    "put --json I F /again",
    "put I M",
    "rm I M",
    "mv I M P",
    "mv I P M/x",
    "mkdir I P",
    "ln I M P",
    "ln -s I M P",
    "chmod I 644 M",
    "chown I 1 M",
    "touch I P/x",
    "setfattr -n user.x I M",
    "setfattr -x M I P",
    "getfattr -d -m - I P",
    "getfattr --json I P",
    "getfattr -n M I P",
    "shell -c ls\t-lR;pwd;df I",
    "shell -c cd\tesc*;rm\tnone*;getfattr\t*;put\t* I",
    "extents --image I P",
    "extents --image I M",
    "extents --all --image I /",
    "extents --all --json --image I /",
    "find I",
    "find --json I",
    "label I",
    "label --json I",
    "info I",
    "info --json I",
    "dump I sb",
    "dump --json I sb",
    "dump I dentry /",
    "dump --json I dentry /",
    "dump I path P",
    "dump --json I path P",
    "dump I path M",
    "dump I xattr P",
    "dump --json I xattr P",
    "dump I M",
    "map I",
    "report I",
    "report --json I",
    "check I",
    "check --json I",
    "rescue --list I",
    "rescue --list --json I",
    "rescue I D",
    "undelete I",
    "undelete --json I",
    "extract I D",
    "extract --json I D",
    "build I D",
    "journal info I",
    "sparse pack I D",
    "mount I M",
    "M",
];

struct Named {
    scratch: Scratch,
    image: OsString,
}

/// A volume with all names, a link and an attribute, and a deleted file of each name; its label holds ESC too.
fn named() -> Named {
    let scratch = Scratch::new();
    let image = scratch.path("image\x1b[2J");
    std::fs::rename(scratch.image(), &image).unwrap();
    let volume = Volume::open(&Device::open(&image).unwrap()).unwrap();
    volume.set_label("label\x1b[1m").unwrap();
    for name in NAMES {
        let path = OsStr::from_bytes(name);
        volume.write(path, name).unwrap();
        volume.set_xattr(path, OsStr::from_bytes(b"user.x\x1b\xff"), b"value\x1b").unwrap();
        volume.create_dir_all("deleted").unwrap();
        volume.write(PathBuf::from("deleted").join(path), [7; 10_000]).unwrap();
    }
    volume.symlink(OsStr::from_bytes(b"target\x1b\xff"), "link").unwrap();
    volume.sync().unwrap();
    volume.remove_dir_all("deleted").unwrap();
    volume.close().unwrap();
    Named { scratch, image: image.into() }
}

impl Named {
    fn run(&self, command: &str, name: &[u8]) -> Output {
        let new = self.scratch.path("new");
        let _gone = std::fs::remove_dir_all(&new).or_else(|_| std::fs::remove_file(&new));
        let file = self.scratch.path("host").join(OsStr::from_bytes(name));
        std::fs::create_dir_all(self.scratch.path("host")).unwrap();
        if !name.is_empty() {
            std::fs::write(&file, name).unwrap();
        }
        let words = command.split(' ').map(|word| match word {
            "I" => self.image.clone(),
            "D" => new.clone().into(),
            "F" => file.clone().into(),
            "P" => OsString::from_vec([b"/", name].concat()),
            "M" => OsString::from_vec([b"/missing", name].concat()),
            word => word.into(),
        });
        segno(&words.collect::<Vec<_>>())
    }

    fn json(&self, command: &str, name: &[u8]) -> Value {
        let out = self.run(command, name);
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{command}: {e}: {out:?}"))
    }
}

/// A character that a terminal could obey.
fn obeyed(text: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(text) else { return Some("bytes that are not UTF-8".into()) };
    let is_obeyed = |c: &char| {
        let direction = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(c)
            || ('\u{202a}'..='\u{202e}').contains(c)
            || ('\u{2066}'..='\u{2069}').contains(c);
        (c.is_control() && *c != '\n') || direction
    };
    text.chars().find(is_obeyed).map(|c| format!("{c:?}"))
}

#[test]
fn no_command_passes_on_what_a_terminal_obeys() {
    let named = named();
    let listed = String::from_utf8(named.run("ls I", b"").stdout).unwrap();
    let expected = [
        "bell\\x07",
        "bidi\\u202e\\u2066x",
        "byte\\\\xff",
        "byte\\xfe",
        "byte\\xff",
        "c1\\u009b31m",
        "delete\\u007f",
        "esc\\x1b[31m",
        "line\\x0afeed",
        "link",
        "return\\x0dx",
    ];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let label = String::from_utf8(named.run("info I", b"").stdout).unwrap();
    assert!(label.starts_with("label         label\\x1b[1m\n"), "{label}");
    let mut wrong = Vec::new();
    for command in COMMANDS {
        for name in [NAMES[0], NAMES[5], NAMES[6], NAMES[7]] {
            let out = named.run(command, name);
            for (stream, text) in [("stdout", &out.stdout), ("stderr", &out.stderr)] {
                wrong.extend(obeyed(text).map(|what| format!("{command} on {stream}: {what}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The bytes that a field of JSON stands for.
fn bytes(object: &Value, key: &str) -> Vec<u8> {
    match object[format!("{key}_bytes")].as_str() {
        None => object[key].as_str().unwrap_or_else(|| panic!("{object}")).as_bytes().to_vec(),
        Some(hex) => {
            let digits = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digits).collect()
        }
    }
}

#[test]
fn json_has_the_bytes_of_every_name() {
    let named = named();
    let mut expected: Vec<Vec<u8>> = NAMES.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    let lists: [(&str, &str, &str); 5] = [
        ("ls --json I", "/files", "path"),
        ("extents --all --json --image I /", "/files", "path"),
        ("dump --json I dentry /", "/entries", "name"),
        ("rescue --list --json I", "/files", "path"),
        ("undelete --json I", "/files", "path"),
    ];
    for (command, at, key) in lists {
        let answer = named.json(command, b"");
        let list = answer.pointer(at).unwrap().as_array().unwrap();
        let mut found: Vec<Vec<u8>> = list.iter().map(|item| bytes(item, key)).collect();
        for path in &mut found {
            for dir in [&b"deleted/"[..], b"/"] {
                *path = path.strip_prefix(dir).unwrap_or(path).to_vec();
            }
        }
        found.retain(|path| ![&b"."[..], b"..", b"link", b"deleted"].contains(&path.as_slice()));
        found.sort();
        assert_eq!(found, expected, "{command}");
    }
    for name in NAMES {
        let path = [b"/", name].concat();
        assert_eq!(bytes(&named.json("stat --json I P", name), "path"), path);
        assert_eq!(bytes(&named.json("extents --json --image I P", name)["files"][0], "path"), path);
        assert_eq!(bytes(&named.json("getfattr --json I P", name)["files"][0], "path"), path);
        assert_eq!(bytes(&named.json("dump --json I path P", name)["inode"], "i_name"), name);
    }
    let link = named.json("stat --json I /link", b"");
    assert_eq!(
        (bytes(&link, "target"), &link["target"]),
        (b"target\x1b\xff".to_vec(), &"target\\x1b\\xff".into())
    );
    let of = named.json("stat --json I P", NAMES[0]);
    assert_eq!(
        (&of["xattrs"][0], &of["xattrs_bytes"][0]),
        (&"user.x\\x1b\\xff".into(), &"757365722e781bff".into())
    );
}

#[test]
fn every_name_can_be_an_argument() {
    let named = named();
    for name in NAMES {
        let done = |command: &str| {
            let out = named.run(command, name);
            assert!(out.status.success(), "{command}: {out:?}");
            out.stdout
        };
        assert_eq!(done("cat I P"), name);
        done("get I P D");
        assert_eq!(std::fs::read(named.scratch.path("new")).unwrap(), name);
        assert_eq!(done("get I P -"), name);
        for command in ["ls I P", "stat I P", "extents --image I P", "dump I path P", "dump I xattr P"] {
            done(command);
        }
        for command in ["touch I P", "chmod I 600 P", "getfattr I P", "rm I P"] {
            done(command);
        }
        done("put -f I F P");
        assert_eq!(done("cat I P"), name);
        let lost = named.json("undelete --json I /deleted", name);
        assert_eq!(lost["files"].as_array().unwrap().len(), NAMES.len());
    }
    let answer = named.run("undelete --json I /deleted/byte\u{fffd}", b"");
    assert_eq!(serde_json::from_slice::<Value>(&answer.stdout).unwrap()["files"], serde_json::json!([]));
    let one = OsString::from_vec(b"/deleted/byte\xff".to_vec());
    let lost = json(&[OsStr::new("undelete"), OsStr::new("--json"), &named.image, &one]);
    assert_eq!(lost["files"].as_array().unwrap().len(), 1);
}

/// The path of an image is a name too, and refusals have it.
#[test]
fn no_refusal_passes_on_what_a_terminal_obeys() {
    let scratch = Scratch::new();
    let image = scratch.path("zeros\x1b[2J\n\u{9b}");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let (host, mount) = (scratch.path("host"), scratch.path("mount"));
    std::fs::write(&host, "host").unwrap();
    std::fs::create_dir(&mount).unwrap();
    for (command, code) in super::contents::COMMANDS {
        let words = command.split(' ').map(|word| match word {
            "IMAGE" => image.clone(),
            "FILE" => host.clone(),
            "NEW" => scratch.path("new"),
            "MNT" => mount.clone(),
            word => word.into(),
        });
        let out = segno(&words.collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(*code), "{command}: {said}");
        assert!(said.contains("zeros\\x1b[2J\\x0a\\u009b"), "{command}: {said}");
        assert_eq!([obeyed(&out.stdout), obeyed(&out.stderr)], [None, None], "{command}");
        let _gone = std::fs::remove_dir(scratch.path("new"));
    }
}

/// Files of the command that use standard output or standard error themselves: the printer; a pipe; contents of files and archives; pictures
/// and screens of numbers.
const UNFILTERED: [&str; 8] = [
    "out.rs",
    "progress.rs",
    "mount/background.rs",
    "commands/cat.rs",
    "commands/get.rs",
    "commands/extract.rs",
    "commands/map.rs",
    "top/mod.rs",
];

#[test]
fn text_is_printed_in_one_place() {
    let mut dirs = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let (mut seen, mut wrong) = (0, Vec::new());
    while let Some(dir) = dirs.pop() {
        for path in dir.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            seen += 1;
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let direct = |line: &&str| {
                let imported = line.starts_with("use std::io::")
                    && ["stdout", "stderr"].iter().any(|w| line.contains(w));
                imported || line.contains("io::stdout()") || line.contains("io::stderr()")
            };
            if !UNFILTERED.iter().any(|name| path.ends_with(name)) {
                wrong.extend(text.lines().filter(direct).map(|line| format!("{}: {line}", path.display())));
            }
        }
    }
    assert!(seen > 80 && wrong.is_empty(), "{seen} files: {wrong:#?}");
}
