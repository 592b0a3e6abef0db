//! The object `map/E/S`.
use crate::Result;
use crate::ids::LogPlace;
use crate::log::extents::Extent;
use crate::log::map::{Map, OBJECT_BYTES, SEAL_BYTES, ZONE_BYTES};
use crate::log::volume::Volume;
use crate::wire::codec::{Decoder, Encoder, bytes_of};
use crate::wire::names::{Name, ObjectId};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

const MAP: &[u8; 8] = b"SEGNOMP1";

/// The state after the commit in a place.
pub(crate) fn encode_map(map: &Map, volume: &[u8; 16], place: LogPlace) -> Bytes {
    let mut e = Encoder::new(MAP);
    e.raw(volume);
    e.place(place);
    e.u32(map.seals.len() as u32);
    for (&epoch, &seq) in &map.seals {
        e.place(LogPlace::new(epoch, seq));
    }
    let objects: HashMap<u32, (u32, u16)> =
        map.named().enumerate().map(|(n, (index, o))| (index, (n as u32, o.base))).collect();
    e.u32(objects.len() as u32);
    for (_, object) in map.named() {
        e.object(object.id);
        e.u16(object.blocks);
    }
    e.u32(map.geometry.zones);
    for (_, zone) in map.zones() {
        e.u16(zone.pointer);
        e.u8(zone.finished.into());
        e.u16(zone.extents.len() as u16);
        for extent in zone.extents.iter() {
            let (object, base) = objects.get(&extent.object).copied().unwrap_or((u32::MAX, 0));
            e.u16(extent.start);
            e.u16(extent.len);
            e.u32(object);
            e.u16(base + extent.offset);
        }
    }
    bytes_of(e)
}

/// Reads a map and checks everything that later steps rely on.
pub(crate) fn decode_map(volume: &Volume, place: LogPlace, bytes: &[u8]) -> Result<Map> {
    let mut d = Decoder::new(Name::Map(place), MAP, bytes)?;
    if d.array::<16>()? != volume.id {
        return Err(d.bad("it belongs to another volume"));
    }
    if d.place()? != place {
        return Err(d.bad("it describes another commit"));
    }
    let seals =
        (0..d.count(SEAL_BYTES)?).map(|_| Ok((d.epoch()?, d.seq()?))).collect::<Result<BTreeMap<_, _>>>()?;
    let objects =
        (0..d.count(OBJECT_BYTES)?).map(|_| Ok((d.object()?, d.u16()?))).collect::<Result<Vec<_>>>()?;
    // Before the zones take memory.
    if d.count(ZONE_BYTES)? != volume.geometry.zones as usize {
        return Err(d.bad("it has another number of zones"));
    }
    let mut map = Map::new(volume.geometry);
    map.seals = seals;
    for zone in 0..volume.geometry.zones {
        decode_zone(&mut d, &mut map, zone, &objects)?;
    }
    d.end()?;
    Ok(map)
}

