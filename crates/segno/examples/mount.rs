//! Mounts an image until it is unmounted: `mount IMAGE DIR [OPTIONS]`.
use segno::Device;
use segno::fuse::{Mount, run_broker_if_called};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    run_broker_if_called();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (image, dir, options) = match &args[..] {
        [image, dir] => (image, dir, ""),
        [image, dir, options] => (image, dir, options.as_str()),
        _ => return Err("usage: mount IMAGE DIR [OPTIONS]".into()),
    };
    let mount = Mount::spawn(&Device::open(image)?, dir, &options.parse()?)?;
    println!("mounted; `umount {}` ends it", mount.dir().display());
    Ok(mount.wait()?)
}
