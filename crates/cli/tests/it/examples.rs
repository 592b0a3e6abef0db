//! The example in the help of every command, run as it is.
use segno_cli::manual::{EXAMPLES, Page, SYSTEM_EXAMPLES};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

struct Place {
    dir: tempfile::TempDir,
    path: String,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        for made in [&bin, &dir.path().join("mnt"), &dir.path().join("tree")] {
            fs::create_dir(made).unwrap();
        }
        fs::write(dir.path().join("tree/hello"), "hello\n").unwrap();
        for name in ["segno", "mkfs.segno", "fsck.segno", "mount.segno"] {
            symlink(env!("CARGO_BIN_EXE_segno"), bin.join(name)).unwrap();
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Self { dir, path }
    }

    fn shell(&self, words: &str) -> Output {
        Command::new("sh")
            .args(["-c", words])
            .current_dir(self.dir.path())
            .env("PATH", &self.path)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn succeeds(&self, words: &str) {
        let out = self.shell(words);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{words}: {} {said}", out.status);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Only a failed test leaves the mount.
        let _ended = self.shell("segno umount mnt");
    }
}

/// `top` needs a terminal.
fn in_terminal(example: &str) -> String {
    format!("(sleep 2; printf q) | timeout 60 script -qec 'stty rows 24 cols 80; {example}' /dev/null")
}

/// `export` ends when its guest does, or by a signal.
fn until_it_listens(example: &str) -> String {
    format!("{example} & server=$!; until [ -S vm.sock ]; do sleep 0.1; done; kill $server; wait $server")
}

#[test]
fn every_example_runs() {
    let place = Place::new();
    let can_mount = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    for (name, example) in EXAMPLES.iter().chain(SYSTEM_EXAMPLES) {
        let needs_mount = example.split(' ').any(|word| word == "mnt");
        if needs_mount && !can_mount {
            println!("NOT TESTED: {example}: /dev/fuse cannot be opened");
            continue;
        }
        let words = match *name {
            "top" => in_terminal(example),
            "export" => until_it_listens(example),
            _ => (*example).to_owned(),
        };
        place.succeeds(&words);
    }
    for made in ["map.svg", "report.html", "copy/hello", "extracted/hello", "rescued/tree/hello"] {
        assert!(place.dir.path().join(made).exists(), "{made}");
    }
}

/// The documented examples are the ones that were run.
#[test]
fn help_and_manual_pages_have_the_examples() {
    let place = Place::new();
    for (name, example) in EXAMPLES {
        let out = place.shell(&format!("segno {name} --help"));
        assert!(String::from_utf8_lossy(&out.stdout).contains(example), "{name}");
    }
    let pages = super::manual::pages();
    for (name, example) in EXAMPLES.iter().chain(SYSTEM_EXAMPLES) {
        let is_of = |page: &&Page| page.name == *name || page.name == format!("segno-{name}");
        let page = pages.iter().find(is_of).unwrap();
        assert!(page.text.replace("\\-", "-").contains(example), "{name}");
    }
}
