//! `segno stats`: the counters of a live mount.
use crate::exit::Outcome;
use crate::mount::table::FSTYPES;
use anyhow::{Context, Result, anyhow};
use rustix::fs::getxattr;
use rustix::io::Errno;
use segno_fuse::STATS_XATTR;
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const BLOCK: f64 = segno_format::BLOCK_SIZE as f64;
/// What a mount writes, in blocks, except for what cleaning moves (counted in `data_blocks` and `node_blocks` or not,
/// as the names say).
const WRITTEN: [&str; 5] = ["data_blocks", "gc_data_blocks", "dent_blocks", "node_blocks", "meta_blocks"];

/// Show the counters of a mount
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Any file or directory of the mount
    dir: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let mut counters = read(&args.dir)?;
    let waf = write_amplification(&counters);
    let mut out = stdout().lock();
    if args.json {
        counters.insert("write_amplification".into(), json!(waf));
        writeln!(out, "{}", Value::Object(counters))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in &counters {
        writeln!(out, "{name:24} {value:>14}")?;
    }
    if let Some(waf) = waf {
        writeln!(out, "{:24} {waf:>14.3}", "write_amplification")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Map<String, Value>> {
    let mut buffer = vec![0; 65_536];
    let n = getxattr(path, STATS_XATTR, &mut buffer).map_err(|e| match e {
        Errno::OPNOTSUPP | Errno::NODATA => {
            let types = FSTYPES.join(" or ");
            anyhow!("{} is not on a mount of segno ({types} in /proc/mounts)", path.display())
        }
        Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED => {
            anyhow!("the server of {0} has died: `segno umount {0}`", path.display())
        }
        e => anyhow!(e).context(format!("cannot read the counters of {}", path.display())),
    })?;
    serde_json::from_slice(buffer.get(..n).unwrap_or_default()).context("the server's response is malformed")
}

/// Bytes written to the device for each byte that callers wrote.
fn write_amplification(counters: &Map<String, Value>) -> Option<f64> {
    let get = |name: &str| counters.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let user = get("user_bytes");
    let blocks: f64 = WRITTEN.iter().map(|name| get(name)).sum();
    (user > 0.0).then(|| blocks * BLOCK / user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_counts_every_kind_of_block_once() {
        let mut counters = Map::new();
        assert_eq!(write_amplification(&counters), None);
        counters.insert("user_bytes".into(), json!(8192));
        for name in WRITTEN {
            counters.insert(name.into(), json!(2));
        }
        counters.insert("gc_node_blocks".into(), json!(100));
        assert_eq!(write_amplification(&counters), Some(5.0));
    }
}
