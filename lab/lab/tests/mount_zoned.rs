//! `segno-lab mount-zoned`: a full volume is overwritten through FUSE.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use segno_testkit::Rng;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const BLOCK: usize = 4096;

/// The program, and its standard output.
struct Mounted {
    server: Child,
    prints: BufReader<ChildStdout>,
    dir: tempfile::TempDir,
}

impl Mounted {
    /// Returns when the mount responds, with the line that names the transport.
    fn new(options: &str) -> (Self, String) {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_segno-lab"))
            .args(["mount-zoned", "--zones", "36", "--segments", "1", "--reserved", "12", "-o", options])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut mounted = Self { prints: BufReader::new(server.stdout.take().unwrap()), server, dir };
        let mut line = String::new();
        mounted.prints.read_line(&mut line).unwrap();
        assert!(line.starts_with("mounted at "), "{options}: {line}");
        (mounted, line)
    }

    /// Ends it as a signal does, and returns what it printed last.
    fn end(mut self) -> String {
        let ended = Command::new("kill").arg(self.server.id().to_string()).status().unwrap();
        assert!(ended.success());
        let mut rest = String::new();
        self.prints.read_to_string(&mut rest).unwrap();
        assert!(self.server.wait().unwrap().success(), "{rest}");
        rest
    }
}

/// Writes a file until the volume is full. Returns its blocks.
fn fill(path: &Path) -> u64 {
    let (mut file, block) = (File::create(path).unwrap(), [0; BLOCK]);
    let mut blocks = 0;
    while file.write_all(&block).is_ok() {
        blocks += 1;
    }
    file.sync_all().unwrap();
    blocks
}

#[test]
fn a_full_volume_is_overwritten_over_both_transports() {
    if OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        println!("NOT TESTED: /dev/fuse cannot be opened");
        return;
    }
    let uring = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    for transport in ["classic", "io_uring"] {
        if transport == "io_uring" && !uring.as_ref().is_ok_and(|on| on.starts_with('Y')) {
            println!("NOT TESTED: the kernel has no FUSE over io_uring");
            continue;
        }
        let (mounted, line) = Mounted::new(&format!("transport={transport},cache=8M"));
        assert!(line.contains(&format!(", {transport}")), "{line}");
        let path = mounted.dir.path().join("file");
        let blocks = fill(&path);
        assert!(blocks > 8_000, "{blocks}");
        let (mut rng, mut holds) = (Rng::new(1), vec![0; blocks as usize]);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        for n in 1..=blocks {
            let at = rng.below(blocks);
            holds[at as usize] = n as u8;
            file.write_all_at(&[n as u8; BLOCK], at * BLOCK as u64).unwrap();
        }
        file.sync_all().unwrap();
        let mut block = [0; BLOCK];
        for (at, &value) in (0..).zip(&holds) {
            file.read_exact_at(&mut block, at * BLOCK as u64).unwrap();
            assert_eq!(block, [value; BLOCK], "{transport}: block {at}");
        }
        drop(file);
        let said = mounted.end();
        assert!(said.starts_with("clean; ") && said.ends_with("no rule broken\n"), "{transport}: {said}");
    }
}
