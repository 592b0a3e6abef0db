//! Small archives that unpack to much: a global header that applies to thousands of entries, paths of thousands of directories,
//! sparse files in a million parts. `segno build` has 256 MiB of address space here.
use super::Scratch;
use std::io::Write;
use std::process::{Command, Stdio};

/// Bytes of an archive, without its end.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn entry(&mut self, path: &str, kind: u8, bytes: &[u8]) {
        let mut block = [0u8; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, path.as_bytes());
        put(100, b"0000644\x000000000\x000000000\x00");
        put(124, format!("{:011o}\0", bytes.len()).as_bytes());
        put(136, b"00000000144\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    /// Files of a name with a number each.
    fn files(mut self, count: usize) -> Self {
        (0..count).for_each(|i| self.entry(&format!("file{i}"), b'0', b""));
        self
    }

    /// An extended header with records.
    fn extended(mut self, kind: u8, records: &[(&str, String)]) -> Self {
        let each = records.iter().map(|(key, value)| {
            let rest = key.len() + value.len() + 3;
            let len = (rest + 1..).find(|n| n - n.to_string().len() == rest).unwrap();
            format!("{len} {key}={value}\n")
        });
        self.entry("extended", kind, each.collect::<String>().as_bytes());
        self
    }

    fn global(key: &str, bytes: usize) -> Self {
        Self::default().extended(b'g', &[(key, "x".repeat(bytes))])
    }

    /// A file below a path of directories whose first one has a number.
    fn deep(self, number: usize, levels: usize) -> Self {
        let path = format!("{number}{}/file", "/d".repeat(levels - 1));
        let mut archive = self.extended(b'x', &[("path", path)]);
        archive.entry("file", b'0', b"");
        archive
    }

    /// A file of parts that are a byte each.
    fn parts(self, count: usize) -> Self {
        let mut list = format!("{count}\n");
        (0..count).for_each(|i| list += &format!("{i}\n1\n"));
        list += &"\0".repeat(list.len().next_multiple_of(512) - list.len());
        let number = self.0.len();
        let keys = [("GNU.sparse.major", "1".to_owned()), ("GNU.sparse.realsize", count.to_string())];
        let mut archive = self.extended(b'x', &keys);
        archive.entry(&format!("parts{number}"), b'0', &[list.as_bytes(), &vec![b'p'; count]].concat());
        archive
    }

    /// Compressed by gzip, as a file.
    fn save(mut self, scratch: &Scratch) -> String {
        self.0.extend_from_slice(&[0; 1024]);
        let path = scratch.path("archive.tar.gz");
        let out = std::fs::File::create(&path).unwrap();
        let mut gzip = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(out).spawn().unwrap();
        gzip.stdin.take().unwrap().write_all(&self.0).unwrap();
        assert!(gzip.wait().unwrap().success());
        path.display().to_string()
    }
}

/// Exit code and standard error of a build that has 256 MiB of address space.
fn build(archive: Archive, options: &[&str]) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let archive = archive.save(&scratch);
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