fn decode_zone(d: &mut Decoder<'_>, map: &mut Map, zone: u32, objects: &[(ObjectId, u16)]) -> Result<()> {
    let (pointer, finished, count) = (d.u16()?, d.u8()? != 0, d.u16()?);
    if count > map.geometry.zone_blocks {
        return Err(d.bad("more extents than blocks"));
    }
    if let Some(z) = map.zone_mut(zone) {
        z.extents.reserve(count);
    }
    let mut end = 0;
    for _ in 0..count {
        let (start, len, object, offset) = (d.u16()?, d.u16()?, d.u32()?, d.u16()?);
        let &(id, blocks) = objects.get(object as usize).ok_or_else(|| d.bad("an extent of no object"))?;
        let fits = u32::from(start) + u32::from(len) <= map.geometry.zone_blocks.into();
        if start < end || len == 0 || !fits || offset.checked_add(len).is_none() {
            return Err(d.bad("extents out of order"));
        }
        end = start + len;
        let object = map.intern(id, blocks);
        map.put(zone, Extent { start, len, object, offset });
    }
    if pointer < end || pointer > map.geometry.zone_blocks {
        return Err(d.bad("a write pointer before its blocks"));
    }
    if let Some(z) = map.zone_mut(zone) {
        (z.pointer, z.finished) = (pointer, finished);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, Seq};
    use crate::log::commit::{Op, Run};
    use crate::log::map::Geometry;

    #[test]
    fn a_map_is_read_back_and_nothing_altered_passes() {
        let geometry = Geometry { zone_blocks: 64, zones: 5, conventional: 1 };
        let volume = Volume { id: [9; 16], geometry, unfenced: true, marked: true };
        for marked in [false, true] {
            let volume = Volume { marked, ..volume };
            assert_eq!(Volume::decode(&volume.encode()).unwrap(), volume);
        }
        let mut map = Map::new(geometry);
        map.seals.insert(Epoch::new(1), Seq::new(7));
        let run = |zone, start, len, object, offset| Op::Run(Run { zone, start, len, object, offset });
        let (a, b) = (ObjectId::Data { epoch: Epoch::new(2), number: 1 }, ObjectId::Log(LogPlace::of(2, 4)));
        assert!(map.apply(&[run(0, 3, 2, b, 0), run(2, 0, 64, a, 5), run(3, 0, 1, b, 2), Op::Finish(3)], 3));
        assert!(!map.apply(&[run(5, 0, 1, a, 0)], 0) && !map.apply(&[run(1, 60, 5, a, 0)], 0));
        let bytes = encode_map(&map, &volume.id, LogPlace::of(2, 4));
        let again = decode_map(&volume, LogPlace::of(2, 4), &bytes).unwrap();
        assert_eq!(encode_map(&again, &volume.id, LogPlace::of(2, 4)), bytes);
        for at in 0..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[at] ^= 4;
            assert!(decode_map(&volume, LogPlace::of(2, 4), &bad).is_err(), "{at}");
            assert!(decode_map(&volume, LogPlace::of(2, 4), &bytes[..at]).is_err(), "{at}");
        }
    }

    /// Sizes that a volume cannot have, and counts without the records that they announce: each with a right
    /// checksum.
    #[test]
    fn sizes_and_counts_are_checked_before_they_take_memory() {
        let sound = Geometry { zone_blocks: 64, zones: 5, conventional: 1 };
        let volume = |geometry| Volume { id: [9; 16], geometry, unfenced: false, marked: true };
        for bad in [
            Geometry { zones: u32::MAX, ..sound },
            Geometry { zones: (1 << 20) + 1, ..sound },
            Geometry { zones: 1 << 20, zone_blocks: 4097, ..sound },
            Geometry { zone_blocks: 0, ..sound },
            Geometry { conventional: 6, ..sound },
        ] {
            assert!(Volume::decode(&volume(bad).encode()).is_err(), "{bad:?}");
        }
        let largest = Geometry { zones: 1 << 20, zone_blocks: 4096, conventional: 1 };
        Volume::decode(&volume(largest).encode()).unwrap();
        // Seals, objects and zones.
        for table in 0..3 {
            let mut e = Encoder::new(MAP);
            e.raw(&[9; 16]);
            e.u32(1);
            e.u64(2);
            (0..table).for_each(|_| e.u32(0));
            e.u32(u32::MAX);
            let why = decode_map(&volume(sound), LogPlace::of(1, 2), &bytes_of(e)).unwrap_err().to_string();
            assert!(
                why.contains("map/00000001/0000000000000002") && why.contains("too large"),
                "{table}: {why}"
            );
        }
        // The largest number of zones, of which the map has none.
        let mut e = Encoder::new(MAP);
        e.raw(&[9; 16]);
        e.u32(1);
        e.u64(2);
        (0..3).for_each(|_| e.u32(0));
        let why = decode_map(&volume(largest), LogPlace::of(1, 2), &bytes_of(e)).unwrap_err().to_string();
        assert!(why.contains("another number of zones"), "{why}");
    }

    /// The bound of a map is above every one that is written.
    #[test]
    fn a_map_of_single_blocks_is_within_its_bound() {
        let geometry = Geometry { zone_blocks: 64, zones: 40, conventional: 40 };
        let mut map = Map::new(geometry);
        for zone in 0..geometry.zones {
            for start in 0..64 {
                let object =
                    ObjectId::Data { epoch: Epoch::new(1), number: u64::from(zone * 64 + u32::from(start)) };
                assert!(map.apply(&[Op::Run(Run { zone, start, len: 1, object, offset: 0 })], 0));
            }
        }
        let bytes = encode_map(&map, &[9; 16], LogPlace::of(1, 2));
        assert!(bytes.len() as u64 <= geometry.map_bytes_max() && bytes.len() > 40 * 64 * 25);
    }
}
