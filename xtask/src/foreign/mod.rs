//! Makes the volumes of real Linux that the tests of the command read: `crates/cli/tests/data/foreign`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::paths::{f2fs_tool, run, tool};
use crate::twin::{Boot, Machine};

/// The guest's script; it contains the names and order of the volumes.
const GUEST: &str = include_str!("guest.sh");
const FEATURES: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,project_quota,quota,encrypt,\
                        verity,lost_found";
/// Names and options of mkfs.f2fs.
const VOLUMES: [(&str, &[&str]); 4] =
    [("plain", &[]), ("features", &["-O", FEATURES]), ("after-sload", &[]), ("cut", &[])];
const BYTES: u64 = 64 << 20;

/// Let Linux fill the volumes that tests of rescue, undelete, check, repair, extract and mounts read
///
/// The volumes are made by mkfs.f2fs, one of them filled by sload.f2fs first, changed by Linux in the kernel twin, and compressed by
/// zstd. `FOREIGN=all cargo test -p segno-cli foreign` reads them with every combination of areas wiped.
#[derive(Args)]
pub struct Foreign {
    /// Folder for the compressed images
    #[arg(long, value_name = "DIR", default_value = "crates/cli/tests/data/foreign")]
    into: PathBuf,
    /// Folder for trees and images
    #[arg(long, value_name = "DIR", default_value = "/tmp/segno-foreign")]
    work: PathBuf,
    /// Limit of the boot, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 1800)]
    timeout: u64,
}

impl Foreign {
    pub fn run(self) -> Result<ExitCode> {
        fs::create_dir_all(&self.work)?;
        let work = self.work.canonicalize()?;
        let mut disks = Vec::new();
        for (name, options) in VOLUMES {
            let image = work.join(name);
            fs::File::create(&image)?.set_len(BYTES)?;
            run(f2fs_tool("mkfs.f2fs")?.args(["-q", "-f"]).args(options).arg(&image))?;
            disks.push(image);
        }
        let source = work.join("source");
        plant(&source)?;
        let loaded = work.join("after-sload");
        run(f2fs_tool("sload.f2fs")?.arg("-f").args([&source, &loaded]))?;
        let copy = work.join("copy");
        self.boot(&disks, &copy)?;
        // The guest unmounted the volume; the copy is from before.
        fs::rename(&copy, work.join("cut"))?;
        fs::create_dir_all(&self.into)?;
        for (name, _) in VOLUMES {
            let to = self.into.join(format!("{name}.zst"));
            let mut zstd = Command::new(tool("zstd", "zstd")?);
            run(zstd.args(["-19", "-q", "-f"]).arg(work.join(name)).arg("-o").arg(&to))?;
            println!("{} {}", fs::metadata(&to)?.len(), to.display());
        }
        fs::remove_dir_all(&work)?;
        Ok(ExitCode::SUCCESS)
    }

    fn boot(&self, disks: &[PathBuf], copy: &Path) -> Result<()> {
        let names: Vec<String> = (0..disks.len()).map(|n| Machine::Qemu.disk_name(n)).collect();
        let boot = Boot {
            echo: true,
            ..Boot::new(
                format!("DISKS='{}'\nCOPY='{}'\n{GUEST}", names.join(" "), copy.display()),
                disks.to_owned(),
                Duration::from_secs(self.timeout),
            )
        };
        boot.run_to_end().map(drop)
    }
}

/// The tree for sload.f2fs.
fn plant(source: &Path) -> Result<()> {
    let file = |name: String, bytes: usize| {
        let path = source.join(&name);
        let lines = (1..).map(|i: usize| format!("{name} {i}\n")).take(bytes);
        let content: Vec<u8> = lines.flat_map(String::into_bytes).take(bytes).collect();
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
    };
    fs::create_dir_all(source.join("sload/many"))?;
    (0..30).try_for_each(|i| file(format!("sload/many/name-{i}"), i * 10))?;
    (0..10).try_for_each(|i| file(format!("sload/file-{i}"), i * 2000))
}
