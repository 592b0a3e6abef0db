//! mkfs.f2fs and make_f2fs.
use super::call::Call;
use crate::commands::mkfs::SECTOR;
use crate::exit::{Outcome, WithCode};
use anyhow::{Context, ensure};
use segno_format::{BLOCK_SIZE, Features};
use std::ffi::{OsStr, OsString};

/// Features that `-g android` adds on a writable volume.
const ANDROID: &str = "encrypt,quota,project_quota,extra_attr,verity";

pub fn run(call: &Call) -> Outcome {
    let wrong = |e| WithCode(call.tool.usage, e);
    crate::program::run_words(words(call).map_err(wrong)?)
}

fn words(call: &Call) -> anyhow::Result<Vec<OsString>> {
    ensure!(
        !call.has('h') && !call.has_long("help"),
        "usage: mkfs.f2fs [OPTION…] DEVICE [SECTORS]; mkfs.segno(8) describes the options"
    );
    for name in
        call.values('O').filter_map(OsStr::to_str).flat_map(|o| o.split(',')).filter(|n| !n.is_empty())
    {
        let is_known = Features::from_mkfs_name(name.trim()).is_some();
        ensure!(is_known, "mkfs.f2fs: -O {name}: there is no such feature");
    }
    let mut words: Vec<OsString> = ["segno", "mkfs"].map(OsString::from).into();
    words.extend(call.own());
    // Callers expect what mkfs.f2fs makes.
    words.extend(["--journal", "none"].map(OsString::from));
    let mut option = |name: &str, value: &OsStr| words.extend([name.into(), value.to_owned()]);
    // Any other value means nothing: systemd passes the option that follows.
    let android = call.value('g').is_some_and(|set| set == "android");
    if android {
        let is_ro = call.values('O').filter_map(OsStr::to_str).any(|o| o.split(',').any(|f| f == "ro"));
        if !is_ro {
            option("-O", ANDROID.as_ref());
        }
        option("-R", "0:0".as_ref());
    } else if let Some(owner) = call.value('R') {
        option("-R", owner);
    }
    if let Some(time) = call.number('T')? {
        option("-T", time.to_string().as_ref());
    }
    if let Some(bytes) = call.number('S')? {
        option("--size", (bytes & !4095).to_string().as_ref());
        words.push("--sparse".into());
    }
    if android && !call.has('f') {
        words.push("-f".into());
    }
    for device in call.values('c').filter_map(OsStr::to_str) {
        ensure!(
            !device.contains('@'),
            "mkfs.f2fs: -c {device}: files that stand for devices (@) are not supported"
        );
    }
    ensure!(!call.operands.is_empty(), "mkfs.f2fs: no device is named");
    ensure!(call.operands.len() <= 2, "mkfs.f2fs: more than a device and a number of sectors is named");
    words.push("--".into());
    words.extend(call.operands.first().cloned());
    words.extend(sectors(call, android)?.map(|n| n.to_string().into()));
    Ok(words)
}

/// The number of sectors of 512 bytes. The call counts in sectors of the size given with `-w`, which is not
/// recorded; Android's are blocks.
fn sectors(call: &Call, android: bool) -> anyhow::Result<Option<u64>> {
    let Some(text) = call.operands.get(1) else { return Ok(None) };
    let count: Option<u64> = text.to_str().and_then(|n| n.parse().ok());
    let count =
        count.with_context(|| format!("mkfs.f2fs: {} is not a number of sectors", text.to_string_lossy()))?;
    let size = if android { BLOCK_SIZE as u64 } else { call.number('w')?.unwrap_or(SECTOR) };
    ensure!(
        [512, 1024, 2048, 4096].contains(&size),
        "mkfs.f2fs: sectors of {size} bytes (-w) are not supported"
    );
    Ok(Some(count.saturating_mul(size / SECTOR)))
}
