//! Completions of the shells, by the shells themselves; the page of `segno bench`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

#[path = "../examples/manual/generated.rs"]
mod generated;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

struct Scripts {
    dir: tempfile::TempDir,
}

impl Scripts {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in generated::completions().unwrap() {
            std::fs::write(dir.path().join(file), text).unwrap();
        }
        Self { dir }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn run(&self, shell: &[&str], script: &str) -> BTreeSet<String> {
        let mut command = Command::new(shell[0]);
        let out = command.args(&shell[1..]).arg(script).current_dir(self.dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.is_empty(), "{script}: {said}");
        String::from_utf8(out.stdout).unwrap().lines().map(|l| l.trim_end().to_owned()).collect()
    }

    /// The completions with which bash replaces the part of the last word that readline replaces.
    fn bash(&self, line: &str) -> BTreeSet<String> {
        let script = format!(
            "source {}; COMP_LINE='{line}' COMP_POINT={} COMP_TYPE=9; _segno_words segno x y 2>&1; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            self.path("segno.bash").display(),
            line.len()
        );
        self.run(&["bash", "--norc", "-c"], &script)
    }

    fn fish(&self, line: &str) -> BTreeSet<String> {
        let script = format!("source {}; complete -C '{line}'", self.path("segno.fish").display());
        let all = self.run(&["fish", "--no-config", "-c"], &script);
        all.iter().map(|l| l.split('\t').next().unwrap().to_owned()).collect()
    }

    /// zsh completes in a separate terminal, which lists the matches.
    fn zsh(&self, line: &str) -> String {
        let script = format!(
            "zmodload zsh/zpty; zpty z zsh -f -i; \
             zpty -w z 'PS1=; fpath=({} $fpath); autoload -U compinit; compinit -u; zstyle \":completion:*\" list-prompt \"\"; \
             LISTMAX=10000; bindkey \"^I\" list-choices; stty rows 200 cols 200; print re\"\"ady'; \
             zpty -r z out '*ready*'; zpty -w -n z $'{line}\\t'; sleep 2; zpty -r -t z more; print -r -- $more; \
             while zpty -r -t z more; do print -r -- $more; done",
            self.dir.path().display()
        );
        let out = Command::new("zsh").args(["-f", "-c", &script]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

fn has(found: &BTreeSet<String>, words: &[&str]) -> bool {
    words.iter().all(|word| found.contains(*word))
}

/// Lines, and words that must be among the completions in fish; in bash only what follows the last `=` or `:` is replaced.
const LINES: &[(&str, &[&str])] = &[
    ("segno mou", &["mount"]),
    ("segno mount --fore", &["--foreground"]),
    ("segno mount -o jour", &["journal=auto", "journal=off"]),
    ("segno mount -o fsync_mode=", &["fsync_mode=strict", "fsync_mode=posix", "fsync_mode=nobarrier"]),
    ("segno mount -o ro,fsync_mode=s", &["ro,fsync_mode=strict"]),
    ("segno mount -o noatime,inline_d", &["noatime,inline_data", "noatime,inline_dentry"]),
    ("segno mount -o gc_policy=g", &["gc_policy=greedy"]),
    ("segno mkfs -O extra", &["extra_attr"]),
    ("segno mkfs -O extra_attr,inode_c", &["extra_attr,inode_checksum", "extra_attr,inode_crtime"]),
    ("segno ctl mnt gc=", &["gc=normal", "gc=urgent", "gc=off", "gc=now"]),
    ("segno ctl mnt fsync.l", &["fsync.lookup", "fsync.lookup=list"]),
    ("segno dump image or", &["orphans"]),
    ("segno bench fs", &["fsync"]),
];

#[test]
fn bash_completes_options_settings_and_structures() {
    let scripts = Scripts::new();
    for (line, words) in LINES {
        let last = line.rsplit(' ').next().unwrap();
        let broken = last.rfind(['=', ':']).map_or(0, |at| at + 1);
        let words: Vec<&str> = words.iter().map(|word| &word[broken..]).collect();
        let found = scripts.bash(line);
        assert!(has(&found, &words), "{line}: {found:?}");
        assert!(found.iter().all(|word| word.starts_with(&last[broken..])), "{line}: {found:?}");
    }
    // Nothing else has lists.
    assert_eq!(scripts.bash("segno info a,b"), BTreeSet::from([String::new()]));
}

#[test]
fn fish_completes_options_settings_and_structures() {
    let scripts = Scripts::new();
    for (line, words) in LINES {
        let found = scripts.fish(line);
        assert!(has(&found, words), "{line}: {found:?}");
    }
}

#[test]
fn zsh_completes_options_settings_and_structures() {
    let scripts = Scripts::new();
    for (line, words) in LINES {
        let shown = scripts.zsh(line);
        for word in *words {
            let last = word.rsplit(',').next().unwrap();
            assert!(shown.contains(last), "{line}: {word} is not in {shown}");
        }
    }
}

#[test]
fn the_page_of_bench_has_the_options_of_every_experiment() {
    let pages = generated::pages(1_705_276_800);
    let page = &pages.iter().find(|p| p.name == "segno-bench").unwrap().text;
    for experiment in ["device", "fsync", "gc", "journal", "peers", "run", "writeback"] {
        let (_, text) = page.split_once(&format!("\n.SS {experiment}\n")).expect(experiment);
        let own = text.split("\n.S").next().unwrap();
        assert!(
            own.contains("\\fB\\-\\-json\\fR") && own.contains("\\fB\\-\\-rounds\\fR"),
            "{experiment}: {own}"
        );
    }
    assert!(page.contains(" 1 \"2024-01-15\" "), "{page}");
}
