//! No command takes other contents for a volume, changes them, or advises to format over them.
use super::{Scratch, output, refusal};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

/// Commands that open a volume, with IMAGE, FILE (a file on the host), MNT (a directory) and NEW (a path that does not exist), and their exit code
/// for other contents.
pub const COMMANDS: &[(&str, i32)] = &[
    ("ls IMAGE", 1),
    ("cat IMAGE /x", 1),
    ("get IMAGE /x NEW", 1),
    ("put IMAGE FILE", 1),
    ("extract IMAGE NEW", 1),
    ("check IMAGE", 8),
    ("check -a IMAGE", 8),
    ("check -y IMAGE", 8),
    ("check -y --to NEW IMAGE", 8),
    ("rescue IMAGE NEW", 1),
    ("rescue --to-image NEW IMAGE", 1),
    ("undelete --list IMAGE", 1),
    ("dump IMAGE sb", 1),
    ("info IMAGE", 1),
    ("mount IMAGE MNT", 1),
    ("journal info IMAGE", 1),
    ("journal replay IMAGE", 1),
    ("journal discard IMAGE", 1),
    ("stat IMAGE /x", 1),
    ("extents --image IMAGE /x", 1),
    ("map IMAGE", 1),
    ("report IMAGE", 1),
    ("label IMAGE", 1),
    ("label IMAGE card", 1),
    ("build IMAGE NEW", 1),
    ("rm -f IMAGE /none", 1),
    ("mkdir -p IMAGE /made", 1),
    ("touch IMAGE /made/file", 1),
    ("mv IMAGE /none /made", 1),
    ("ln -sf IMAGE file /made/link", 1),
    ("chmod IMAGE 644 /made/file", 1),
    ("chown IMAGE 1:2 /made/file", 1),
    ("setfattr -n user.x IMAGE /made/file", 1),
    ("getfattr -d IMAGE /made/file", 1),
    ("shell -c ls IMAGE", 1),
];

struct Case {
    name: &'static str,
    path: PathBuf,
    /// Follows the path in messages.
    said: &'static str,
}

fn run(program: &str, args: &[&str], path: &Path) {
    let done = Command::new(program).args(args).arg(path).output().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
}

fn sparse(path: &Path) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(64 * MIB).unwrap();
    file
}

fn random(bytes: u64) -> Vec<u8> {
    let mut all = Vec::new();
    File::open("/dev/urandom").unwrap().take(bytes).read_to_end(&mut all).unwrap();
    all
}

/// A volume with files whose first bytes are replaced.
fn wiped(scratch: &Scratch, path: &Path, start: &[u8]) {
    let tree = scratch.path("files");
    if !tree.exists() {
        std::fs::create_dir(&tree).unwrap();
        (0..40).for_each(|i| std::fs::write(tree.join(format!("file{i}")), vec![b'a'; 5000]).unwrap());
    }
    output(&["mkfs", "-q", "--size", "64M", path.to_str().unwrap()]);
    output(&["put", path.to_str().unwrap(), tree.to_str().unwrap()]);
    File::options().write(true).open(path).unwrap().write_all_at(start, 0).unwrap();
}

