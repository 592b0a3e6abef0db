//! JSON documents: runs each command that takes --json, and validates its output with its schema in
//! docs/schema.
use super::can_mount;
use clap::Command as CommandLine;
use segno_testkit::documents;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The name of a schema, or nothing, and a command. A line that begins with `mnt:` needs a mount.
const ROWS: &[(&str, &str)] = &[
    (
        "",
        "mkdir tree mnt && echo hello >tree/hello && ln -s hello tree/link && mkfifo tree/fifo && truncate -s 1M tree/hole",
    ),
    ("mkfs", "segno mkfs --json --size 128M -O extra_attr,inode_crtime --journal 16M disk.img"),
    ("journal-replay", "segno journal replay --json disk.img"),
    ("journal-info", "segno journal info --json disk.img"),
    ("put", "segno put --json disk.img tree"),
    ("label", "segno label --json disk.img"),
    ("label", "segno label --json disk.img name"),
    ("report", "segno report --json disk.img"),
    ("", "segno setfattr -n user.a -v b disk.img /tree/hello"),
    ("getfattr", "segno getfattr --json disk.img /tree/hello /tree"),
    ("ls", "segno ls --json -R disk.img"),
    ("ls", "segno ls --json disk.img tree/hello"),
    ("ls", "segno mkfs -q --size 64M empty.img && segno ls --json empty.img"),
    ("stat", "segno stat --json disk.img tree/hello"),
    ("stat", "segno stat --json disk.img tree/link"),
    ("extents", "segno extents --json --all --image disk.img /"),
    ("get", "segno get --json disk.img tree copy"),
    ("info", "segno info --json disk.img"),
    ("map", "segno map --json disk.img"),
    ("check", "segno check --json disk.img"),
    ("check", "segno check --json -a disk.img"),
    (
        "check",
        "cp disk.img damaged.img && dd if=/dev/zero of=damaged.img bs=4096 seek=$(segno dump --json disk.img sb | sed -n 's/.*nat_blkaddr.: \\([0-9]*\\).*/\\1/p' | head -1) count=1024 conv=notrunc status=none; segno check --json -n damaged.img",
    ),
    ("find", "segno find --json disk.img"),
    ("find", "truncate -s 16M zeros.img; segno find --json zeros.img"),
    ("journal-info", "segno journal info --json disk.img"),
    ("journal-discard", "segno journal discard --json disk.img"),
    ("journal-info", "segno journal info --json disk.img"),
    ("journal-create", "segno journal create --json disk.img"),
    ("journal-resize", "segno journal resize --json --size 8M disk.img"),
    ("journal-remove", "segno journal remove --json disk.img"),
    ("journal-create", "segno journal create --json disk.img"),
    ("rescue", "segno rescue --json --list disk.img"),
    ("rescue", "segno rescue --json disk.img rescued"),
    ("build", "segno build --json tree/hello system.img || segno build --json rescued/tree system.img"),
    ("extract", "segno extract --json system.img extracted"),
    ("sparse", "segno sparse pack --json disk.img sparse.img"),
    ("sparse", "segno sparse unpack --json sparse.img raw.img"),
    ("dump", "segno dump --json disk.img sb"),
    ("dump", "segno dump --json disk.img cp 1"),
    ("dump", "segno dump --json disk.img nat 3..6"),
    ("dump", "segno dump --json disk.img sit 0..2"),
    ("dump", "segno dump --json disk.img ssa 0..1"),
    ("dump", "segno dump --json disk.img node 3"),
    ("dump", "segno dump --json --versions disk.img inode 3"),
    ("dump", "segno dump --json disk.img path /tree/hello"),
    ("dump", "segno dump --json disk.img dentry /"),
    ("dump", "segno dump --json disk.img xattr /tree/hello"),
    ("dump", "segno dump --json disk.img orphans"),
    ("dump", "segno dump --json disk.img quota"),
    ("dump", "segno dump --json disk.img chain"),
    ("dump", "segno dump --json disk.img journal"),
    ("dump", "segno dump --json disk.img block 4096"),
    ("dump", "segno dump --json disk.img segment 0"),
    ("dump", "segno dump --json disk.img owner 4096"),
    ("error", "segno ls --json /nonexistent 2>&1"),
    ("error", "segno ls --json --no-such-option 2>&1"),
    #[cfg(feature = "store")]
    (
        "store-info",
        "mkdir store && segno mkfs -q --size 1G file://$PWD/store && segno store info --json file://$PWD/store",
    ),
    ("mount", "mnt: segno mount --json disk.img mnt"),
    ("", "mnt: cp tree/hello mnt/gone && segno sync mnt && rm mnt/gone"),
    ("mounts", "mnt: segno mounts --json"),
    ("report", "mnt: segno report --json mnt"),
    ("sync", "mnt: segno sync --json mnt"),
    ("ctl", "mnt: segno ctl --json mnt"),
    ("ctl", "mnt: segno ctl --json mnt gc=off"),
    ("stats", "mnt: segno stats --json mnt"),
    ("stats-line", "mnt: segno stats --json-lines mnt"),
    ("extents", "mnt: segno extents --json mnt/tree/hello"),
    ("umount", "mnt: segno umount --json mnt"),
    ("undelete", "segno undelete --json disk.img"),
    ("undelete", "segno undelete --json --previous disk.img"),
];

