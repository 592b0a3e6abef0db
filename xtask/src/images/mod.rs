//! Images that `segno build` made, mounted by Linux: content must be that of the tree, and writable ones must take more.

mod tree;

pub use tree::plant;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::paths::{run, target_dir};
use crate::twin::{Boot, Machine};

/// Images for one boot.
const DISKS: usize = 12;
/// Free space for the changes on images that can be written.
const ROOM: &str = "32M";
const ALGORITHMS: [&str; 6] = ["lz4", "lz4:9", "zstd", "zstd:19", "lzo", "lzo-rle"];
const CLUSTERS: [&str; 4] = ["2", "4", "6", "8"];

/// Linux mounts images of `segno build`: plain, read-only, compressed; it continues writing on writable ones
#[derive(Args)]
pub struct Images {
    /// Only layouts whose options contain this
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    only: String,
    /// Files in the tree, 100 at least
    #[arg(long, value_name = "N", default_value_t = 1000)]
    files: u32,
    /// The segno program [default: target/release/segno]
    #[arg(long, env = "SEGNO", value_name = "PROGRAM")]
    segno: Option<PathBuf>,
    /// Folder for tree and images
    #[arg(long, value_name = "DIR", default_value = "/tmp/segno-images")]
    work: PathBuf,
    /// Limit of one boot, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 1800)]
    timeout: u64,
}

/// An image and how it was made.
struct Image {
    options: String,
    path: PathBuf,
}

impl Images {
    pub fn run(self) -> Result<ExitCode> {
        let program = self.segno.clone().unwrap_or_else(|| target_dir().join("release/segno"));
        let program = program
            .canonicalize()
            .with_context(|| format!("no program {}; name one with --segno", program.display()))?;
        let source = self.work.join("tree");
        if self.work.exists() {
            fs::remove_dir_all(&self.work).with_context(|| format!("emptying {}", self.work.display()))?;
        }
        fs::create_dir_all(&self.work)?;
        // The changes need four directories.
        ensure!(self.files >= 4 * tree::EACH, "--files takes {} or more", 4 * tree::EACH);
        plant(&source, self.files)?;
        let wanted = fs::canonicalize(&source).and_then(|dir| hashes(&dir).map_err(std::io::Error::other))?;
        let mut failed = 0;
        let layouts: Vec<String> = layouts().into_iter().filter(|l| l.contains(&self.only)).collect();
        for (batch, layouts) in layouts.chunks(DISKS).enumerate() {
            let build = |(i, options): (usize, &String)| {
                let path = self.work.join(format!("{batch}.{i}.img"));
                let image = Image { options: options.clone(), path };
                let words = options.split(' ').filter(|w| !w.is_empty());
                let room: &[&str] = if is_writable(&image) { &["--headroom", ROOM] } else { &[] };
                let mut build = Command::new(&program);
                run(build.args(["build", "-f"]).args(room).args(words).args([&source, &image.path]))?;
                Ok(image)
            };
            let images: Vec<Image> = layouts.iter().enumerate().map(build).collect::<Result<_>>()?;
            failed += self.visit(&images, &wanted, &program)?;
            images.iter().try_for_each(|image| fs::remove_file(&image.path))?;
        }
        fs::remove_dir_all(&self.work)?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Lets Linux read the images, and write to the writable ones. Returns the number of failures.
    fn visit(&self, images: &[Image], wanted: &str, program: &Path) -> Result<u32> {
        let boot = Boot::new(
            script(images),
            images.iter().map(|i| i.path.clone()).collect(),
            Duration::from_secs(self.timeout),
        );
        let run = boot.run_to_end()?;
        let mut failed = 0;
        for (i, image) in images.iter().enumerate() {
            match judge(image, &run.output, i, wanted, program) {
                Ok(()) => println!("{:<60} ok", image.options),
                Err(e) => {
                    failed += 1;
                    println!("{:<60} FAILED: {e:#}", image.options);
                }
            }
        }
        if failed > 0 {
            eprintln!("the guest said:\n{}", run.output.join("\n"));
        }
        Ok(failed)
    }
}

/// Options of the builds, in which `-O ro` marks what Linux only reads.
fn layouts() -> Vec<String> {
    let all =
        "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,sb_checksum,lost_found,project_quota";
    let mut layouts: Vec<String> =
        ["", "-O ro", "-s 4", &format!("-O {all}"), &format!("-O ro,{all}"), "-C utf8", "-i"]
            .map(str::to_owned)
            .to_vec();
    for algorithm in ALGORITHMS {
        for cluster in CLUSTERS {
            for more in ["-O ro", "", "-O ro --reserved"] {
                layouts.push(format!("{more} --compress {algorithm} --cluster {cluster}").trim().to_owned());
            }
        }
    }
    layouts
}

fn is_writable(image: &Image) -> bool {
    !image.options.contains("-O ro")
}

/// For each disk: mount, one hash over all files, and for writable ones changes of old files and a new one.
fn script(images: &[Image]) -> String {
    let mut script = String::from("mkdir -p /mnt/m\n");
    for (i, image) in images.iter().enumerate() {
        let disk = Machine::Qemu.disk_name(i);
        script += &format!(
            "mount -t f2fs -o ro {disk} /mnt/m && echo disk {i} $({HASHES}) && umount /mnt/m || echo disk {i} failed\n",
        );
        if is_writable(image) {
            script +=
                &format!("mount -t f2fs {disk} /mnt/m && {CHANGES} && umount /mnt/m && echo wrote {i}\n");
        }
    }
    script
}

/// One hash over the hashes of all files in the order of their paths.
const HASHES: &str = "cd /mnt/m && find . -path ./lost+found -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-64; cd /";
/// Overwrites a part of a file, appends, truncates, removes and adds.
const CHANGES: &str = "dd if=/dev/urandom of=/mnt/m/d0/f0 bs=1000 count=7 seek=3 conv=notrunc 2>/dev/null && \
     cat /mnt/m/d0/f1 >> /mnt/m/d1/f1 && truncate -s 9999 /mnt/m/d0/f2 && rm -r /mnt/m/d2 && cp -r /mnt/m/d3 /mnt/m/new && sync";

/// The hash of [`HASHES`] over a tree of the host.
fn hashes(dir: &Path) -> Result<String> {
    let script = HASHES.replace("/mnt/m", dir.to_str().context("a path that is text")?);
    Ok(run(Command::new("sh").args(["-c", &script]))?.trim().to_owned())
}

fn judge(image: &Image, output: &[String], number: usize, wanted: &str, program: &Path) -> Result<()> {
    let said = output.iter().find_map(|line| line.strip_prefix(&format!("disk {number} ")));
    let said = said.context("Linux said nothing of it")?;
    ensure!(said == wanted, "Linux reads {said}, the tree is {wanted}");
    if is_writable(image) {
        ensure!(output.iter().any(|line| *line == format!("wrote {number}")), "Linux could not write");
    }
    crate::fsck::require_clean(&image.path)?;
    run(Command::new(program).arg("check").arg(&image.path))?;
    Ok(())
}
