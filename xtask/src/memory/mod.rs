//! The memory of a server under loads that grow: its peak must stay within `cache=` and a fixed allowance.

mod load;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::kills::volume::Volume;
use load::Load;

const MIB: u64 = 1 << 20;
/// Memory that a server may use in addition to its cache: the program, buffers of requests, blocks in flight,
/// allocator slack.
const ALLOWANCE: u64 = 128 * MIB;
/// The allowance for the small loads, which cause almost no allocator slack.
const ALLOWANCE_QUICK: u64 = 32 * MIB;

/// Measure the peak memory of a server with many files, a large directory, copies and much data; root or fusermount3
#[derive(Args)]
pub struct Memory {
    /// A twentieth of the files and data, with a small cache and a smaller allowance
    #[arg(long)]
    quick: bool,
    /// Only loads whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only this transport: classic or io_uring
    #[arg(long)]
    transport: Option<String>,
    /// The program to test; an optimised build
    #[arg(long, env = "SEGNO", default_value_os_t = crate::paths::target_dir().join("release/segno"))]
    segno: PathBuf,
    /// Where images and the mount point go; needs 15 GiB
    #[arg(long, default_value = "/tmp/segno-memory")]
    work: PathBuf,
}

/// One measurement.
struct Case {
    load: Load,
    cache_mib: u64,
    /// Sections of 8 MiB, written in order, as on a zoned disk.
    zones: bool,
}

impl Case {
    fn name(&self) -> String {
        format!("{}{}", self.load.name(), if self.zones { " in 8M zones" } else { "" })
    }
}

impl Memory {
    pub fn run(&self) -> Result<ExitCode> {
        fs::create_dir_all(&self.work).with_context(|| format!("making {}", self.work.display()))?;
        println!("{:>9}  {:30} {:>6}  {:>10} {:>10}", "transport", "load", "cache", "peak", "bound");
        let mut over = 0;
        for transport in ["io_uring", "classic"] {
            if self.transport.as_ref().is_some_and(|only| only != transport) {
                continue;
            }
            if transport == "io_uring" && !has_uring() {
                println!("NOT TESTED: io_uring: this kernel does not offer FUSE over io_uring");
                continue;
            }
            for case in self.cases().iter().filter(|c| c.name().contains(&self.only)) {
                let peak = self.peak(case, transport)?;
                let allowance = if self.quick { ALLOWANCE_QUICK } else { ALLOWANCE };
                let bound = case.cache_mib * MIB + allowance;
                let verdict = if peak > bound { "TOO MUCH" } else { "" };
                over += u32::from(peak > bound);
                println!(
                    "{transport:>9}  {:30} {:>4} M  {:>8} K {:>8} K  {verdict}",
                    case.name(),
                    case.cache_mib,
                    peak >> 10,
                    bound >> 10
                );
            }
        }
        if over > 0 {
            bail!("{over} loads took more memory than the bound");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn cases(&self) -> Vec<Case> {
        let part = if self.quick { 20 } else { 1 };
        let (default, small) = if self.quick { (16, 8) } else { (256, 32) };
        let case = |load, cache_mib| Case { load, cache_mib, zones: false };
        let large = Load::Data { mib: 10_240 / part };
        let zoned = [64, 256, 1024].map(|cache_mib| Case { load: large, cache_mib, zones: true });
        let mut all = vec![
            case(Load::Files { count: 1_000_000 / part }, default),
            case(Load::Directory { count: 500_000 / part }, default),
            case(Load::Directory { count: 500_000 / part }, small),
            case(Load::Copies { count: 200_000 / part }, small),
            case(large, default),
            case(large, small),
        ];
        if !self.quick {
            all.extend(zoned);
        }
        all
    }

    /// Largest resident set of a server that was mounted for the load, in bytes. The volume is checked afterwards.
    fn peak(&self, case: &Case, transport: &str) -> Result<u64> {
        let mode = if case.zones { ",mode=lfs" } else { "" };
        let options = format!("cache={}M,transport={transport}{mode}", case.cache_mib);
        let format: &[&str] = if case.zones { &["-s", "4"] } else { &[] };
        let volume = Volume::make(&self.segno, &self.work, 32 << 10, format, &["-o", &options])?;
        let server = volume.mount()?;
        case.load.run(&volume.dir()).with_context(|| format!("the load {}", case.load.name()))?;
        let peak = resident_peak(server.id())?;
        volume.unmount(server)?;
        volume.check()?;
        fs::remove_file(volume.image()).context("removing the image")?;
        Ok(peak)
    }
}

fn has_uring() -> bool {
    fs::read_to_string("/sys/module/fuse/parameters/enable_uring").is_ok_and(|on| on.trim() == "Y")
}

fn resident_peak(process: u32) -> Result<u64> {
    let status =
        fs::read_to_string(format!("/proc/{process}/status")).context("reading the server's status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM in the status")?;
    let kib = line.trim().trim_end_matches("kB").trim();
    Ok(kib.parse::<u64>().context("VmHWM is no number")? << 10)
}
