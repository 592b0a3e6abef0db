//! Generates damage: random fields, or a known difficult shape.
use super::base::Base;
use super::decode::Layout;
use super::edit::{Edit, Image, Place, Value};
use super::fields::{Field, Kind};
use segno_device::{BlockDevice, MemDevice};
use segno_format::BlockAddr;
use segno_testkit::Rng;

/// Maximum number of fields changed in an image.
const EDITS: u64 = 16;
/// One of `SHAPED` images is a known shape, alone or with random changes.
const SHAPED: u64 = 4;

/// The image with a number.
pub fn image(bases: &[Base], seed: u64, number: u64) -> Option<Image> {
    let mut rng = Rng::new(segno_testkit::rng::mix(seed) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let base = bases.get(rng.below(bases.len() as u64) as usize)?;
    let dev = MemDevice::from_snapshot(&base.image);
    let mut edits = Vec::new();
    let shaped = rng.one_in(SHAPED);
    if shaped {
        edits.extend(shape(&base.layout, &dev, &mut rng));
    }
    // Few changes reach deep code paths, many find combinations.
    let more = if shaped { rng.below(3) } else { 1 + rng.below(EDITS).min(rng.below(EDITS)) };
    for _ in 0..more {
        edits.extend(field(&base.layout, &mut rng).map(|f| change(&base.layout, &dev, f, &mut rng)));
    }
    Some(Image { base: base.name.into(), edits, sealed: rng.one_in(2), session: rng.draw() >> 16 })
}

/// The image that bytes of a fuzzer stand for: four of a head, then eight for each change.
pub fn of_bytes(bases: &[Base], input: &[u8]) -> Option<Image> {
    let (&[base, sealed, s0, s1], rest) = input.split_first_chunk()?;
    let base = bases.get(usize::from(base) % bases.len().max(1))?;
    let edits = rest.chunks_exact(8).take(EDITS as usize).filter_map(|c| of_chunk(&base.layout, c)).collect();
    let session = u16::from_le_bytes([s0, s1]).into();
    Some(Image { base: base.name.into(), edits, sealed: sealed & 1 != 0, session })
}

fn of_chunk(layout: &Layout, chunk: &[u8]) -> Option<Edit> {
    let &[group, f0, f1, class, v0, v1, v2, v3] = chunk else { return None };
    let group = layout.groups.get(usize::from(group) % layout.groups.len().max(1))?;
    let f = group.get(usize::from(u16::from_le_bytes([f0, f1])) % group.len().max(1))?;
    let v = u32::from_le_bytes([v0, v1, v2, v3]);
    let value = match class % 6 {
        0 | 1 => Value::Raw(v.into()),
        2 => Value::Raw(u64::from(v).reverse_bits()),
        3 => Value::AddrOf(layout.places().nth(v as usize % layout.places().count().max(1))?),
        4 => Value::Raw(layout.nids.get(v as usize % layout.nids.len().max(1)).copied()?.into()),
        _ if v & 1 == 0 => Value::End,
        _ => Value::MaxNid,
    };
    Some(Edit { place: f.place, offset: f.offset, len: f.len, value })
}

fn one_of<T: Copy>(from: &[T], rng: &mut Rng) -> Option<T> {
    from.get(rng.below(from.len() as u64) as usize).copied()
}

fn field(layout: &Layout, rng: &mut Rng) -> Option<Field> {
    let group = layout.groups.get(rng.below(layout.groups.len() as u64) as usize)?;
    one_of(group, rng)
}

fn change(layout: &Layout, dev: &dyn BlockDevice, f: Field, rng: &mut Rng) -> Edit {
    let value = match f.kind {
        Kind::Addr if !rng.one_in(4) => address(layout, rng),
        Kind::Nid if !rng.one_in(4) => nid(layout, rng),
        _ => number(layout, dev, &f, rng),
    };
    Edit { place: f.place, offset: f.offset, len: f.len, value }
}

fn address(layout: &Layout, rng: &mut Rng) -> Value {
    match rng.below(8) {
        0 => Value::Raw(BlockAddr::NULL.0.into()),
        1 => Value::Raw(BlockAddr::NEW.0.into()),
        2 => Value::Raw(BlockAddr::COMPRESS.0.into()),
        3 => Value::End,
        4 => Value::AddrOf(Place::Checkpoint),
        5 => Value::AddrOf(Place::Nat(3)),
        _ => {
            let all: Vec<Place> = layout.places().collect();
            one_of(&all, rng).map_or(Value::End, Value::AddrOf)
        }
    }
}

fn nid(layout: &Layout, rng: &mut Rng) -> Value {
    match rng.below(6) {
        0 => Value::Raw(rng.below(4)),
        1 => Value::MaxNid,
        2 => Value::Raw(3 + rng.below(900)),
        _ => Value::Raw(one_of(&layout.nids, rng).unwrap_or(3).into()),
    }
}

/// A limit, a neighbour of the old value, or an arbitrary number.
fn number(layout: &Layout, dev: &dyn BlockDevice, f: &Field, rng: &mut Rng) -> Value {
    let bits = u32::from(f.len) * 8;
    let old = layout.block(dev, f.place).ok().and_then(|(block, at)| {
        let bytes = block.0.get(at + usize::from(f.offset)..)?.get(..f.len.into())?;
        Some(bytes.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b)))
    });
    Value::Raw(rng.field(old.unwrap_or_default(), bits))
}

