//! dump.f2fs.
use super::call::Call;
use crate::commands::info;
use crate::exit::{Outcome, WithCode};
use crate::image;
use crate::out::stdout;
use anyhow::{Context, Result, bail};
use segno::inspect;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Tables, with the options that select entries of them.
const TABLES: [(char, &str); 3] = [('n', "nat"), ('s', "sit"), ('a', "ssa")];

pub fn run(call: &Call) -> Outcome {
    let calls = calls(call).map_err(|e| WithCode(call.tool.usage, e))?;
    if calls.is_empty() {
        summary(Path::new(call.device()?))?;
    }
    for words in calls {
        crate::program::run_words(words)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Superblock and checkpoint, with the lines that libblockdev and GParted read.
fn summary(device: &Path) -> Result<()> {
    let device = image::open(&[device.to_owned()], image::READ_ONLY)?;
    let sb = inspect::superblock(&*device)?;
    let inspect::Pack { cp, number, .. } = inspect::checkpoint(&*device, &sb)?;
    let mut out = stdout();
    writeln!(out, "\nSuper block")?;
    fields(&mut out, &info::superblock(&sb))?;
    writeln!(out, "\nCheckpoint")?;
    fields(&mut out, &info::checkpoint(&cp, number))?;
    let raw = &sb.raw;
    let sector = 1u64 << raw.log_sectorsize.get();
    let bytes = raw.block_count.get() << raw.log_blocksize.get();
    writeln!(out, "\nInfo: sector size = {sector}")?;
    writeln!(out, "Info: superblock features = {:x} : {}", raw.feature.get(), sb.features.names().join(" "))?;
    writeln!(out, "Info: total FS sectors = {} ({} MB)", bytes / sector, bytes >> 20)?;
    writeln!(out, "Info: CKPT version = {:x}", cp.checkpoint_ver.get())?;
    Ok(())
}

/// Numbers as dump.f2fs writes them.
fn fields(out: &mut impl Write, object: &Value) -> Result<()> {
    for (name, value) in object.as_object().into_iter().flatten() {
        if let Some(number) = value.as_u64() {
            writeln!(out, "{name:<30}\t[0x{number:8x} : {number}]")?;
        }
    }
    Ok(())
}

/// A call of a command for each structure.
fn calls(call: &Call) -> Result<Vec<Vec<OsString>>> {
    let device = call.device()?.to_owned();
    let command = |words: &[&OsStr]| {
        let words = words.iter().map(|w| (*w).to_owned());
        [OsString::from("segno")].into_iter().chain(words).collect::<Vec<_>>()
    };
    let dump = |what: &[&str]| {
        let mut words = command(&["dump".as_ref(), &device]);
        words.extend(what.iter().map(OsString::from));
        words
    };
    let mut calls = Vec::new();
    if let Some(ino) = call.number('i')? {
        calls.push(dump(&["inode", &ino.to_string()]));
    }
    if let Some(ino) = call.number('I')? {
        let mut words = dump(&["inode", &ino.to_string()]);
        words.push("--versions".into());
        calls.push(words);
    }
    for (letter, table) in TABLES {
        if let Some(range) = call.text(letter)? {
            let range = range_of(range).with_context(|| format!("dump.f2fs: -{letter} {range}"))?;
            let what: Vec<&str> = [table].into_iter().chain(range.as_deref()).collect();
            calls.push(dump(&what));
        }
    }
    if let Some(addr) = call.number('b')? {
        calls.extend([dump(&["owner", &addr.to_string()]), dump(&["block", &addr.to_string()])]);
    }
    if call.has('M') {
        calls.push(command(&[
            "extents".as_ref(),
            "--all".as_ref(),
            "--image".as_ref(),
            &device,
            "/".as_ref(),
        ]));
    }
    match (call.has('r'), call.value('o')) {
        (false, None) => {}
        (true, Some(to)) => calls.push(command(&["get".as_ref(), &device, "/".as_ref(), to])),
        (true, None) => bail!("dump.f2fs: -r needs -o DIRECTORY, where the files are copied to"),
        (false, Some(_)) => {
            bail!("dump.f2fs: -o is for -r, which copies all files; `segno get IMAGE PATH… DIR` copies some")
        }
    }
    Ok(calls)
}

/// `A~B` as `A..B`; nothing for all.
fn range_of(text: &str) -> Result<Option<String>> {
    let (from, to) = text.split_once('~').context("it is not of the form A~B")?;
    let number = |text: &str| text.parse::<i64>().with_context(|| format!("{text:?} is not a number"));
    match (number(from)?, number(to)?) {
        (0, -1) => Ok(None),
        (from, -1) if from > 0 => Ok(Some(format!("{from}..{}", u32::MAX))),
        (from, to) if (0..=to).contains(&from) => Ok(Some(format!("{from}..{to}"))),
        _ => bail!("the range is not one"),
    }
}

#[cfg(test)]
mod tests {
    use super::range_of;

    #[test]
    fn ranges_end_before_their_second_number() {
        for (text, range) in [
            ("0~-1", Some(None)),
            ("3~9", Some(Some("3..9".to_owned()))),
            ("9~3", None),
            ("-2~3", None),
            ("3", None),
            ("a~b", None),
        ] {
            assert_eq!(range_of(text).ok(), range, "{text}");
        }
    }
}
