//! fsck.f2fs as a second judge of a volume in memory.
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_format::Block;
use segno_format::superblock::RawSuperblock;
use segno_testkit::f2fs_tools;
use std::path::Path;

/// Runs fsck.f2fs in the folder that the variable FSCK names, if it is set; whether it could judge the volume.
pub fn check(volume: &Snapshot) -> Result<bool, String> {
    let Some(dir) = std::env::var_os("FSCK") else { return Ok(false) };
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let from = MemDevice::from_snapshot(volume);
    let mut first = 0;
    let members = members(&from)?;
    // Damage may have changed the paths of devices to paths that exist on this system.
    if members.iter().any(|(name, _)| !name.bytes().all(|b| b.is_ascii_alphanumeric())) {
        return Ok(false);
    }
    for (name, end) in &members {
        f2fs_tools::copy(&from, first..*end, &dir.join(name)).map_err(|e| format!("{name}: {e}"))?;
        first = *end;
    }
    let name = members.first().map_or("image", |(name, _)| name.as_str());
    // Devices are named as the superblock has them, here without a folder.
    let findings = f2fs_tools::fsck_in(dir, Path::new(name))?.findings;
    if findings.is_empty() {
        return Ok(true);
    }
    Err(format!("fsck.f2fs: {:?}", findings.iter().take(5).collect::<Vec<_>>()))
}

/// Keeps a volume in the folder that the variable SAVE names, if it is set and the volume is on one device.
pub fn save(volume: &Snapshot, name: &str) -> Result<(), String> {
    let Some(dir) = std::env::var_os("SAVE") else { return Ok(()) };
    let from = MemDevice::from_snapshot(volume);
    if members(&from)?.len() > 1 {
        return Ok(());
    }
    let path = Path::new(&dir).join(name);
    f2fs_tools::copy(&from, 0..from.block_count(), &path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Names of the devices, each with the address at which it ends.
fn members(volume: &MemDevice) -> Result<Vec<(String, u64)>, String> {
    let mut one = [Block::zeroed()];
    volume.read(0, &mut one).map_err(|e| e.to_string())?;
    let [block] = &one;
    let sb = RawSuperblock::from_block(&block.0).parse(0).map_err(|e| e.to_string())?;
    let mut end = u64::from(sb.geo.segment0_blkaddr);
    let named = sb.devices.iter().map(|d| {
        end += u64::from(d.total_segments) * 512;
        (String::from_utf8_lossy(&d.path).into_owned(), end)
    });
    let named: Vec<_> = named.collect();
    Ok(if named.is_empty() { vec![("image".into(), volume.block_count())] } else { named })
}
