//! `segno mounts`: lists mounts with the options in force.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::image;
use crate::mount::table;
use crate::out::stdout;
use crate::show;
use segno_device::Mount;
use segno_fuse::{OPTIONS_XATTR, SERVER_XATTR};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::process::ExitCode;

/// List the mounts of segno, with the options in force
#[derive(clap::Args, Default)]
pub struct Args {
    /// Report as JSON, with all options
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let mounts: Vec<Value> = table::read()?.iter().filter(|m| m.is_ours()).map(described).collect();
    let mut out = stdout();
    if args.json {
        Schema("segno.mounts", 1).print(&mut out, &json!({ "mounts": mounts }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for mount in &mounts {
        writeln!(out, "{}", line(mount))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn described(mount: &Mount) -> Value {
    let answer = |name| image::answer(&mount.dir, name);
    let options = answer(OPTIONS_XATTR);
    let state = match &options {
        Err(e) if image::is_dead(*e) => "its server has died",
        Err(_) => "does not say its options",
        Ok(_) => "mounted",
    };
    let server = answer(SERVER_XATTR)
        .ok()
        .and_then(|text| String::from_utf8(text).ok()?.split(' ').next()?.parse::<u32>().ok());
    json!({
        "image": mount.source.display().to_string(),
        "dir": mount.dir.display().to_string(),
        "type": mount.fstype,
        "read_only": mount.read_only,
        "user": mount.user,
        "server": server,
        "state": state,
        "options": options.ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok()),
    })
}

/// The options given for a mount, from the value of [`OPTIONS_XATTR`].
pub fn given(options: &Value) -> Vec<String> {
    let all = options.as_object().into_iter().flat_map(Map::values);
    all.filter_map(|option| Some(option["given"].as_str()?.to_owned())).collect()
}

/// As mount(8) prints them: the options that were given, with their values.
fn line(mount: &Value) -> String {
    let text = |key: &str| mount[key].as_str().unwrap_or_default().to_owned();
    let mode = if mount["read_only"] == true { "ro" } else { "rw" };
    let words: Vec<String> = [mode.to_owned()].into_iter().chain(given(&mount["options"])).collect();
    let state = if mount["state"] == "mounted" { String::new() } else { format!(": {}", text("state")) };
    let (image, dir) = (show::path(text("image").as_ref()), show::path(text("dir").as_ref()));
    format!("{image} on {dir} type {} ({}){state}", text("type"), words.join(","))
}
