//! The duty of each command on a volume of which areas are wiped.
use super::super::{json, segno};
use super::AREAS;
use super::tools::Volume;
use super::tree::{Tree, difference, read};
use segno_format::BLOCK_SIZE;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Words by which a refusal names what is missing.
const MISSING: [&str; 6] = ["superblock", "checkpoint", "NAT", "SIT", "summary", "F2FS"];

/// Areas without which it is not known which files were deleted: packs, SIT, NAT.
const NEEDED: u8 = 0b01110;
/// Areas that a small volume can be whole without: SIT, SSA.
const SPARE: u8 = 0b10100;

/// A volume of which areas are wiped.
pub struct Wiped<'v> {
    volume: &'v Volume,
    areas: u8,
}

/// Runs every command; returns what is wrong.
pub fn judge<'v>(volume: &'v Volume, areas: u8) -> Vec<String> {
    let wiped = Wiped::new(volume, areas, 0);
    // Whether it counts what fsync wrote after the checkpoint.
    type Check<'v> = fn(&Wiped<'v>) -> Option<String>;
    let checks: [(&str, bool, Check<'v>); 7] = [
        ("rescue", true, Wiped::rescue),
        ("undelete", false, Wiped::undelete),
        ("check", true, Wiped::check),
        ("extract", false, Wiped::extract),
        ("get", false, Wiped::get),
        ("library", false, Wiped::library),
        ("repair", true, Wiped::repair),
    ];
    checks
        .iter()
        .filter(|(_, recovers, _)| *recovers || !volume.crashed)
        .filter_map(|(name, _, check)| check(&wiped).map(|fault| format!("{name}: {fault}")))
        .collect()
}

/// The output of a command, on one line.
fn said(out: &Output) -> String {
    let text = [&out.stderr[..], &out.stdout].concat();
    String::from_utf8_lossy(&text).lines().take(12).collect::<Vec<_>>().join(" | ")
}

impl<'v> Wiped<'v> {
    /// Fills areas with a byte.
    pub fn new(volume: &'v Volume, areas: u8, fill: u8) -> Self {
        let sb = json(&["dump", "--json", volume.first(), "sb"])["copies"][0].clone();
        let at = |name: &str| sb[name].as_u64().unwrap();
        let starts = ["cp_blkaddr", "sit_blkaddr", "nat_blkaddr", "ssa_blkaddr", "main_blkaddr"].map(at);
        let ranges = std::iter::once(0..2).chain(starts.windows(2).map(|w| w[0]..w[1]));
        let first = File::options().write(true).open(volume.first()).unwrap();
        for (bit, range) in ranges.enumerate().filter(|(bit, _)| areas & 1 << bit != 0) {
            assert!(bit < AREAS.len());
            let bytes = (range.end - range.start) as usize * BLOCK_SIZE;
            first.write_all_at(&vec![fill; bytes], range.start * BLOCK_SIZE as u64).unwrap();
        }
        Self { volume, areas }
    }

    fn path(&self) -> &str {
        self.volume.first()
    }

    /// A command with the option for further devices.
    fn run(&self, command: &[&str], operands: &[&str]) -> Output {
        let others = self.volume.devices[1..].iter().flat_map(|d| ["--device", d.to_str().unwrap()]);
        let others: Vec<&str> = others.collect();
        segno(&[command, &others, &[self.path()], operands].concat())
    }

    fn target(&self) -> PathBuf {
        let target = self.volume.beside("target");
        let _absent = fs::remove_dir_all(&target);
        target
    }

    /// Everything under its path, and nothing doubtful.
    fn rescue(&self) -> Option<String> {
        let target = self.target();
        let to = target.to_str().unwrap();
        let out = self.run(&["rescue", "--json"], &[to]);
        let Ok(report) = serde_json::from_slice::<serde_json::Value>(&out.stdout) else {
            return Some(format!("no report: {}", said(&out)));
        };
        let counts = (&report["classes"]["C"], &report["failed"], report["names_without_inode"].as_array());
        let expected: (_, _, _) = (&0.into(), &0.into(), Some(&Vec::new()));
        if counts != expected || out.status.code() != Some(0) {
            return Some(format!("{:?}, doubtful, failed, lost: {counts:?}", out.status.code()));
        }
        self.same(&target)
    }

    fn same(&self, target: &Path) -> Option<String> {
        difference(&self.volume.files, &read(target))
    }