fn cases(scratch: &Scratch) -> Vec<Case> {
    let case = |name: &'static str, said: &'static str, make: &dyn Fn(&Path)| {
        let path = scratch.path(name);
        make(&path);
        Case { name, path, said }
    };
    let marked =
        |at: u64, mark: &'static [u8]| move |path: &Path| sparse(path).write_all_at(mark, at).unwrap();
    let unfinished = segno_device::unfinished_format();
    vec![
        case("ext4", "holds an ext4 file system, not an F2FS volume", &|path| {
            sparse(path);
            run("mkfs.ext4", &["-q"], path);
        }),
        case("xfs", "holds an XFS file system, not an F2FS volume", &marked(0, b"XFSB")),
        case(
            "gpt",
            "holds a partition table (GPT), not an F2FS volume: `segno find",
            &marked(512, b"EFI PART"),
        ),
        case("luks", "holds a LUKS volume, not an F2FS volume: open it with", &marked(0, b"LUKS\xBA\xBE")),
        case(
            "super",
            "holds an Android super image, not an F2FS volume: `segno find",
            &marked(4096, b"gDla"),
        ),
        case("xz", "holds data compressed by xz, not an F2FS volume: unpack", &marked(0, b"\xFD7zXZ\0")),
        case("zeros", "is empty: there are only zeros where it was read", &|path| drop(sparse(path))),
        case("unfinished", "was being formatted when that was interrupted; run the", &|path| {
            (0..2).for_each(|n| sparse(path).write_all_at(&unfinished.0, n * 4096).unwrap());
        }),
        case("wiped", "has remains of an F2FS volume without superblock", &|path| {
            wiped(scratch, path, &vec![0; MIB as usize]);
        }),
        case("overwritten", "has remains of an F2FS volume without superblock", &|path| {
            wiped(scratch, path, &random(MIB));
        }),
    ]
}

#[test]
fn every_command_names_other_contents_and_leaves_them_alone() {
    let scratch = Scratch::new();
    let file = scratch.path("file");
    std::fs::write(&file, "host").unwrap();
    let mnt = scratch.path("mnt");
    std::fs::create_dir(&mnt).unwrap();
    for Case { name, path, said } in cases(&scratch) {
        let before = std::fs::read(&path).unwrap();
        for (command, expected) in COMMANDS {
            let remains = name == "wiped" || name == "overwritten";
            // They bring the files of such a volume back.
            if remains && (command.starts_with("rescue") || command.starts_with("undelete")) {
                continue;
            }
            let new = scratch.path("new");
            let words = command.split(' ').map(|word| match word {
                "IMAGE" => path.to_str().unwrap(),
                "FILE" => file.to_str().unwrap(),
                "NEW" => new.to_str().unwrap(),
                "MNT" => mnt.to_str().unwrap(),
                word => word,
            });
            let (code, message) = refusal(&words.collect::<Vec<_>>());
            let context = format!("{command} on {name}: {code} {message}");
            assert_eq!(code, *expected, "{context}");
            // A rescue first names the device that it scans.
            let start = format!("segno: {}", path.display());
            assert!(message.contains(&path.display().to_string()), "{context}, not {start}");
            let said = if command.starts_with("rescue") || command.starts_with("undelete") {
                said.split(", not an").next().unwrap()
            } else {
                said
            };
            assert!(message.contains(said), "{context}");
            assert_eq!(message.matches(said).count(), 1, "{context}");
            assert!(!message.contains("mkfs"), "{context}");
            // A rescue opens its target before the search, which may take hours.
            let made = new.exists() && (!command.starts_with("rescue") || std::fs::remove_dir(&new).is_err());
            assert!(!made, "{context}: something was made");
            if remains && *command != "build IMAGE NEW" {
                let advice = format!("`segno rescue {} DIR` copies its files", path.display());
                assert!(message.contains(&advice), "{context}");
            }
        }
        assert!(std::fs::read(&path).unwrap() == before, "{name} was changed");
    }
}

#[test]
fn mkfs_refuses_all_contents_without_force_and_says_nothing_else() {
    let scratch = Scratch::new();
    for Case { name, path, said } in cases(&scratch).into_iter().filter(|case| case.name != "zeros") {
        let before = std::fs::read(&path).unwrap();
        let (code, message) = refusal(&["mkfs", path.to_str().unwrap()]);
        let said = said.split(", not an").next().unwrap();
        assert!(
            code == 1 && message.contains(said) && message.ends_with("overwrite it with -f\n"),
            "{name}: {message}"
        );
        assert!(std::fs::read(&path).unwrap() == before, "{name} was changed");
        output(&["mkfs", "-q", "-f", path.to_str().unwrap()]);
        assert!(output(&["check", path.to_str().unwrap()]).ends_with("clean\n"), "{name}");
    }
    let rescued = scratch.path("rescued");
    let lost = scratch.path("lost");
    wiped(&scratch, &lost, &random(MIB));
    refusal(&["mkfs", lost.to_str().unwrap()]);
    output(&["rescue", lost.to_str().unwrap(), rescued.to_str().unwrap()]);
    assert_eq!(rescued.join("files").read_dir().unwrap().count(), 40);
}