/// Cycles and overlaps: references to wrong places.
fn shape(layout: &Layout, dev: &dyn BlockDevice, rng: &mut Rng) -> Vec<Edit> {
    let fields: Vec<&Field> = layout.groups.iter().flatten().collect();
    let pick = |rng: &mut Rng, wanted: &dyn Fn(&Field) -> bool| {
        let fitting: Vec<&Field> = fields.iter().copied().filter(|f| wanted(f)).collect();
        one_of(&fitting, rng).copied()
    };
    let set = |f: Field, value| vec![Edit { place: f.place, offset: f.offset, len: f.len, value }];
    let of_node = |f: &Field| matches!(f.place, Place::Node(_));
    let drawn = match rng.below(9) {
        // A directory names a directory above it, or itself.
        0 => pick(rng, &|f| {
            f.kind == Kind::Nid && matches!(f.place, Place::Data(d, _) if layout.dirs.contains(&d))
        })
        .map(|f| set(f, Value::Raw(one_of(&layout.dirs, rng).unwrap_or(3).into()))),
        // A node points at itself.
        1 => pick(rng, &|f| f.kind == Kind::Nid && of_node(f)).map(|f| match f.place {
            Place::Node(n) => set(f, Value::Raw(n.into())),
            _ => Vec::new(),
        }),
        // A node points at another one.
        2 => pick(rng, &|f| f.kind == Kind::Nid && of_node(f))
            .map(|f| set(f, Value::Raw(one_of(&layout.nids, rng).unwrap_or(3).into()))),
        // The NAT points into the metadata.
        3 => pick(rng, &|f| f.kind == Kind::Addr && matches!(f.place, Place::Nat(_))).map(|f| {
            let metadata =
                [Place::Checkpoint, Place::Nat(3), Place::Sit(0), Place::Summary(0), Place::Super(0)];
            set(f, one_of(&metadata, rng).map_or(Value::End, Value::AddrOf))
        }),
        // Two ids with one node.
        4 => pick(rng, &|f| f.kind == Kind::Addr && matches!(f.place, Place::Nat(_)))
            .map(|f| set(f, Value::AddrOf(Place::Node(one_of(&layout.nids, rng).unwrap_or(3))))),
        // A block with another owner: data, or a node.
        5 => pick(rng, &|f| f.kind == Kind::Addr && of_node(f)).map(|f| {
            let used: Vec<Place> =
                layout.places().filter(|p| matches!(p, Place::Data(..) | Place::Node(_))).collect();
            set(f, one_of(&used, rng).map_or(Value::End, Value::AddrOf))
        }),
        // An entry of a wrong type.
        6 => pick(rng, &|f| {
            f.len == 1 && f.offset > 40 && matches!(f.place, Place::Data(d, _) if layout.dirs.contains(&d))
        })
        .map(|f| set(f, Value::Raw(rng.below(9)))),
        // The chain is cyclic, or leaves its segment.
        7 => pick(rng, &|f| f.kind == Kind::Addr && matches!(f.place, Place::Chain(_))).map(|f| {
            let chain: Vec<Place> = layout.places().filter(|p| matches!(p, Place::Chain(_))).collect();
            set(f, one_of(&chain, rng).map_or(Value::End, Value::AddrOf))
        }),
        // An inode of another kind.
        _ => pick(rng, &|f| of_node(f) && f.offset < 4).map(|f| {
            let modes = [0o040_755, 0o100_644, 0o120_777, 0o010_600, 0o060_600, 0];
            let value = if f.offset == 0 { one_of(&modes, rng).unwrap_or(0) } else { rng.below(256) };
            set(f, Value::Raw(value))
        }),
    };
    drawn.unwrap_or_else(|| field(layout, rng).map_or(Vec::new(), |f| vec![change(layout, dev, f, rng)]))
}
