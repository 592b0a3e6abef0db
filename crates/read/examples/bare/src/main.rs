//! `bare IMAGE ls PATH` and `bare IMAGE cat PATH`
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, what, path] = &arguments[..] else { return Err("bare IMAGE ls|cat PATH".into()) };
    let image = std::fs::read(image)?;
    let out = match what.as_str() {
        "ls" => bare::list(&image, path.as_bytes()).map(|names| names.join(&b"\n"[..])),
        _ => bare::read(&image, path.as_bytes()),
    };
    Ok(std::io::stdout().write_all(&out.map_err(|e| e.to_string())?)?)
}
