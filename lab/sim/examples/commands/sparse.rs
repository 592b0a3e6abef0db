//! Android sparse images: of a damaged volume, with any values in headers; or made of chunks of any size.
use segno_testkit::{Rng, rng};
use std::path::Path;

const MAGIC: u32 = 0xED26_FF3A;

pub fn make(seed: u64, number: u64, path: &Path) -> Result<(), String> {
    let mut rng = Rng::new(rng::mix(seed) ^ number);
    let chunks = rng.below(12) as u32;
    let (mut body, mut blocks) = (Vec::new(), 0u32);
    for _ in 0..chunks {
        let kind = if rng.one_in(20) { 0xCAC5 } else { 0xCAC1 + rng.below(4) as u16 };
        let (count, data) = match kind {
            0xCAC1 => (8, 8 * 4096),
            0xCAC2 => (1 << rng.below(17), 4),
            0xCAC3 => (1 << rng.below(32), 0),
            _ => (0, 4),
        };
        let count = if rng.one_in(20) { rng.draw() as u32 } else { count };
        let total = if rng.one_in(20) { rng.draw() as u32 } else { 12 + data as u32 };
        blocks = blocks.wrapping_add(count);
        body.extend(kind.to_le_bytes().into_iter().chain([0; 2]));
        body.extend(count.to_le_bytes().into_iter().chain(total.to_le_bytes()));
        let fill = if rng.one_in(2) { 0 } else { rng.draw() as u8 };
        body.extend(vec![fill; data]);
    }
    let total = if rng.one_in(10) { rng.draw() as u32 } else { blocks };
    let chunks = if rng.one_in(10) { rng.draw() as u32 } else { chunks };
    let mut out = MAGIC.to_le_bytes().to_vec();
    [1u16, 0, 28, 12].iter().for_each(|v| out.extend(v.to_le_bytes()));
    let size = if rng.one_in(10) { 1 << rng.below(32) } else { 4096u32 };
    [size, total, chunks, 0].iter().for_each(|v| out.extend(v.to_le_bytes()));
    out.extend(body);
    std::fs::write(path, out).map_err(|e| format!("{}: {e}", path.display()))
}