/// Messages of refusals, in all crates that users run.
#[test]
fn no_refusal_proposes_to_format() {
    /// Help, and advice about new volumes.
    const OTHERS: &[&str] =
        &["cli/src/manual/facts.rs", "cli/src/advice.rs", "cli/src/commands/report/findings.rs"];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut dirs, mut seen) = (Vec::new(), 0);
    for name in
        ["capi", "check", "cli", "device", "dump", "engine", "fuse", "image", "journal", "python", "repair"]
    {
        dirs.push(crates.join(name).join("src"));
    }
    dirs.extend(
        ["host", "rescue", "segno", "sparse", "store", "virtiofs"].map(|name| crates.join(name).join("src")),
    );
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir().unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            seen += 1;
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let product = text.split("#[cfg(test)]").next().unwrap();
            let proposals =
                product.lines().filter(|l| l.contains("`segno mkfs") && !l.trim_start().starts_with("//"));
            let excused =
                OTHERS.iter().any(|other| path.ends_with(other)) || path.ends_with("options/table.rs");
            let found: Vec<_> = proposals.filter(|_| !excused).collect();
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
    assert!(seen > 300, "{seen} files");
}

#[test]
fn a_preallocated_image_keeps_its_storage() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let storage = |path: &Path| path.metadata().unwrap().blocks() * 512;
    let (made, given) = (scratch.path("made"), scratch.path("given"));
    let [made_name, given_name] = [&made, &given].map(|path| path.to_str().unwrap());
    output(&["mkfs", "-q", "--size", "64M", "--preallocate", made_name]);
    assert!(storage(&made) >= 64 * MIB, "{}", storage(&made));
    run("fallocate", &["-l", "64M"], &given);
    output(&["mkfs", "-q", given_name]);
    output(&["mkfs", "-q", "-f", given_name]);
    assert!(storage(&given) >= 64 * MIB, "{}", storage(&given));
    assert!(output(&["check", given_name]).ends_with("clean\n"));
    output(&["mkfs", "-q", "-f", "-t", "1", given_name]);
    assert!(storage(&given) < MIB, "{}", storage(&given));
}

/// Starts a build of an archive that does not end, and kills it once the new file is there.
fn killed_build(scratch: &Scratch, args: &[&str]) {
    let mut build = Command::new(env!("CARGO_BIN_EXE_segno"));
    build.arg("build").args(args).arg("-").arg(scratch.path("out/image")).stdin(Stdio::piped());
    let mut build = build.spawn().unwrap();
    build.stdin.as_mut().unwrap().write_all(&[0; 100]).unwrap();
    let dir = scratch.path("out").canonicalize().unwrap();
    let has_file = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", build.id())).unwrap().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|file| file.starts_with(&dir))
    };
    while !has_file() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    build.kill().unwrap();
    build.wait().unwrap();
}

#[test]
fn a_killed_build_leaves_no_file_and_keeps_the_one_to_be_replaced() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("out")).unwrap();
    let names =
        || scratch.path("out").read_dir().unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    killed_build(&scratch, &[]);
    assert!(names().is_empty(), "{:?}", names());
    std::fs::write(scratch.path("out/image"), "old").unwrap();
    killed_build(&scratch, &["-f"]);
    assert_eq!(
        (names(), std::fs::read(scratch.path("out/image")).unwrap()),
        (vec!["image".into()], b"old".to_vec())
    );
    output(&[
        "build",
        "-f",
        scratch.dir.path().join("out").to_str().unwrap(),
        scratch.path("next").to_str().unwrap(),
    ]);
}
