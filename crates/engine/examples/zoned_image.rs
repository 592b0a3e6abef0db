//! A zoned volume that a policy has cleaned, for Linux to mount: `zoned_image POLICY DIR` writes `image`,
//! `zones` (first block and blocks written of each sequential zone) and `file`, the expected content of the
//! volume's only file.
use segno_device::{BlockDevice, ZoneKind, ZoneLimits};
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::{BLOCK_SIZE, Block, Ino};
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::{ZoneShape, ZonedDevice};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Linux 6.1 resets zones of a single segment wrongly: several at once, which it then refuses itself.
const SHAPE: ZoneShape = ZoneShape {
    zones: 37,
    conventional: 5,
    blocks: 1024,
    capacity: 1024,
    limits: ZoneLimits { open: 8, active: 8 },
};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [policy, dir] = args.as_slice() else { return Err("usage: zoned_image POLICY DIR".into()) };
    let dev = Arc::new(ZonedDevice::new(SHAPE));
    let content = worn(&dev, policy)?;
    let dir = Path::new(dir);
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("file"), content)?;
    let mut zones = BufWriter::new(File::create(dir.join("zones"))?);
    for z in dev.zones()?.iter().filter(|z| z.kind == ZoneKind::Sequential && z.pointer > z.start) {
        writeln!(zones, "{} {}", z.start, z.pointer - z.start)?;
    }
    let mut image = BufWriter::new(File::create(dir.join("image"))?);
    let mut block = [Block::zeroed()];
    for addr in 0..dev.block_count() {
        dev.read(addr, &mut block)?;
        block.iter().try_for_each(|b| image.write_all(&b.0))?;
    }
    Ok(())
}

/// Fills a file, overwrites it twice at random, and unmounts; returns its content.
fn worn(dev: &Arc<ZonedDevice>, policy: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let device: Arc<dyn BlockDevice> = dev.clone();
    let how = MkfsOptions {
        zoned: true,
        overprovision_percent: Some(20.0),
        reserved_sections: Some(6),
        ..MkfsOptions::default()
    };
    format(&[Member { device: device.clone(), path: "memory".into(), zeroed: true }], &how)?;
    let opts = MountOptions {
        background: false,
        gc_policy: Some(policy.to_owned()),
        cache_bytes: 4 << 20,
        ..MountOptions::default()
    };
    let v = Volume::mount(device, opts)?;
    let main = v.superblock().geo.main_blkaddr;
    if u64::from(main) != u64::from(SHAPE.conventional) * SHAPE.blocks {
        return Err(format!("the main area begins at block {main}").into());
    }
    let ino = v.mknod(Ino::ROOT, b"file", 0o100_644, (0, 0), Owner::default())?.ino;
    let blocks = v.statfs().bfree * 9 / 10;
    let mut content = Vec::new();
    let mut random = 7u64;
    for n in 0..blocks * 3 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = if n < blocks { n } else { ((random >> 33) * blocks) >> 31 };
        let bytes = ((block << 32) | n).to_le_bytes().repeat(BLOCK_SIZE / 8);
        let at = block as usize * BLOCK_SIZE;
        v.write(ino, at as u64, &bytes)?;
        content.resize(content.len().max(at + BLOCK_SIZE), 0);
        content.get_mut(at..at + BLOCK_SIZE).ok_or("out of range")?.copy_from_slice(&bytes);
        if n % 97 == 0 {
            v.fsync(ino)?;
        }
    }
    let cleaned = v.stats().gc_sections.load(Ordering::Relaxed);
    v.unmount()?;
    let counts = dev.counts();
    println!("{policy}: {cleaned} sections cleaned, {counts:?}");
    if cleaned < 20 || counts.violations > 0 {
        Err("too little was cleaned, or a rule was broken".into())
    } else {
        Ok(content)
    }
}