fn run(dir: &Path, line: &str) -> String {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    let out = Command::new("sh").args(["-c", line]).current_dir(dir).env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(!line.contains("--json") || !text.is_empty(), "{line}: {said}");
    text
}

#[test]
fn every_document_follows_its_schema() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_segno"), dir.path().join("bin/segno")).unwrap();
    let mounts = can_mount();
    let mut printed = Vec::new();
    for (schema, line) in ROWS {
        let line = match line.strip_prefix("mnt: ") {
            Some(_) if !mounts => continue,
            Some(line) => line,
            None => line,
        };
        let text = run(dir.path(), line);
        if !schema.is_empty() {
            let document: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{line}: {e}: {text}"));
            assert_eq!(document["schema"], format!("segno.{schema}"), "{line}");
            printed.push(text);
        }
    }
    assert_eq!(documents::wrong(&printed).unwrap(), "");
}

/// Commands with --json below this one, by their words.
fn with_json(command: &CommandLine, words: &str, found: &mut BTreeSet<String>) {
    if command.get_arguments().any(|a| a.get_long() == Some("json")) {
        found.insert(words.to_owned());
    }
    for below in command.get_subcommands() {
        with_json(below, format!("{words} {}", below.get_name()).trim_start(), found);
    }
}

#[test]
fn every_command_with_json_has_a_row() {
    let mut all = BTreeSet::new();
    with_json(&segno_cli::command_line(), "", &mut all);
    assert!(all.len() > 25, "{all:?}");
    let is_run =
        |words: &String| ROWS.iter().any(|(_, line)| line.contains(&format!("segno {words} --json")));
    let missing: Vec<&String> = all.iter().filter(|words| !is_run(words)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The page lists each schema, and nothing that is not there.
#[test]
fn schemas_are_listed() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("json.md")).unwrap();
    let listed: BTreeSet<String> =
        page.split("](schema/").skip(1).map(|rest| rest.split(".json)").next().unwrap().to_owned()).collect();
    let files = std::fs::read_dir(docs.join("schema")).unwrap();
    let there: BTreeSet<String> =
        files.map(|f| f.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(listed, there);
    let run: BTreeSet<String> =
        ROWS.iter().map(|(schema, _)| (*schema).to_owned()).filter(|s| !s.is_empty()).collect();
    let of_lab = ["bench", "crashtest", "hunt", "store-info"].map(str::to_owned).into();
    assert_eq!(there.difference(&run).cloned().collect::<BTreeSet<_>>().difference(&of_lab).next(), None);
}