    /// All deleted files, proven. Without the SSA none is proven; without another table the error names that
    /// table.
    fn undelete(&self) -> Option<String> {
        let target = self.target();
        let out = self.run(&["undelete", "--json", "--to", target.to_str().unwrap()], &[]);
        let code = out.status.code();
        let Ok(report) = serde_json::from_slice::<serde_json::Value>(&out.stdout) else {
            let text = said(&out);
            let named = MISSING.iter().any(|m| text.contains(m));
            return (self.areas & NEEDED == 0 || code != Some(1) || !named).then_some(text);
        };
        let doubtful = &report["doubtful"] != 0 || &report["failed"] != 0;
        if code != Some(i32::from(doubtful)) || doubtful && self.areas == 0 {
            return Some(format!("{code:?}: {}", said(&out)));
        }
        // Partial copies have another name.
        let mut found = read(&target);
        found.retain(|path, _| !path.ends_with(".partial"));
        if doubtful {
            return found
                .iter()
                .find(|(path, node)| self.volume.deleted.get(*path) != Some(*node))
                .map(|f| format!("{f:?}"));
        }
        difference(&self.volume.deleted, &found)
    }

    /// Clean only if nothing is wiped that the volume needs: the summaries and SIT entries of a small one are all in its pack.
    fn check(&self) -> Option<String> {
        let out = self.run(&["check"], &[]);
        let expected: &[i32] = match self.areas {
            0 => &[0],
            areas if areas & !SPARE == 0 => &[0, 4, 8],
            _ => &[4, 8],
        };
        let code = out.status.code().unwrap();
        (!expected.contains(&code)).then(|| format!("exit code {code}: {}", said(&out)))
    }

    fn extract(&self) -> Option<String> {
        self.copied("extract", &[])
    }

    fn get(&self) -> Option<String> {
        self.copied("get", &["/"])
    }

    /// Right, or refused with the structure that is missing.
    fn copied(&self, command: &str, more: &[&str]) -> Option<String> {
        let target = self.target();
        let out = self.run(&[command], &[more, &[target.to_str().unwrap()]].concat());
        self.right_or_refused(out.status.success(), &said(&out), || read(&target))
    }

    fn right_or_refused(&self, done: bool, said: &str, found: impl FnOnce() -> Tree) -> Option<String> {
        if done {
            return difference(&self.volume.files, &found());
        }
        let names_it = MISSING.iter().any(|m| said.contains(m));
        (self.areas == 0 || !names_it).then(|| format!("refused: {said}"))
    }

    fn library(&self) -> Option<String> {
        let device = ::segno::Device::open_several_read_only(&self.volume.devices);
        let opened = device.and_then(|d| {
            ::segno::Volume::open_with(&d, &::segno::MountOptions::new().read_only(true)).and_then(|v| {
                self.volume.files.iter().try_for_each(|(path, node)| match node {
                    super::tree::Node::File(bytes) => {
                        assert!(v.read(path)? == *bytes, "{path} has other content");
                        Ok(())
                    }
                    super::tree::Node::Link(to) => {
                        assert_eq!(v.read_link(path)?.to_str(), Some(to.as_str()));
                        Ok(())
                    }
                })
            })
        });
        let error = opened.err()?;
        let chain: Vec<_> = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source())
            .map(ToString::to_string)
            .collect();
        self.right_or_refused(false, &chain.join(": "), Tree::new)
    }

    /// Repaired so that all files are there and fsck.f2fs finds nothing, or refused without a write.
    fn repair(&self) -> Option<String> {
        self.repaired().err()
    }

    /// Whether it is repaired, or what is wrong.
    pub fn repaired(&self) -> Result<bool, String> {
        let before = self.volume.snapshot();
        let out = self.run(&["check", "-y"], &[]);
        let text = said(&out);
        if matches!(out.status.code(), Some(0 | 1)) {
            let target = self.target();
            let copied = self.run(&["get"], &["/", target.to_str().unwrap()]);
            assert!(copied.status.success(), "{}", said(&copied));
            let fault = self.same(&target).or_else(|| self.volume.fsck());
            return fault.map_or(Ok(true), |fault| Err(format!("{fault}: {text}")));
        }
        let unchanged = before == self.volume.snapshot();
        let refused = unchanged && self.areas != 0 && MISSING.iter().any(|m| text.contains(m));
        if refused { Ok(false) } else { Err(text) }
    }
}
