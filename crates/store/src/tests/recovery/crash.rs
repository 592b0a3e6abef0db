//! The crashed volume: thousands of acknowledged files of a client that was killed.
use super::super::fault_store::Faults;
use super::super::mem_spool::MemSpool;
use super::super::{create, notices, open, open_cached, options, store};
use super::log::Media;
use super::trial::{Kind, LIMIT, Outcome};
use crate::{Geometry, StoreDevice};
use segno_device::BlockDevice;
use segno_format::Block;
use segno_sim::recovery::Crashed;
use segno_sim::setup::{self, Setup};
use std::sync::Arc;
use std::time::Duration;

/// The geometry of the simulator's volume; a zone has one segment.
const GEOMETRY: Geometry = Geometry { zone_blocks: 512, zones: 128, conventional: 9 };

/// A volume with acknowledged changes, and the bucket and cache that its killed client left. Sizes are 0 and
/// 1.
pub(super) fn crash(kind: Kind, seed: u64, size: u64) -> Outcome<(Crashed, Media)> {
    let number = setup::large_named("largezoned")? + (size + 2 * seed) * setup::large();
    let setup = setup::large_setup(number)?;
    let store = store(seed, Faults::default());
    let device = create(&store, GEOMETRY);
    place(&setup, &device).map_err(|e| format!("the empty volume: {e}"))?;
    drop(device);
    let client = store.client();
    let spool = MemSpool::new(seed);
    let device = match kind {
        Kind::Store => open(&client, options()),
        Kind::Uploaded | Kind::Spooled => open_cached(&client, &spool, LIMIT, false),
    };
    let device = Arc::new(device.map_err(|e| e.to_string())?);
    if kind == Kind::Spooled {
        // Uploads lag, and end in the middle.
        spool.set_faults(3, 0);
        store.set_faults(Faults { latency: Duration::from_millis(50), ..Faults::default() });
        client.cut_after(100 + seed % 50);
    }
    let crashed = Crashed::on(device.clone(), setup, number)?;
    if kind != Kind::Spooled {
        device.drain().map_err(|e| e.to_string())?;
    }
    client.cut();
    Arc::into_inner(device).ok_or("the device is in use")?.abandon();
    let _of_the_killed_client = notices();
    Ok((crashed, Media { objects: store.objects(), files: spool.content() }))
}

/// Copies the empty volume of a setup.
fn place(setup: &Setup, device: &StoreDevice) -> std::io::Result<()> {
    let from = setup.empty_volume()?;
    for zone in from.zones()? {
        let is_sequential = zone.pointer > zone.start;
        let end = if is_sequential { zone.pointer } else { zone.start + zone.blocks };
        for at in zone.start..end {
            let mut block = [Block::zeroed()];
            from.read(at, &mut block)?;
            if is_sequential || block[0].0.iter().any(|&b| b != 0) {
                device.write(at, &[&block[0]])?;
            }
        }
    }
    device.flush()
}
