//! Small archives that unpack to much: a global header that applies to thousands of entries, paths of thousands of directories,
//! sparse files in a million parts. `segno build` has 256 MiB of address space here.
use super::Scratch;
use segno_testkit::Archive;
use std::io::Write;
use std::process::{Command, Stdio};

/// Compressed by gzip, as a file.
fn save(archive: Archive, scratch: &Scratch) -> String {
    let path = scratch.path("archive.tar.gz");
    let out = std::fs::File::create(&path).unwrap();
    let mut gzip = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(out).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(&archive.finish()).unwrap();
    assert!(gzip.wait().unwrap().success());
    path.display().to_string()
}

/// Exit code and standard error of a build that has 256 MiB of address space.
fn build(archive: Archive, options: &[&str]) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let archive = save(archive, &scratch);
    let out = scratch.path("out");
    let script = "ulimit -v 262144; export MALLOC_ARENA_MAX=1; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_segno"), "build", "-j", "1"]).args(options);
    let done = command.arg(archive).arg(&out).output().unwrap();
    assert_eq!(out.exists(), done.status.success());
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn small_archives_that_unpack_to_much_are_built_or_refused_in_256_mib() {
    let many = |make: &dyn Fn(Archive, usize) -> Archive, n: usize| (0..n).fold(Archive::default(), make);
    let refused: [(Archive, &[&str], &str); 7] = [
        (
            Archive::global("SCHILY.xattr.user.x", 1_000_000).files(3000),
            &[],
            "file0 has 1000006 bytes of extended attributes, more than a volume has room for",
        ),
        (Archive::global("SCHILY.xattr.user.x", 15_000).files(3000), &[], "made to exhaust the memory"),
        (
            Archive::global("GNU.sparse.map", 1_000_000).files(3000),
            &[],
            "a global header has GNU.sparse.map of one file",
        ),
        (Archive::global("path", 1_000_000).files(3000), &[], "a global header has path of one file"),
        (Archive::default().deep(0, 40_000), &[], "it is below more than 32768 directories"),
        (many(&|a, _| a.deep(0, 20_000), 30), &["--exclude-regex", "^x"], "too deep to be compared"),
        (many(&|a, i| a.deep(i, 1000), 3000), &[], "made to exhaust the memory"),
    ];
    for (archive, options, why) in refused {
        let (code, said) = build(archive, options);
        assert!(
            code == Some(1) && said.contains(why) && said.contains("archive.tar.gz, entry "),
            "{why}: {code:?} {said}"
        );
    }
    let built: [(Archive, &[&str]); 5] = [
        (Archive::global("comment", 1_000_000).files(3000), &[]),
        (Archive::global("SCHILY.xattr.user.x", 100).files(3000), &[]),
        (many(&|a, _| a.deep(0, 20_000), 30), &[]),
        (many(&|a, _| a.deep(0, 1000), 30), &["--exclude-path", "other", "--exclude-regex", "^x"]),
        (many(&|a, _| a.parts(100_000), 10), &[]),
    ];
    for (archive, options) in built {
        let (code, said) = build(archive, options);
        assert_eq!((code, said.as_str()), (Some(0), ""));
    }
}
